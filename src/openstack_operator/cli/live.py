"""The configuration that stands in a cluster: the parts of every file, and which of them gives an option its value.

Read from what workloads mount, so that it is what pods will read, whoever wrote it. `explain` shows the values and
`trace` follows one of them into the pods. Lists a few kinds once, changes nothing.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pydantic

from openstack_operator.cli import origins, status
from openstack_operator.kit import catalogues, config_text, config_validity, kinds, levels, overwrites, redaction
from openstack_operator.kit.catalogues import Option
from openstack_operator.kit.config_text import Assignment
from openstack_operator.kit.types import ConfigSecret
from openstack_operator.runtime import client, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.kinds import Kind, Resource
from openstack_operator.services.nova import children

WORKLOADS = (built_in.DEPLOYMENT, built_in.STATEFULSET, built_in.DAEMONSET, built_in.JOB)
"""In the order in which one is taken to show a file that several mount."""

HIDDEN = "(hidden)"
_ORIGIN = re.compile(r"# (\S.*)")
_LEVEL = re.compile(
    rf"# (spec\.(?:\w+\.)*(?:{levels.TEXT}(?: of \w+ \S+)?"
    rf"|{levels.SECRETS}(?: of \w+ \S+)?\[\d+\]: Secret \S+, key \S+))"
)
"""The line above a users' text in a file (``kit/levels.py``)."""
_SECRET_LEVEL = re.compile(r".*\[\d+\]: Secret \S+, key \S+")


@dataclasses.dataclass(frozen=True)
class Part:
    """A piece of a file. ``text`` is None where it may not be read."""

    holder: str
    """Kind and name of the ConfigMap or Secret."""
    key: str
    text: str | None
    is_secret: bool = False
    is_merged: bool = False

    @property
    def is_users(self) -> bool:
        return self.key.endswith("-custom")


@dataclasses.dataclass(frozen=True)
class Assigned:
    """One line of a part that sets the option."""

    part: Part
    assignment: Assignment
    origin: str

    @property
    def is_secret(self) -> bool:
        """Whether it comes from a Secret. Of a merged file, its own lines tell."""
        return self.part.is_secret or (self.part.is_merged and bool(_SECRET_LEVEL.fullmatch(self.origin)))

    def shown(self, option: Option | None) -> str:
        return masked(self.assignment.value, is_secret=self.is_secret or bool(option and option.secret))


@dataclasses.dataclass(frozen=True)
class Configured:
    """A file of an object of ours, and the workloads that mount it."""

    kind: Kind
    owner: Object
    file: str
    parts: tuple[Part, ...]
    workloads: tuple[tuple[Resource, Object], ...]

    @property
    def label(self) -> str:
        metadata = self.owner["metadata"]
        return f"{self.kind.resource.kind} {metadata['namespace']}/{metadata['name']}"

    @property
    def release(self) -> str:
        found: str = self.owner["spec"].get("openstackRelease") or catalogues.index().default_release
        return found

    def environment(self, section: str, name: str) -> Iterator[tuple[str, str]]:
        """Container and value of the environment variable that wins over every file."""
        for _, workload in self.workloads:
            for container in workload["spec"]["template"]["spec"]["containers"]:
                for _, value in variables(container, None, section, name):
                    yield container["name"], value


def variables(container: Object, pod: Object | None, section: str, name: str) -> Iterator[tuple[str, str]]:
    """Name and value of a container's environment variable for an option (oslo.config's driver for the environment)."""
    variable = f"OS_{section.upper()}__{name.upper()}"
    for one in container.get("env", ()):
        if one["name"] == variable:
            path = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
            found: Any = pod
            for part in path.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
            yield variable, one.get("value") or (str(found) if found else f"(the pod's {path})")


@dataclasses.dataclass(frozen=True)
class Upper:
    """A field of an object, or of one above it, and what stands there. ``line`` counts within a text.

    ``level`` is what files call the users' text that it is or hands down; ``depth`` counts from the object with the
    file upwards. The value of a text in a Secret is not known here, and hidden.
    """

    label: str
    field: str
    value: str
    line: int = 0
    level: str = ""
    depth: int = 0
    is_secret: bool = False


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What was listed, of one service and the control planes."""

    objects: Mapping[Resource, Sequence[Object]]
    secrets_are_readable: bool = True

    def of_kind(self, resource: Resource) -> Sequence[Object]:
        return self.objects.get(resource, ())

    def release(self, service: str) -> str | None:
        """The release that the objects of a service are of; the newest of several."""
        items = (item for kind in origins.SERVICES[service].kinds for item in self.of_kind(kind.resource))
        found = {item.get("spec", {}).get("openstackRelease") for item in items}
        return max(filter(None, found), default=None)

    def configured(self, service: str) -> Iterator[Configured]:
        """Every file of every object of a service. Jobs are named only where no other workload reads the file."""
        own = {
            item["metadata"]["uid"]: (kind, item)
            for kind in origins.SERVICES[service].kinds
            for item in self.of_kind(kind.resource)
        }
        holders = self._holders()
        found: dict[tuple[str, str, tuple[str, ...]], Configured] = {}
        for resource in WORKLOADS:
            for workload in self.of_kind(resource):
                owner = controller(workload)
                if owner not in own:
                    continue
                kind, item = own[owner]
                files = _parts(workload, holders)
                for file in _names(service, kind, files):
                    key = (owner, file, tuple(part.holder for part in files[file]))
                    before = found[key].workloads if key in found else ()
                    if resource != built_in.JOB or not before:
                        workloads = (*before, (resource, workload))
                        found[key] = Configured(kind, item, file, files[file], workloads)
        yield from found.values()

    def _holders(self) -> dict[tuple[str, str, str], Object]:
        return {
            (resource.kind, item["metadata"]["namespace"], item["metadata"]["name"]): item
            for resource in (built_in.CONFIGMAP, built_in.SECRET)
            for item in self.of_kind(resource)
        }

    # --- upwards --------------------------------------------------------------------------------------------------

    def chain(self, kind: Kind, item: Object) -> list[tuple[Kind, Object]]:
        """An object and its owners, up to the control plane."""
        by_uid = {
            one["metadata"]["uid"]: (upper, one)
            for upper in origins.KINDS.values()
            for one in self.of_kind(upper.resource)
        }
        found = [(kind, item)]
        while (owner := controller(found[-1][1])) in by_uid:
            found.append(by_uid[owner])
        return found

    def texts_with(self, one: Configured, names: Sequence[tuple[str, str]]) -> list[Upper]:
        """The users' texts of an object and of its owners that set an option in one of its files: level by level,
        lowest precedence first, and each from the topmost object down."""
        chain = self.chain(one.kind, one.owner)
        # Which Secret sets the option, its own text in the file tells: users' Secrets themselves are not read.
        in_secrets = {found.origin for found in assigned(one.parts, names) if found.part.is_secret}
        found: list[tuple[tuple[int, ...], Upper]] = []
        for depth, (kind, item) in enumerate(chain):
            for text in _texts(kind, item):
                home = _home(text, chain, depth)
                if home is None or (not home.depth and home.field not in own_texts(one)):
                    continue
                # Of each level the text is before the Secrets, and of the object's own the widest is the first.
                order = (-home.depth, len(home.field), text.number + 1)
                for upper in _uppers(text, home.level, names, in_secrets):
                    found.append(((*order, -depth), dataclasses.replace(upper, label=_label(kind, item), depth=depth)))
        return [upper for _, upper in sorted(found, key=lambda pair: pair[0])]

    def fields_of(self, one: Configured, origin: str) -> Iterator[Upper]:
        """The fields that a row names, in the object, and in its owners where they say something."""
        chain = self.chain(one.kind, one.owner)
        if overwrites.FIELD in origin:
            yield from _whole_files(chain, origin)
            return
        for path in origins.paths(origin):
            place = origins.Place(one.kind, path)
            for upper in (place, *origins.above(place)):
                for depth, (kind, item) in enumerate(chain):
                    if kind is not upper.kind:
                        continue
                    given = list(_matching(item["spec"], upper.path))
                    if not depth and not given:
                        default = f"{origins.shown(origins.default(place))} (the default)"
                        yield Upper(_label(kind, item), f"spec.{'.'.join(path)}", default)
                    for found, value in given:
                        if _remainder(found, chain, depth) == path:
                            yield Upper(_label(kind, item), f"spec.{'.'.join(found)}", origins.shown(value))


def _label(kind: Kind, item: Object) -> str:
    return f"{kind.resource.kind} {item['metadata']['namespace']}/{item['metadata']['name']}"


def controller(item: Object) -> str:
    for reference in item["metadata"].get("ownerReferences", ()):
        if reference.get("controller"):
            uid: str = reference["uid"]
            return uid
    return ""


@dataclasses.dataclass(frozen=True)
class _Text:
    """A users' text in a spec, or the name of a Secret with one. ``level`` is given of what was handed down."""

    field: str
    text: str
    secret: ConfigSecret | None = None
    number: int = -1
    """Its number in the list of Secrets."""
    level: str = ""
    origin: str = ""


class _Home(NamedTuple):
    """Where a text is an object's own: how far up, in which field, and what files call it."""

    depth: int
    field: str
    level: str


def _texts(kind: Kind, item: Object) -> Iterator[_Text]:
    """Every users' text in a spec, those that it hands down for the objects above included."""
    try:
        spec = kind.spec.model_validate(item.get("spec", {}))
    except pydantic.ValidationError:
        # The operator refuses it as well: nothing of it reaches anything.
        return
    for index, level in enumerate(getattr(spec, "inherited_config", ())):
        field = f"spec.{levels.INHERITED}[{index}]"
        yield _Text(field, level.text, level=level.origin, origin=level.origin)
        for number, secret in enumerate(level.secrets):
            name = levels.label(levels.inherited_field(level), number, secret)
            yield _Text(f"{field}.secrets[{number}]", "", secret, number, name, level.origin)
    for piece in config_validity.pieces(spec):
        if piece.name == config_validity.TEXT:
            yield _Text(piece.path, piece.value)
        elif piece.name == config_validity.SECRETS:
            for number, secret in enumerate(piece.value):
                yield _Text(piece.path, "", secret, number)


def _home(text: _Text, chain: Sequence[tuple[Kind, Object]], depth: int) -> _Home | None:
    """None for what is about other objects, and for what was handed down from one that is no longer there."""
    if text.level:
        for number, (kind, item) in enumerate(chain):
            if text.origin == f"spec.{levels.TEXT} of {kind.resource.kind} {item['metadata']['name']}":
                return _Home(number, f"spec.{levels.TEXT}", text.level)
        return None
    path: origins.Path | None = tuple(text.field.split(".")[1:])
    while depth and path is not None and len(path) > 1:
        path = _remainder(path, chain[: depth + 1], depth, steps=1)
        depth -= 1
    if path is None:
        return None
    field = ".".join(("spec", *path))
    # What files call it, as in ``levels``.
    kind, item = chain[depth]
    above = f" of {kind.resource.kind} {item['metadata']['name']}" if depth else ""
    name = f"{field}{above}" if text.secret is None else levels.label(f"{field}{above}", text.number, text.secret)
    return _Home(depth, ".".join(("spec", *path[:-1], levels.TEXT)), name)


def _uppers(text: _Text, level: str, names: Sequence[tuple[str, str]], in_secrets: Collection[str]) -> Iterator[Upper]:
    """What a text says of an option, without its object."""
    if text.secret is None:
        for assignment in _parsed(text.text):
            if (catalogues.normal(assignment.section), assignment.key) in names:
                yield Upper("", text.field, assignment.value, assignment.line, level)
    elif level in in_secrets:
        where = f"Secret {text.secret.name}, key {text.secret.key}"
        field = text.field if text.level else f"{text.field}[{text.number}]"
        yield Upper("", f"{field} ({where})", HIDDEN, 0, level, is_secret=True)


def own_texts(one: Configured) -> frozenset[str]:
    """The fields of its object whose text a file has."""
    service = origins.SERVICE_OF[one.kind.resource.kind]
    return frozenset(
        field
        for file in (*service.files, *service.own_files)
        if file.kind is one.kind and is_named(file.name, one.file)
        for field in file.texts
    )


def _whole_files(chain: Sequence[tuple[Kind, Object]], origin: str) -> Iterator[Upper]:
    """The fields that a whole file comes from: the nearest of the object itself, and those above with the same text."""
    fields, _, name = origin.rpartition(": ")
    kind, item = chain[0]
    text = None
    for path in origins.paths(fields):
        for depth, (kind, item) in enumerate(chain):
            for upper in (origins.Place(chain[0][0], path), *origins.above(origins.Place(chain[0][0], path))):
                if upper.kind is not kind:
                    continue
                for found, files in matching(item, upper):
                    if name not in files or _remainder(found, chain, depth) != path:
                        continue
                    text = files[name] if not depth else text
                    if files[name] == text:
                        said = f"a file of {len(text.splitlines())} lines"
                        yield Upper(_label(kind, item), f"spec.{'.'.join(found)}[{name}]", said, depth=depth)
        if text is not None:
            return


def _remainder(
    path: origins.Path, chain: Sequence[tuple[Kind, Object]], depth: int, steps: int | None = None
) -> origins.Path | None:
    """What a field of the object at ``depth`` of a chain is called in the chain's first object, or in the one that is
    ``steps`` below; None where it is about other objects: another part, another key of a map."""
    for number in range(depth, 0 if steps is None else depth - steps, -1):
        (kind, item), (child_kind, child) = chain[number], chain[number - 1]
        for prefix, template in origins.positions(kind.spec):
            made = origins.fed(kind, template)
            if not made or not origins.fits(prefix, path) or len(prefix) >= len(path):
                continue
            keys = [key for part, key in zip(prefix, path, strict=False) if part == origins.ANY]
            names = [children.name(item["metadata"]["name"], key) for key in keys]
            if child_kind not in made or any(name != child["metadata"]["name"] for name in names):
                return None
            path = path[len(prefix) :]
            break
    return path


def matching(item: Object, place: origins.Place) -> Iterator[tuple[origins.Path, Any]]:
    """Path and value of a field in an object, for every key that is there."""
    return _matching(item.get("spec", {}), place.path)


def _matching(spec: Any, path: origins.Path, found: origins.Path = ()) -> Iterator[tuple[origins.Path, Any]]:
    """Paths and values of an object that fit a path with ``origins.ANY`` in it."""
    if not path:
        yield found, spec
    elif isinstance(spec, Mapping):
        for key in spec if path[0] == origins.ANY else (path[0],):
            if key in spec:
                yield from _matching(spec[key], path[1:], (*found, key))


# --- files ----------------------------------------------------------------------------------------------------------


def _names(service: str, kind: Kind, files: Mapping[str, Any]) -> Iterator[str]:
    """The configuration files of a kind among those of a volume: a cell's file has the cell in its name."""
    declared = [file.name for one in (origins.SERVICES[service],) for file in (*one.files, *one.own_files)
                if file.kind is kind]  # fmt: skip
    for name in files:
        if any(is_named(one, name) for one in declared):
            yield name


def is_named(declared: str, name: str) -> bool:
    return bool(re.fullmatch(re.escape(declared).replace("<cell>", ".+"), name))


def _parts(workload: Object, holders: Mapping[tuple[str, str, str], Object]) -> dict[str, tuple[Part, ...]]:
    """The parts of every file that a workload mounts, in the order in which its init container puts them together."""
    namespace = workload["metadata"]["namespace"]
    found: dict[str, list[Part]] = {}
    for volume in workload["spec"]["template"]["spec"].get("volumes", ()):
        for source in volume.get("projected", {}).get("sources", ()):
            for field, resource in (("configMap", built_in.CONFIGMAP), ("secret", built_in.SECRET)):
                if field in source:
                    name = source[field]["name"]
                    item = holders.get((resource.kind, namespace, name))
                    for part in _keys(resource, name, item):
                        found.setdefault(re.sub(r"\.\d\d-.*$", "", part.key), []).append(part)
    return {file: tuple(sorted(parts, key=lambda part: part.key)) for file, parts in found.items()}


def _keys(resource: Resource, name: str, item: Object | None) -> Iterator[Part]:
    for key, value in ((item or {}).get("data") or {}).items():
        is_secret = resource == built_in.SECRET
        text = base64.b64decode(value).decode(errors="replace") if is_secret else value
        yield Part(f"{resource.kind} {name}", key, text, is_secret)


def _parsed(text: str) -> tuple[Assignment, ...]:
    try:
        return config_text.parse(text).assignments
    except config_text.UnreadableError:
        return ()


def places(section: str, name: str, option: Option | None) -> list[tuple[str, str]]:
    """Section (normal form) and name under which a file may set an option: the present one first."""
    old = () if option is None else option.old
    return [(catalogues.normal(section), name), *((catalogues.normal(one), former) for one, former in old)]


def assigned(parts: Sequence[Part], names: Sequence[tuple[str, str]]) -> list[Assigned]:
    """Every line that sets an option, in the order in which the service reads them."""
    found = []
    for part in parts:
        lines = (part.text or "").splitlines()
        for one in _parsed(part.text or ""):
            if (catalogues.normal(one.section), one.key) in names:
                found.append(Assigned(part, one, _origin(part, lines, one.line)))
    return found


def _origin(part: Part, lines: Sequence[str], line: int) -> str:
    """What the comment above a generated line says; of users' text, what the line says that names it: the part's first
    one, and the one above each further Secret of its level. A merged file has the same lines."""
    for above in reversed(lines[: line - 1] if part.is_users or part.is_merged else ()):
        if found := _LEVEL.fullmatch(above):
            return found[1]
    found = _ORIGIN.match(lines[line - 2] if line > 1 else "")
    return found[1] if found and not part.is_users else ""


def effective(found: Sequence[Assigned], names: Sequence[tuple[str, str]], option: Option | None) -> list[Assigned]:
    """The lines that count, as in ``custom_config.Reader.effective``."""
    if option is not None and option.multi:
        return list(found)
    for place in names:
        here = [one for one in found if (catalogues.normal(one.assignment.section), one.assignment.key) == place]
        if here:
            return here[-1:]
    return []


def masked(value: str, *, is_secret: bool) -> str:
    """A value for people: no secret, no password in a URL."""
    if is_secret:
        return HIDDEN
    return redaction.without_logins(value)


# --- reading --------------------------------------------------------------------------------------------------------


async def observe(api: client.Client, service: str, namespace: str | None, *, with_pods: bool = False) -> Snapshot:
    """Raises ``errors.OperatorError`` without an answer, and where something but Secrets may not be read."""
    own = [kind.resource for kind in origins.SERVICES[service].kinds]
    wanted = list(dict.fromkeys((kinds.CONTROL_PLANE, *own, *WORKLOADS, built_in.CONFIGMAP, built_in.SECRET)))
    if with_pods:
        wanted.append(built_in.POD)
    plain = (kinds.CONTROL_PLANE, *own)

    async def read(resource: Resource) -> list[Object] | None:
        try:
            return await status.read(api, resource, namespace, {} if resource in plain else status.OURS)
        except errors.ApiError as problem:
            if problem.status == 403 and resource == built_in.SECRET:
                return None
            raise

    found = dict(zip(wanted, await asyncio.gather(*map(read, wanted)), strict=True))
    readable = found[built_in.SECRET] is not None
    return Snapshot({resource: items or () for resource, items in found.items()}, readable)
