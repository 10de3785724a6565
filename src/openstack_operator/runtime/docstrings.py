"""Docstrings of fields: what stands below a field in the source of its class. Python keeps none of them.

Read from the source when they are asked for, a module at a time: only who generates and who explains needs them. With
pydantic's ``use_attribute_docstrings`` every process that loads the types of all kinds parses their source, which took
35 ms and 0.7 MB.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping


@functools.cache
def fields(cls: type) -> Mapping[str, str]:
    """Docstring of each annotated name of a class and its bases; empty where the newest of them has none."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__ != "builtins":
            found |= _classes(base.__module__).get(base.__qualname__, {})
    return found


@functools.cache
def _classes(module: str) -> Mapping[str, Mapping[str, str]]:
    """The docstrings of a module's classes, by the classes' qualified names."""
    return dict(_walk(ast.parse(inspect.getsource(sys.modules[module])), ""))


def _walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, _fields(child)
            yield from _walk(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.stmt):
            yield from _walk(child, prefix)


def _fields(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    last = ""
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            last = statement.target.id
            found[last] = ""
            continue
        match statement:
            case ast.Expr(value=ast.Constant(value=str() as text)) if last:
                found[last] = inspect.cleandoc(text)
        last = ""
    return found
