"""`openstack-operator explain`: what sets an option, and what a field sets.

Rows and catalogue tell without a cluster (`origins`); with one, the value of each object is added (`live`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from openstack_operator.cli import live, origins, status
from openstack_operator.cli.origins import Place, Setting
from openstack_operator.kit import catalogues, config_text, custom_config, levels, option_types, releases
from openstack_operator.kit.catalogues import Catalogue, Option
from openstack_operator.kit.service import File, Service
from openstack_operator.runtime import client, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.kinds import Kind

WIDTH = 100
Report = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Named:
    """An option of a service in a release."""

    service: Service
    release: str
    section: str
    name: str
    option: Option | None
    """None where no catalogue has it: an option of a driver of the user's, or of a service without a catalogue."""

    @property
    def label(self) -> str:
        return f"[{self.section}] {self.name}"

    @property
    def places(self) -> list[tuple[str, str]]:
        return live.places(self.section, self.name, self.option)

    def is_set_by(self, setting: Setting) -> bool:
        return (catalogues.normal(setting.row.section), setting.row.option) in self.places


def run(
    name: str, kubeconfig: str | None, namespace: str | None, release: str | None, *, is_offline: bool, as_json: bool
) -> str:
    """The answer. Without a ``release`` it is that of the cluster's objects. Raises ``errors.OperatorError`` with the
    nearest name for one that does not exist."""
    service = _service(name.partition(".")[0])
    snapshot, why = (None, "") if is_offline or service is None else look(kubeconfig, namespace, service)
    if release is None and service is not None and snapshot is not None:
        release = snapshot.release(service.name)
    asked = parse(name, release or catalogues.index().default_release)
    report = option_report(asked, snapshot) if isinstance(asked, Named) else field_report(asked, snapshot)
    if why:
        report["cluster"] = why
    if as_json:
        return json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    lines = option_text(report) if isinstance(asked, Named) else field_text(report)
    return "".join(f"{line}\n" for line in lines)


def look(kubeconfig: str | None, namespace: str | None, service: Service) -> tuple[live.Snapshot | None, str]:
    """What is in the cluster, or why that is not known: without one the answer has what rows and catalogue say."""

    async def read() -> live.Snapshot:
        async with client.Client(client.Config.load(kubeconfig), status.FIELD_MANAGER) as api:
            return await live.observe(api, service.name, namespace)

    try:
        return asyncio.run(read()), ""
    except errors.OperatorError as problem:
        return None, f"not asked: {problem}"


# --- names ----------------------------------------------------------------------------------------------------------


def parse(name: str, release: str) -> Named | Place:
    """An option (``nova.libvirt.cpu_mode``) or a field (``nova.spec.replicas``, ``novacompute.spec.driver``)."""
    first, _, rest = name.partition(".")
    if rest == "spec" or rest.startswith("spec."):
        return parse_field(first, tuple(part for part in rest.split(".")[1:] if part))
    return parse_option(first, rest, release)


def _kinds() -> dict[str, Kind]:
    """Kinds by the names that people give them."""
    found = {kind.resource.kind.lower(): kind for kind in origins.KINDS.values()}
    found |= {short: kind for kind in origins.KINDS.values() for short in kind.short_names}
    return found | {service.name: service.kinds[0] for service in origins.SERVICES.values()}


def _service(name: str) -> Service | None:
    kind = _kinds().get(name.lower())
    return None if kind is None else origins.SERVICE_OF[kind.resource.kind]


def parse_field(first: str, path: origins.Path) -> Place:
    kinds = _kinds()
    kind = kinds.get(first.lower())
    if kind is None:
        _unknown(f"no kind or service {first}", first.lower(), kinds)
    try:
        origins.resolve(kind.spec, path)
    except LookupError as problem:
        part, known = problem.args
        where = ".".join(("spec", *path[: path.index(part)]))
        _unknown(f"{kind.resource.kind}: {where} has no field {part}", part, known)
    return Place(kind, path)


def parse_option(first: str, rest: str, release: str) -> Named:
    service = origins.SERVICES.get(first)
    configured = {name: one for name, one in origins.SERVICES.items() if one.files}
    if service is None or not service.files:
        if service is not None:
            raise errors.OperatorError(
                f"{first} has no oslo.config options; its fields are known: {first}.spec; services with options: "
                f"{', '.join(configured)}"
            )
        _unknown(f"no service {first}", first, configured)
    catalogue = catalogues.load(service.name, release)
    if catalogue is None:
        raise errors.OperatorError(f"no catalogue of {first} {release}; there are {', '.join(catalogues.releases())}")
    section, _, name = rest.rpartition(".")
    if not name:
        raise errors.OperatorError(f"{first}: which option? Write {first}.SECTION.OPTION or {first}.spec.FIELD")
    return find(service, catalogue, section.strip("[]"), name)


def find(service: Service, catalogue: Catalogue, section: str, name: str) -> Named:
    """The option, under its present name. Raises ``errors.OperatorError`` with the nearest one for an unknown one."""
    reader = custom_config.Reader(catalogue, config_text.parse(""))
    rows = {(catalogues.normal(one.row.section), one.row.option) for one in origins.settings(service)}
    if not section:
        known = {one for one in catalogue.everywhere.get(name, ())} | {one for one, option in rows if option == name}
        if len(known) > 1 and "DEFAULT" not in known:
            choices = ", ".join(f"{service.name}.{catalogue.names.get(one, one)}.{name}" for one in sorted(known))
            raise errors.OperatorError(f"{service.name}.{name} is in several sections; say which: {choices}")
        section = "DEFAULT" if len(known) != 1 else next(iter(known))
    place = (catalogues.normal(section), name)
    place = catalogue.former.get(place, place)
    option = reader.option(*place)
    if option is None and place not in rows:
        where = f"{service.name} {catalogue.release} has no option [{section}] {name}"
        if place[0] not in catalogue.options:
            _unknown(
                f"{service.name} {catalogue.release} has no section [{section}]", section, catalogue.names.values()
            )
        _unknown(where, name, catalogue.options[place[0]], elsewhere=catalogue)
    return Named(service, catalogue.release, catalogue.names.get(place[0], section), place[1], option)


def _unknown(what: str, word: str, known: Iterable[str], elsewhere: Catalogue | None = None) -> NoReturn:
    """Raises ``errors.OperatorError`` with the nearest name."""
    found = difflib.get_close_matches(word, list(known), 1, 0.6)
    hint = found[0] if found else ""
    if elsewhere is not None and (sections := elsewhere.everywhere.get(word)):
        hint = " or ".join(f"[{elsewhere.names[one]}] {word}" for one in sections[:3])
    raise errors.OperatorError(f"{what}{f' (did you mean {hint}?)' if hint else ''}")


# --- an option ------------------------------------------------------------------------------------------------------


def option_report(asked: Named, snapshot: live.Snapshot | None) -> Report:
    """What is known of an option, for JSON."""
    report: Report = {
        "service": asked.service.name,
        "release": asked.release,
        "section": asked.section,
        "option": asked.name,
        "catalogue": _catalogue(asked),
        "setBy": _rows(one for one in origins.settings(asked.service) if asked.is_set_by(one)),
        "usersText": _users(asked.service),
    }
    if snapshot is not None:
        report["now"] = list(_now(asked, snapshot))
    return report


def _catalogue(asked: Named) -> Report | None:
    option, catalogue = asked.option, catalogues.load(asked.service.name, asked.release)
    if option is None or catalogue is None:
        return None
    texts = catalogues.help_texts(asked.service.name, asked.release).options
    told = {catalogues.normal(section): options for section, options in texts.items()}
    kind = catalogue.types[option.type]
    return {
        "type": kind.kind,
        "takes": option_types.words(kind),
        "choices": None if kind.choices is None else list(kind.choices),
        "min": kind.min,
        "max": kind.max,
        "default": None if option.default is None else list(option.default),
        "isExample": option.sample,
        "multi": option.multi,
        "secret": option.secret,
        "mutable": option.mutable,
        "onSighup": _on_sighup(asked) if option.mutable else {},
        "required": option.required,
        "deprecated": option.removal,
        "deprecatedSince": option.since,
        "deprecatedReason": option.reason,
        "formerNames": [f"[{section}] {name}" for section, name in option.old],
        "help": told.get(catalogues.normal(asked.section), {}).get(asked.name, ""),
    }


def _on_sighup(asked: Named) -> dict[str, str]:
    """What SIGHUP does to the process of each container of the service in the release."""
    if asked.release not in releases.available():
        return {}
    return dict(releases.load(asked.release).sighup.get(asked.service.name, {}))


def _rows(settings: Iterable[Setting]) -> list[Report]:
    """Each once: files of several Jobs have rows in common."""
    found: list[Report] = []
    for one in settings:
        row = _row(one)
        if row not in found:
            found.append(row)
    return found


def _row(one: Setting) -> Report:
    known = one.value is not origins.UNKNOWN
    return {
        "option": f"[{one.row.section}] {one.row.option}",
        "kind": one.kind.resource.kind,
        "file": one.file.name,
        "isWrittenInPod": one.file.in_pod,
        "origin": one.row.origin,
        "secret": one.row.secret,
        "value": one.value if known and not one.row.secret else None,
        "isKnown": known,
        "fields": [str(field) for field in one.fields],
        "above": [str(field) for place in one.fields for field in origins.above(place)],
    }


def _users(service: Service) -> list[Report]:
    """What wins over rows in each file: the texts of all levels, the one that wins most first."""
    found: dict[tuple[str, ...], Report] = {}
    for file in (*service.files, *service.own_files):
        own = [Place(file.kind, tuple(field.split(".")[1:])) for field in reversed(file.texts)]
        if not own:
            continue
        inherited = Place(file.kind, (levels.INHERITED,))
        levels_ = [*own, *(upper for one in (*own, inherited) for upper in origins.above(one))]
        texts = [one for one in dict.fromkeys(levels_) if one.path[-1] == levels.TEXT]
        top = texts[-1].kind
        found.setdefault(
            tuple(map(str, own)),
            {
                "field": str(own[0]),
                "above": [str(one) for one in texts if one != own[0]],
                # Of the topmost kind a longer path is nearer to the process.
                "levels": [
                    str(one) for one in sorted(texts, key=lambda one: len(one.path), reverse=True) if one.kind is top
                ],
            },
        )
    return list(found.values())


def _now(asked: Named, snapshot: live.Snapshot) -> Iterator[Report]:
    """The value in each file of each object."""
    for one in snapshot.configured(asked.service.name):
        found = live.assigned(one.parts, asked.places)
        counted = live.effective(found, asked.places, asked.option)
        last = counted[-1] if counted else None
        environment = dict(one.environment(asked.section, asked.name))
        is_secret = bool(asked.option and asked.option.secret)
        entry: Report = {
            "object": one.label,
            "workloads": [f"{resource.kind} {item['metadata']['name']}" for resource, item in one.workloads],
            "file": one.file,
            "value": None if last is None else ", ".join(item.shown(asked.option) for item in counted),
            "from": None if last is None else last.part.holder,
            "key": None if last is None else last.part.key,
            "line": None if last is None else last.assignment.line,
            "origin": None if last is None else last.origin,
            "environment": {name: live.masked(value, is_secret=is_secret) for name, value in environment.items()},
            "fields": [],
        }
        if last is not None:
            levels_ = {item.origin for item in counted}
            uppers = (
                [text for text in reversed(snapshot.texts_with(one, asked.places)) if text.level in levels_]
                if last.part.is_users
                else snapshot.fields_of(one, last.origin)
            )
            entry["fields"] = [
                {
                    "object": upper.label,
                    "field": upper.field,
                    "line": upper.line or None,
                    "value": live.masked(upper.value, is_secret=is_secret or upper.is_secret),
                }
                for upper in uppers
            ]
        yield entry


def option_text(report: Report) -> Iterator[str]:
    """For people."""
    yield f"[{report['section']}] {report['option']} of {report['service']} {report['release']}"
    known = report["catalogue"]
    if known is None:
        yield "  The release's catalogue does not have it."
    else:
        yield f"  {', '.join(_facts(known))}"
        for line in _mutability(known["onSighup"], report["release"]):
            yield from _wrapped(line)
        if known["deprecated"]:
            since = f" since {known['deprecatedSince']}" if known["deprecatedSince"] else ""
            yield from _wrapped(f"Deprecated{since}, will be removed. {known['deprecatedReason']}".strip())
        if known["formerNames"]:
            yield f"  Formerly {', '.join(known['formerNames'])}."
        yield from _wrapped(known["help"])
    yield ""
    if report["setBy"]:
        yield "Set by the operator, in"
        for row in report["setBy"]:
            value = f" = {_literal(row['value'])}" if row["isKnown"] and row["value"] is not None else ""
            place = ", written in the pod (see trace)" if row["isWrittenInPod"] else ""
            yield f"  {row['file']} of {row['kind']}{value}  ({row['origin']}){place}"
            yield from (f"      {field}" for field in row["above"])
    else:
        yield "Not set by the operator: the release's default holds, or what users write."
    if report["usersText"]:
        yield "Users' text wins over it, the first of each list most, and configSecrets beside it over the text:"
        for text in report["usersText"]:
            yield f"  {text['field']}"
            yield from (f"      {field}" for field in text["levels"])
    yield from _told(report)


def _told(report: Report) -> Iterator[str]:
    if "cluster" in report:
        yield f"In the cluster: {report['cluster']}"
    if "now" not in report:
        return
    yield "In the cluster now:" if report["now"] else "In the cluster: no object has such a file."
    for entry in report["now"]:
        where = f"{entry['object']}, {entry['file']}"
        if entry["value"] is None and not entry["environment"]:
            yield f"  {where}: not set"
            continue
        for container, value in entry["environment"].items():
            yield f"  {where}: {value}  (environment of container {container}, wins over files)"
        if entry["value"] is not None:
            yield f"  {where}: {entry['value']}"
            origin = f"  ({entry['origin']})" if entry["origin"] else ""
            yield f"      {entry['from']}, key {entry['key']}, line {entry['line']}{origin}"
            for field in entry["fields"]:
                line = f", line {field['line']}" if field["line"] else ""
                yield f"      {field['object']} {field['field']}{line}: {field['value']}"


def _facts(known: Report) -> Iterator[str]:
    yield known["takes"]
    if known["default"] is None:
        yield "no default"
    elif known["secret"]:
        yield "secret"
    else:
        yield f"{'such as' if known['isExample'] else 'default'} {', '.join(map(_literal, known['default']))}"
    if known["multi"]:
        yield "may be given several times"
    if known["required"]:
        yield "required"
    yield "mutable" if known["mutable"] else "read at start"


def _mutability(on_sighup: Mapping[str, str], release: str) -> Iterator[str]:
    """How a new value of a mutable option comes to each process."""
    by_effect: dict[str, list[str]] = {}
    for container, effect in on_sighup.items():
        by_effect.setdefault(effect, []).append(container)
    if rereaders := by_effect.pop(releases.REREADS, []):
        yield f"Applied without a restart of {_listed(rereaders)}, which read it again in {release}."
    for effect, containers in by_effect.items():
        yield f"Mutable, but SIGHUP {effect} {_listed(containers)} in {release}: applied by a rolling restart."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return '""' if value == "" else str(value)


def _wrapped(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        yield from textwrap.wrap(
            paragraph, WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip


# --- a field --------------------------------------------------------------------------------------------------------


def field_report(asked: Place, snapshot: live.Snapshot | None) -> Report:
    """What is known of a field, for JSON."""
    if not asked.path:
        described, below = None, [(path, field) for path, field in origins.leaves(asked.kind.spec)]
    else:
        described = origins.resolve(asked.kind.spec, asked.path)[-1][1]
        inner, is_map = origins.model_of(described.annotation)
        head = (*asked.path, origins.ANY) if is_map and len(asked.path) and _ends_in_map(asked) else asked.path
        below = [] if inner is None else [(path, field) for path, field in origins.leaves(inner, head)]
    places = origins.reached(asked) if asked.path else (asked,)
    rows = rows_of(places)
    report: Report = {
        "field": str(asked),
        "text": asked.kind.description if described is None else described.text,
        "default": None if described is None else origins.shown(described.default),
        "fields": [f"spec.{'.'.join(path)}" for path, _ in below],
        "becomes": [str(place) for place in places[1:]],
        "options": _rows(rows),
        "texts": list(dict.fromkeys(f"{file.name} of {kind}" for kind, file in texts_of(places))),
        "files": list(files_of(places)),
    }
    if snapshot is not None:
        report["now"] = list(_objects(places, rows, snapshot))
    return report


def _ends_in_map(asked: Place) -> bool:
    """Whether the path ends at a map itself, not at one of its keys."""
    return len(origins.resolve(asked.kind.spec, (*asked.path, origins.ANY))) == len(
        origins.resolve(asked.kind.spec, asked.path)
    )


def rows_of(places: Sequence[Place]) -> list[Setting]:
    """The rows that are made of one of these fields, or of one below it."""
    found = []
    for kind in dict.fromkeys(place.kind.resource.kind for place in places):
        paths = [place.path for place in places if place.kind.resource.kind == kind]
        for one in origins.settings(origins.SERVICE_OF[kind]):
            if one.kind.resource.kind == kind and any(
                field.path[: len(path)] == path or path[: len(field.path)] == field.path
                for field in one.fields
                for path in paths
            ):
                found.append(one)
    return found


def texts_of(places: Sequence[Place]) -> Iterator[tuple[str, Any]]:
    """Kind and file that a text in one of these fields is appended to."""
    for place in places:
        if not place.path or place.path[-1] not in origins.HANDED_DOWN:
            continue
        service = origins.SERVICE_OF[place.kind.resource.kind]
        text = ".".join(("spec", *place.path[:-1], levels.TEXT))
        for file in (*service.files, *service.own_files):
            if file.kind is place.kind and text in file.texts:
                yield place.kind.resource.kind, file


def files_of(places: Sequence[Place]) -> Iterator[str]:
    """The whole files that one of these fields puts in the place of a service's own, and beside which file."""
    for place in places:
        for file in origins.SERVICE_OF[place.kind.resource.kind].files:
            if file.kind is place.kind and place in _overwrites(file):
                yield from (f"{name} beside {file.name} of {place.kind.resource.kind}" for name in file.overwritable)


def _overwrites(file: File) -> set[Place]:
    return {Place(file.kind, path) for row in file.overwrites() for path in origins.paths(row.origin)}


def _objects(places: Sequence[Place], rows: Sequence[Setting], snapshot: live.Snapshot) -> Iterator[Report]:
    """The objects of ours that have the field, what they say, and their workloads with the files it stands in."""
    files = {(one.kind.resource.kind, one.file.name) for one in rows}
    files |= {(kind, file.name) for kind, file in texts_of(places)}
    for place in places:
        kind = place.kind.resource
        for item in snapshot.of_kind(kind):
            metadata = item["metadata"]
            given = [f"spec.{'.'.join(path)} = {origins.shown(value)}" for path, value in live.matching(item, place)]
            configured = [
                one
                for one in snapshot.configured(origins.SERVICE_OF[kind.kind].name)
                if one.owner is item and (kind.kind, one.file) in files
            ]
            workloads = [
                f"{resource.kind} {one['metadata']['name']}"
                for resource in live.WORKLOADS
                if resource != built_in.JOB
                for one in snapshot.of_kind(resource)
                if live.controller(one) == metadata["uid"]
            ]
            yield {
                "object": f"{kind.kind} {metadata['namespace']}/{metadata['name']}",
                "given": given,
                "files": [
                    f"{part.holder}, key {part.key}"
                    for one in configured
                    for part in one.parts
                    if part.text is not None
                ],
                "workloads": workloads,
            }


def field_text(report: Report) -> Iterator[str]:
    """For people."""
    default = "" if report["default"] in (None, "") else f"  (default {report['default']})"
    yield f"{report['field']}{default}"
    yield from _wrapped(report["text"])
    if report["fields"]:
        yield "Fields:"
        yield from (f"  {field}" for field in report["fields"])
    if report["becomes"]:
        yield "Passed on to:"
        yield from (f"  {place}" for place in report["becomes"])
    if report["options"]:
        yield "Sets options:"
        for row in report["options"]:
            yield f"  {row['option']} in {row['file']} of {row['kind']}  ({row['origin']})"
    if report["files"]:
        yield "Puts files in the place of the service's own:"
        yield from (f"  {file}" for file in report["files"])
    if report["texts"]:
        yield "Appended to:"
        yield from (f"  {text}" for text in report["texts"])
    if "cluster" in report:
        yield f"In the cluster: {report['cluster']}"
    for entry in report.get("now", ()):
        given = "; ".join(entry["given"]) or "not given"
        yield f"{entry['object']}: {given}"
        yield from (f"  {one}" for one in (*entry["files"], *entry["workloads"]))
