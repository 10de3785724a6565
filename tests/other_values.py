"""Another value for each field of a spec, found by the type: what a type takes is what its validation takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pydantic

from openstack_operator.cli import origins
from openstack_operator.kit import levels, overwrites
from openstack_operator.runtime.schema import Model

CANDIDATES: tuple[Any, ...] = (
    "another", "Another", "7Gi", "http://another.example/x", "7:77", "section/option", {"name": "another"},
    {"a": "b"}, ["another"], ["7:77"], ["172.30.0.0/24"], [{"key": "another"}], ["section/option"], ["web-download"],
    [{"origin": "another", "text": "[DEFAULT]\ndebug = true\n"}], [{"name": "another", "key": "another"}],
    [{"mountPath": "/another", "secretName": "another"}], [{"name": "another", "secretRef": {"name": "another"}}],
    "172.30.0.1/24",
)  # fmt: skip

SPOKEN: dict[str, Any] = {
    levels.TEXT: "[DEFAULT]\ndebug = true\n",
    overwrites.FIELD: {overwrites.POLICY: "{}", overwrites.LOGGING: "[loggers]"},
}
"""By the name of a field: any text is valid there, and only what services know reaches them."""


def literals(annotation: Any) -> Iterator[Any]:
    """The values of a Literal, however deep it stands in a type."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for one in get_args(annotation):
            yield from literals(one)


def nested(path: origins.Path, value: Any, key: str = "cell1") -> Any:
    """The value below the names of a path."""
    for part in reversed(path):
        value = {key if part == origins.ANY else part: value}
    return value


def merged(base: Any, more: Any) -> Any:
    if isinstance(base, dict) and isinstance(more, dict):
        return base | {key: merged(base.get(key), value) for key, value in more.items()}
    return more


def changed(
    model: type[Model], base: dict[str, Any], path: origins.Path, field: origins.Field
) -> tuple[Model, Model] | None:
    """Two specs that differ in one field: the first has its default there, or nothing. None for a field that takes one
    value only."""
    base = merged(surroundings(model, path), base)
    before = model.model_validate(base)
    numbers = [field.default + 1, field.default - 1] if type(field.default) is int else [7]
    spoken = [SPOKEN[path[-1]]] if path[-1] in SPOKEN else []
    booleans = [not field.default] if isinstance(field.default, bool) else []
    for candidate in (*spoken, *booleans, *literals(field.annotation), *numbers, *CANDIDATES):
        try:
            after = model.model_validate(merged(base, nested(path, candidate)))
        except pydantic.ValidationError:
            continue
        # Inside something that is absent by default, the default is no other value.
        if after != before and candidate != field.default:
            return before, after
    return None


def surroundings(model: type[Model], path: origins.Path) -> Any:
    """What must stand beside a field, in each of the models around it."""
    found: Any = {}
    for length, part in enumerate(path[:-1], 1):
        if part == origins.ANY:
            continue
        inner, is_map = origins.model_of(origins.resolve(model, path[:length])[-1][1].annotation)
        if inner is not None and (needed := required(inner)):
            found = merged(found, nested((*path[:length], origins.ANY) if is_map else path[:length], needed))
    return found


def required(model: type[Model]) -> dict[str, Any]:
    """The least that a spec must say."""
    base: dict[str, Any] = {}
    for name in origins.fields(model):
        if next(one for one in model.model_fields.values() if (one.alias or "") == name).is_required():
            candidates = ({"name": "given"}, "http://given.example", "172.30.0.2/24", "given")
            for candidate in candidates:
                try:
                    model.model_validate({**base, name: candidate})
                except pydantic.ValidationError as problem:
                    if any(error["loc"][:1] == (name,) for error in problem.errors()):
                        continue
                base[name] = candidate
                break
    return base
