"""What a kind says about an object before it is stored, and the answer to the API server made of it.

A kind declares ``admit`` beside its types (``kinds.Kind``): a pure function of the new object, the old one and what is
cached. ``webhook`` receives the API server's questions and calls ``prepare`` and ``answer``. What a schema or a CEL
rule can hold is in the CRD, where no outage of ours opens a gap: an immutable field above all.

    errors      the object is refused with all of them, each under its field
    warnings    it is stored, and kubectl shows them
    references  objects that it names; one that does not exist is a warning, because it may come later
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pydantic

if TYPE_CHECKING:
    from openstack_operator.runtime.kinds import Kind, Resource
    from openstack_operator.runtime.schema import Model

Object = dict[str, Any]

# The API server may cut longer warnings, and drops without a word what is beyond 4096 characters in all. Kubernetes
# advises 120, which the path of a deep field alone may take: what to write instead, at the end, counts for more.
LONGEST_WARNING = 256
LONGEST_WARNINGS = 4000
MOST_WARNINGS = 30


class Problem(NamedTuple):
    """Why an object is refused: the path of the field and one line for people."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Reference(NamedTuple):
    """An object of the same namespace (or of the cluster) that a field names, and the key that it must have."""

    field: str
    resource: Resource
    name: str
    key: str | None = None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is found about an object."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(self.errors + other.errors, self.warnings + other.warnings, self.references + other.references)


@dataclasses.dataclass(frozen=True)
class Subject:
    """The object in question; ``spec`` is of the kind's own type."""

    resource: Resource
    name: str
    namespace: str
    spec: Any


class Objects(Protocol):
    """What the caches of this replica hold of the object's namespace."""

    def items(self, resource: Resource) -> Sequence[Object]: ...


Admit = Callable[[Subject, Subject | None, Objects], Verdict]
"""``admit(new, old, objects)``; ``old`` is None for an object that is being made, or whose spec no type reads."""


def problems(error: pydantic.ValidationError) -> tuple[Problem, ...]:
    """Everything that a type finds wrong with a spec."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    # A list whose entries are wrong counts as too short besides: without them nothing is left.
    wrong = {one["loc"][:length] for one in found for length in range(1, len(one["loc"]))}
    return tuple(
        dict.fromkeys(
            Problem(path(one["loc"]), one["msg"].removeprefix("Value error, "))
            for one in found
            if one["type"] != "too_short" or one["loc"] not in wrong
        )
    )


def path(parts: Iterable[str | int]) -> str:
    """The path of a field below ``spec``, as kubectl writes it."""
    return "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


@dataclasses.dataclass(frozen=True)
class Finding:
    """What is known of an object without asking the API server; ``references`` are those to look for."""

    uid: str
    kind: Kind
    name: str
    namespace: str
    errors: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()


def prepare(kind: Kind, request: Mapping[str, Any], objects: Objects) -> Finding:
    """Judges an object by its type and by what its kind says."""
    new, old = request["object"], request.get("oldObject")
    name = new["metadata"].get("name") or f"{new['metadata'].get('generateName', '')}*"
    finding = Finding(request["uid"], kind, name, request.get("namespace", ""))
    if "deletionTimestamp" in new["metadata"]:
        # Whatever is wrong with it, it must be able to go.
        return finding
    found: tuple[Problem, ...] = ()
    spec: Model | None
    try:
        spec = kind.spec.model_validate(new.get("spec", {}))
    except pydantic.ValidationError as error:
        found = problems(error)
        spec = _rest(kind.spec, new.get("spec", {}), error)
    if kind.admit is None or spec is None:
        return dataclasses.replace(finding, errors=found)
    verdict = kind.admit(Subject(kind.resource, name, finding.namespace, spec), _before(kind, old), objects)
    return dataclasses.replace(
        finding,
        errors=tuple(dict.fromkeys((*found, *verdict.errors))),
        warnings=verdict.warnings,
        references=tuple(dict.fromkeys(verdict.references)),
    )


def _rest(spec: type[Model], raw: Object, error: pydantic.ValidationError) -> Model | None:
    """The spec without what is wrong with it, so that the kind can say what else is; None where that is not enough."""
    rest = copy.deepcopy(raw)
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        # Of a list the whole goes: its entries have no names that stay.
        steps = list(itertools.takewhile(lambda step: isinstance(step, str), one["loc"]))
        node: Any = rest
        for step in steps[:-1]:
            node = node.get(step) if isinstance(node, dict) else None
        if steps and isinstance(node, dict):
            node.pop(steps[-1], None)
    try:
        return spec.model_validate(rest)
    except pydantic.ValidationError:
        return None


def _before(kind: Kind, old: Object | None) -> Subject | None:
    if old is None:
        return None
    try:
        spec = kind.spec.model_validate(old.get("spec", {}))
    except pydantic.ValidationError:
        return None
    return Subject(kind.resource, old["metadata"]["name"], old["metadata"].get("namespace", ""), spec)


def answer(finding: Finding, missing: Iterable[str] = ()) -> Object:
    """``response`` of the AdmissionReview; ``missing`` are warnings about references."""
    warnings = fitting(list(dict.fromkeys((*finding.warnings, *missing))))
    response: Object = {"uid": finding.uid, "allowed": not finding.errors}
    if warnings:
        response["warnings"] = warnings
    if finding.errors:
        resource = finding.kind.resource
        # As the API server itself answers for a schema: kubectl prints one line for each cause.
        response["status"] = {
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": "; ".join(str(one) for one in finding.errors),
            "details": {
                "name": finding.name,
                "group": resource.group,
                "kind": resource.kind,
                "causes": [
                    {"reason": "FieldValueInvalid", "field": one.field, "message": one.message}
                    for one in finding.errors
                ],
            },
        }
    return response


def fitting(warnings: list[str]) -> list[str]:
    """As many warnings, from the first on, as the API server passes to the user; a last line counts the others."""
    shown = [shortened(text) for text in warnings[:MOST_WARNINGS]]
    if len(warnings) <= MOST_WARNINGS and sum(map(len, shown)) <= LONGEST_WARNINGS:
        return shown
    room = LONGEST_WARNINGS - len(f"and {len(warnings)} more")
    kept = 0
    for text in shown[: MOST_WARNINGS - 1]:
        room -= len(text)
        if room < 0:
            break
        kept += 1
    return [*shown[:kept], f"and {len(warnings) - kept} more"]


def shortened(text: str) -> str:
    """One line of at most LONGEST_WARNING characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_WARNING else f"{line[: LONGEST_WARNING - 1]}…"
