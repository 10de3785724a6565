"""Where every option comes from, and where every field goes: the rows of all services, read in both directions.

Pure, and without a cluster: `explain` shows it, `live` looks for the values. A row knows the field that it reads
(``spec.token.expirationSeconds``); that a field of a Nova becomes one of its NovaCompute is known from the types: the
child's spec is made of the template that stands in its parent's.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from openstack_operator import controlplane
from openstack_operator.kit import ini, levels
from openstack_operator.kit.service import File, Service
from openstack_operator.runtime.kinds import Kind
from openstack_operator.runtime.schema import Model

ANY = "*"
"""Stands for every key of a map in a path."""

KINDS: dict[str, Kind] = {kind.resource.kind: kind for service in controlplane.EVERYTHING for kind in service.kinds}
SERVICES: dict[str, Service] = {service.name: service for service in controlplane.EVERYTHING}
SERVICE_OF: dict[str, Service] = {
    kind.resource.kind: service for service in controlplane.EVERYTHING for kind in service.kinds
}

_SERVICES = "openstack_operator.services."
_PATH = re.compile(r"\bspec\.([A-Za-z.]*[A-Za-z])")
UNKNOWN = object()
"""Value of a row that is known in a cluster only."""

Path = tuple[str, ...]

HANDED_DOWN = (levels.TEXT, levels.SECRETS, levels.INHERITED)
"""Fields of an object whose configuration text its children get in `inheritedConfig` (``kit/levels.py``)."""

_KEPT = frozenset((("NovaCell", ("publicEndpoint", "nodePort")),))
"""Fields that a child has as well and that are not passed on: a node port belongs to one Service."""


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """A field: a kind and the path below ``spec``, names as in YAML."""

    kind: Kind
    path: Path

    # A kind is told by its name: to compare all that it consists of takes most of the time of an answer.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, Path]:
        return self.kind.resource.kind, self.path

    def __str__(self) -> str:
        return f"{self.kind.resource.kind} spec.{'.'.join(self.path)}"


@dataclasses.dataclass(frozen=True)
class Setting:
    """A row in a file of a kind. ``value`` is what it gives for a spec that says nothing, or ``UNKNOWN``."""

    file: File
    row: ini.Row
    value: Any

    @property
    def kind(self) -> Kind:
        return self.file.kind

    @property
    def fields(self) -> tuple[Place, ...]:
        """The fields of the kind that the row is made of."""
        return tuple(Place(self.kind, path) for path in paths(self.row.origin))


# --- rows -----------------------------------------------------------------------------------------------------------


def settings(service: Service) -> tuple[Setting, ...]:
    """Every row of every file of a service."""
    return _settings(service.name)


@functools.cache
def _settings(name: str) -> tuple[Setting, ...]:
    return tuple(_rows(SERVICES[name]))


def _rows(service: Service) -> Iterator[Setting]:
    for file in (*service.files, *service.own_files):
        defaults = file.kind.spec.model_construct()
        for row in (*file.all_rows(), *file.overwrites()):
            yield Setting(file, row, _value(row, defaults))


def paths(origin: str) -> tuple[Path, ...]:
    """The paths of the fields that an origin names."""
    return tuple(tuple(path.split(".")) for path in _PATH.findall(origin))


def shown(value: Any) -> str:
    """A field's value as YAML's flow style would have it, for people."""
    if value is None:
        return "(absent)"
    if isinstance(value, Model):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def default(place: Place) -> Any:
    """The default of a field."""
    return resolve(place.kind.spec, place.path)[-1][1].default


def _value(row: ini.Row, defaults: Model) -> Any:
    try:
        return row.value(defaults, {})
    except (KeyError, AttributeError):
        # A fact, or a field without a default.
        return UNKNOWN


# --- fields ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a model: its name as in YAML, type as declared, default, and what is said about it."""

    model: type[Model]
    attribute: str
    name: str
    annotation: Any
    default: Any

    @property
    def text(self) -> str:
        return " ".join(self.model.described(self.attribute).split())


@functools.cache
def fields(model: type[Model]) -> Mapping[str, Field]:
    """By name as in YAML."""
    found = {}
    for name, field in model.model_fields.items():
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        alias = field.alias or name
        found[alias] = Field(model, name, alias, field.annotation, default)
    return found


def model_of(annotation: Any) -> tuple[type[Model] | None, bool]:
    """The model in a field's type, and whether the field is a map of them."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation, False
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return model_of(arguments[1])[0], True
    for one in arguments:
        found, is_map = model_of(one)
        if found is not None and get_origin(annotation) is not tuple:
            return found, is_map
    return None, False


def resolve(model: type[Model], path: Path) -> list[tuple[type[Model], Field]]:
    """The models and fields along a path. Keys of maps may be any, ``ANY`` too.

    Raises ``LookupError`` with the part that does not exist and the names that stand there.
    """
    found: list[tuple[type[Model], Field]] = []
    here: type[Model] | None = model
    is_key = False
    for part in path:
        if is_key:
            is_key = False
            continue
        known = {} if here is None else fields(here)
        if part not in known:
            raise LookupError(part, tuple(known))
        assert here is not None
        found.append((here, known[part]))
        here, is_key = model_of(known[part].annotation)
    return found


@functools.cache
def positions(model: type[Model]) -> tuple[tuple[Path, type[Model]], ...]:
    """Every model inside a spec with its path; ``ANY`` for keys."""
    return tuple(_positions(model, ()))


def _positions(model: type[Model], path: Path) -> Iterator[tuple[Path, type[Model]]]:
    for name, field in fields(model).items():
        inner, is_map = model_of(field.annotation)
        if inner is not None:
            here = (*path, name, ANY) if is_map else (*path, name)
            yield here, inner
            yield from _positions(inner, here)


def leaves(model: type[Model], path: Path = ()) -> Iterator[tuple[Path, Field]]:
    """Every field without fields of its own."""
    for name, field in fields(model).items():
        inner, is_map = model_of(field.annotation)
        if inner is None:
            yield (*path, name), field
        else:
            yield from leaves(inner, (*path, name, ANY) if is_map else (*path, name))


# --- from parents to children ---------------------------------------------------------------------------------------


@functools.cache
def children(kind: Kind) -> tuple[Kind, ...]:
    """Our kinds whose objects a kind makes."""
    controllers = [one for one in SERVICE_OF[kind.resource.kind].controllers if one.kind is kind]
    return tuple(KINDS[resource.kind] for one in controllers for resource in one.owns if resource.kind in KINDS)


def is_made_of(spec: type[Model], template: type[Model]) -> bool:
    """Whether a child's spec has what a template in its parent's says."""
    return issubclass(spec, template) and template.__module__.startswith(_SERVICES)


@functools.cache
def fed(kind: Kind, template: type[Model]) -> tuple[Kind, ...]:
    """The children of a kind that a model inside its spec is the template of."""
    below = children(kind)
    found = tuple(one for one in below if is_made_of(one.spec, template))
    if found:
        return found
    # Made of a base of a template that adds what only the parent needs, such as ``enabled``. Of several with one base
    # it is the one whose name the template has: MetadataTemplate is not the API's.
    bases = [base for base in template.__mro__[1:] if issubclass(base, Model)]
    return tuple(
        one
        for one in below
        if any(is_made_of(one.spec, base) for base in bases)
        and one.resource.kind.removeprefix(kind.resource.kind.removesuffix("Cell")) in template.__name__
    )


def below(place: Place) -> tuple[Place, ...]:
    """The fields of children that a field sets, directly."""
    kind, path = place.kind, place.path
    if path[0] in HANDED_DOWN:
        # Levels of configuration are not copied into the same field: each keeps its name on the way down.
        heirs = (child for child in children(kind) if levels.INHERITED in fields(child.spec))
        return tuple(Place(child, (levels.INHERITED,)) for child in heirs)
    found: dict[Place, None] = {}
    for prefix, template in positions(kind.spec):
        if len(prefix) < len(path) and fits(prefix, path):
            rest = path[len(prefix) :]
            made = fed(kind, template)
            for child in made:
                if _has(child.spec, rest):
                    found[Place(child, rest)] = None
            if made:
                # What is further down is the child's own affair.
                break
    if not found and not _is_template(kind, path[0]) and (kind.resource.kind, path) not in _KEPT:
        own = fields(kind.spec).get(path[0])
        for child in children(kind):
            theirs = fields(child.spec).get(path[0])
            if own is not None and theirs is not None and _same(own.annotation, theirs.annotation):
                found[Place(child, path)] = None
    return tuple(found)


def reached(place: Place) -> tuple[Place, ...]:
    """A field and all fields of children, and theirs, that it sets."""
    found: dict[Place, None] = {place: None}
    due = [place]
    while due:
        for one in below(due.pop()):
            if one not in found:
                found[one] = None
                due.append(one)
    return tuple(found)


@functools.cache
def above(place: Place) -> tuple[Place, ...]:
    """The fields of parents, and of theirs, that set a field; keys are ``ANY``."""
    found: dict[Place, None] = {}
    due = [place]
    while due:
        one = due.pop()
        for kind in KINDS.values():
            if one.kind in children(kind):
                for candidate in _candidates(kind, one):
                    if candidate not in found and _has(kind.spec, candidate.path) and one in below(candidate):
                        found[candidate] = None
                        due.append(candidate)
    return tuple(found)


def _candidates(kind: Kind, place: Place) -> Iterator[Place]:
    yield Place(kind, place.path)
    if place.path == (levels.INHERITED,):
        yield from (Place(kind, (name,)) for name in HANDED_DOWN[:-1])
    for prefix, template in positions(kind.spec):
        if place.kind in fed(kind, template):
            yield Place(kind, (*prefix, *place.path))


def fits(pattern: Path, path: Path) -> bool:
    return all(one in (ANY, other) for one, other in zip(pattern, path, strict=False))


def _has(model: type[Model], path: Path) -> bool:
    try:
        return bool(resolve(model, path))
    except LookupError:
        return False


def _is_template(kind: Kind, name: str) -> bool:
    """Whether a field of a kind is the template of its children, not a value that they have as well."""
    field = fields(kind.spec).get(name)
    template = None if field is None else model_of(field.annotation)[0]
    return template is not None and bool(fed(kind, template))


def _same(one: Any, other: Any) -> bool:
    """Whether two fields take the same values, None aside: what is absent in a parent is left to the child."""
    return _kinds_of(one) == _kinds_of(other)


def _kinds_of(annotation: Any) -> frozenset[Any]:
    arguments = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) in (dict, tuple) or not arguments:
        return frozenset((str(annotation),))
    return frozenset(str(part) for part in arguments)
