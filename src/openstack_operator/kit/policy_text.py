"""Users' policy.yaml: can oslo.policy read it, and does it say what they mean?

Called by `overwrites`. The language of rules is oslo.policy's (its documentation, "Policy Rule Expressions"): checks
``kind:match``, ``@``, ``!``, joined by ``and``, ``or``, ``not`` and parentheses. oslo.policy takes a rule that it
cannot read for one that refuses everybody, and says so in a log only; here it is an error. Which rules there are is in
`catalogues`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from openstack_operator.kit import catalogues
from openstack_operator.kit.custom_config import Finding, Policy

# The C parser is ten times as fast; not every build of PyYAML has it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableRuleError(ValueError):
    """A rule that oslo.policy cannot read."""


def references(rule: str) -> tuple[str, ...]:
    """Names of the rules that a rule refers to. Raises ``UnreadableRuleError``."""
    if not rule:
        return ()
    tokens = list(_tokens(rule))
    found: list[str] = []
    rest = _expression(tokens, 0, found)
    if rest < len(tokens):
        raise UnreadableRuleError(f"{tokens[rest]!r} does not belong there")
    return tuple(found)


def _tokens(rule: str) -> Iterator[str]:
    for word in rule.split():
        inner = word.lstrip("(")
        yield from "(" * (len(word) - len(inner))
        if not inner:
            continue
        check = inner.rstrip(")")
        if check:
            yield check
        yield from ")" * (len(inner) - len(check))


def _expression(tokens: list[str], at: int, found: list[str]) -> int:
    """Reads checks joined by and, or; the position behind them."""
    at = _check(tokens, at, found)
    while at < len(tokens) and tokens[at].lower() in ("and", "or"):
        at = _check(tokens, at + 1, found)
    return at


def _check(tokens: list[str], at: int, found: list[str]) -> int:
    if at >= len(tokens):
        raise UnreadableRuleError("ends where a check is missing")
    token = tokens[at]
    if token.lower() == "not":
        return _check(tokens, at + 1, found)
    if token == "(":
        at = _expression(tokens, at + 1, found)
        if at >= len(tokens) or tokens[at] != ")":
            raise UnreadableRuleError("a parenthesis is not closed")
        return at + 1
    if token == ")" or token.lower() in ("and", "or"):
        raise UnreadableRuleError(f"{token!r} stands where a check is missing")
    if token not in ("@", "!"):
        kind, colon, match = token.partition(":")
        if not colon or (len(token) >= 2 and token[0] == token[-1] and token[0] in "\"'"):
            raise UnreadableRuleError(f"{token!r} is no check such as role:admin or rule:admin_required")
        if kind == "rule":
            found.append(match)
    return at + 1


def content(text: str) -> Any:
    """What the file says, whatever its comments and order; None where it cannot be read."""
    try:
        return yaml.load(text, Loader=LOADER)
    except yaml.YAMLError:
        return None


def check(text: str, service: str, release: str, policy: Policy, *, field: str) -> tuple[Finding, ...]:
    """Everything that is to be said about a file, in the order of its lines. Without an error oslo.policy reads it."""
    try:
        root = yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        what = getattr(problem, "problem", None) or "cannot be read"
        return (_found("error", "unreadable", field, mark.line + 1 if mark else 1, f"is not YAML: {what}"),)
    if root is None:
        return ()
    if not isinstance(root, yaml.MappingNode):
        return (_found("error", "unreadable", field, root.start_mark.line + 1, "must be rules by name"),)
    return tuple(sorted(_check_rules(root, service, release, policy, field), key=lambda one: one.line))


def _found(severity: Any, rule: str, field: str, line: int, message: str, name: str = "", near: str = "") -> Finding:
    return Finding(severity, rule, field, line, "", name, message, near)


def _check_rules(root: yaml.MappingNode, service: str, release: str, policy: Policy, field: str) -> Iterator[Finding]:
    known = catalogues.policies(service, release)
    former = {old: name for name, rule in known.items() for old in rule.old}
    lines: dict[str, int] = {}
    refers: dict[str, tuple[str, ...]] = {}
    for key, value in root.value:
        line, name = key.start_mark.line + 1, str(key.value)
        if not isinstance(key, yaml.ScalarNode):
            yield _found("error", "unreadable", field, line, "the name of a rule must be text")
            continue
        if name in lines:
            yield _found(
                "warning", "shadowed", field, lines[name], f"{name} stands again in line {line}, which wins", name
            )
        lines[name] = line
        try:
            refers[name] = tuple(one for rule in _texts(value) for one in references(rule))
        except UnreadableRuleError as problem:
            yield _found("error", "unreadable", field, value.start_mark.line + 1, f"{name}: {problem}", name)
    used = {one for found in refers.values() for one in found}
    for name, line in lines.items():
        if name in former and name not in known:
            now = former[name]
            yield _found(
                "warning", "deprecated", field, line, f"{name} is deprecated: the rule is {now} now", name, now
            )
        elif name not in known and name not in used and known:
            near = _nearest(name, known)
            hint = f" (did you mean {near}?)" if near else ""
            message = f"{name} is no rule of {service} {release}, and no rule here refers to it{hint}"
            yield _found(policy.severity, "unknown-rule", field, line, message, name, near)
        elif name in known and known[name].removal:
            why = f": {known[name].reason}" if known[name].reason else ""
            yield _found("warning", "deprecated", field, line, f"{name} will be removed{why}", name)
        for other in refers.get(name, ()):
            if other not in lines and other not in known and other not in former and known:
                near = _nearest(other, (*known, *lines))
                hint = f" (did you mean {near}?)" if near else ""
                message = f"{name} refers to {other}, which does not exist, so that it refuses everybody{hint}"
                yield _found("warning", "undefined-rule", field, line, message, name, near)
        if circle := _circle(name, refers, known):
            message = f"{name} refers to itself: {' -> '.join(circle)}"
            yield _found("error", "cyclic-rule", field, line, message, name)


def _texts(node: yaml.Node) -> Iterator[str]:
    """The rules in a value: a text, or a list of lists in the former format."""
    if isinstance(node, yaml.ScalarNode):
        if node.tag != "tag:yaml.org,2002:str":
            raise UnreadableRuleError(f"{node.value!r} is no text; write '' for everybody, '!' for nobody")
        yield node.value
    elif isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from _texts(one)
    else:
        raise UnreadableRuleError("must be text")


def _circle(name: str, refers: Mapping[str, tuple[str, ...]], known: Mapping[str, Any]) -> tuple[str, ...]:
    """The way from a rule back to itself."""
    seen: set[str] = set()
    ways: list[tuple[str, ...]] = [(name,)]
    while ways:
        way = ways.pop()
        last = way[-1]
        following = refers[last] if last in refers else _default(last, known)
        for other in following:
            if other == name:
                return (*way, other)
            if other not in seen:
                seen.add(other)
                ways.append((*way, other))
    return ()


def _default(name: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    return references(known[name].check) if name in known else ()


def _nearest(name: str, known: Iterable[str]) -> str:
    plain = re.sub(r"[\s_]+", "_", name.strip().lower())
    found = difflib.get_close_matches(plain, known, 1, 0.75)
    return found[0] if found else ""
