"""`openstack-operator plan`: what a changed object would do, before it is applied.

The operator's own controllers run on a copy of the cluster (`simulation`): first as things are, then with the change.
What happens only with the change is the plan: objects with their differences, pods that are replaced and in what order,
Jobs that run. Nothing is written: the API server is asked in dry runs.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import difflib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pydantic
import yaml

from openstack_operator.cli import live, manifests, origins, simulation
from openstack_operator.cli.simulation import Place, Simulation
from openstack_operator.kit import kinds, redaction, rereading
from openstack_operator.runtime import client, conditions, errors, logs
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.kinds import Resource

FIELD_MANAGER = "openstack-operator"
"""Dry runs are the operator's own: another manager would not take fields away."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
_AS_KUBECTL = {"dryRun": "All", "fieldManager": KUBECTL, "fieldValidation": "Strict"}
APPLIED = f"{kinds.DOMAIN}/applied"

_NOTES = frozenset((APPLIED, LAST_APPLIED, "deprecated.daemonset.template.generation"))
"""Annotations of programs for themselves."""

LONGEST_VALUE = 200

_KNOWN: dict[tuple[str, str], Resource] = {
    (resource.api_version, resource.kind): resource
    for resource in (*(kind.resource for kind in origins.KINDS.values()), built_in.SECRET, built_in.CONFIGMAP)
}

_OUTSIDE = {
    "identity": "the service's user, roles and endpoints in Keystone",
    "catalog": "the project of service users in Keystone",
    "databases": "database and user in MariaDB",
    "vhosts": "virtual host and user in RabbitMQ",
}
"""What is done outside of the cluster's API, by the words of ``verified``. Others only look."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """One field. None stands for what is not there; ``lines`` are those of a text that differ."""

    path: str
    before: Any
    after: Any
    lines: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Change:
    """One object that would be created, changed or deleted."""

    wave: int
    verb: str
    kind: str
    name: str
    differences: tuple[Difference, ...] = ()
    pods: str = ""
    """What happens to the pods of a workload; that a Job runs."""
    downtime: str = ""


@dataclasses.dataclass(frozen=True)
class Plan:
    """All that would happen, in its order."""

    namespace: str
    changes: tuple[Change, ...]
    outside: tuple[str, ...]
    warnings: tuple[str, ...]
    unready: tuple[str, ...]
    """Objects of ours that would not be Ready in the end, and why."""


def run(file: str, kubeconfig: str | None, namespace: str | None, *, as_json: bool) -> str:
    """The plan of a file. Raises ``errors.OperatorError`` for what the API server refuses."""
    logs.configure("critical", "human")
    text = Path(file).read_text() if file != "-" else _stdin()
    plan = asyncio.run(make(text, client.Config.load(kubeconfig), namespace))
    return _json(plan) if as_json else "".join(f"{line}\n" for line in _text(plan))


def _stdin() -> str:
    import sys

    return sys.stdin.read()


async def make(text: str, config: client.Config, namespace: str | None, services: Sequence[str] = ()) -> Plan:
    """The plan of a file's text, with the controllers of these services; all of them without a name."""
    documents = _documents(text)
    if namespace is None:
        namespace = config.namespace
    namespaces = {one["metadata"].get("namespace") or namespace for one in documents}
    if len(namespaces) != 1:
        raise errors.OperatorError(
            f"a plan is about one namespace; the file has objects of {', '.join(sorted(namespaces))}"
        )
    (where,) = namespaces
    api = simulation.Dry(config, FIELD_MANAGER)
    async with api:
        world = Simulation(api, where, services)
        await world.fill()
        world.wake_all()
        await world.settle()
        outside = dict(world.outside)
        world.start()
        api.warnings.clear()
        for document in documents:
            await _change(world, document)
        await world.settle()
        return _plan(world, outside, tuple(api.warnings))


def _documents(text: str) -> list[Object]:
    """The objects of a file, those of Lists included."""
    try:
        loaded = [one for one in manifests.documents(text) if one is not None]
    except yaml.YAMLError as problem:
        raise errors.OperatorError(f"is not YAML: {problem}") from problem
    found: list[Object] = []
    for one in loaded:
        if not isinstance(one, dict):
            raise errors.OperatorError("a document of the file is no object")
        found += one["items"] if one.get("kind") == "List" else [one]
    for one in found:
        where = (one.get("apiVersion", ""), one.get("kind", ""))
        if where not in _KNOWN or not one.get("metadata", {}).get("name"):
            known = ", ".join(sorted(resource.kind for resource in _KNOWN.values()))
            raise errors.OperatorError(f"{' '.join(map(str, where))}: no object that is looked at here: {known}")
    if not found:
        raise errors.OperatorError("the file has no object")
    return found


async def _change(world: Simulation, document: Object) -> None:
    """Applies an object of the file to the copy, as `kubectl apply` would."""
    resource = _KNOWN[document["apiVersion"], document["kind"]]
    body = copy.deepcopy(document)
    body["metadata"]["namespace"] = world.namespace
    # kubectl always writes some of its own: those of others stay.
    body["metadata"].setdefault("annotations", {})
    place = (resource, world.namespace, body["metadata"]["name"])
    answer = await _dry(world, place, body)
    if world.manager.cached(*place) is None and resource in (built_in.SECRET, built_in.CONFIGMAP):
        # One of the user's own: nothing caches it, it is followed by its name.
        world.extra[place] = answer
        world.wake_all()
        return
    world.take(place, simulation.USER, answer)


async def _dry(world: Simulation, place: Place, body: Object) -> Object:
    resource, namespace, name = place
    path = resource.path(namespace, name)
    try:
        present = await world.api.get(resource, name, namespace)
    except errors.ApiError as problem:
        if problem.status != 404:
            raise
        created: Object = await world.api.request("POST", resource.path(namespace), params=_AS_KUBECTL, body=body)
        return created
    entries = present["metadata"].get("managedFields", ())
    if any(one["manager"] == KUBECTL and one["operation"] == "Apply" for one in entries):
        return await world.api.dry_apply(resource, body, KUBECTL, fieldValidation="Strict")
    last = json.loads(present["metadata"].get("annotations", {}).get(LAST_APPLIED, "{}"))
    patched: Object = await world.api.request(
        "PATCH",
        path,
        params=_AS_KUBECTL,
        body=three_way(last, body),
        content_type="application/merge-patch+json",
    )
    return patched


def three_way(last: Any, wanted: Any) -> Any:
    """The merge patch of `kubectl apply`: everything that is wanted, and nothing of what was and is no longer."""
    if not isinstance(wanted, dict):
        return wanted
    before = last if isinstance(last, dict) else {}
    gone = {key: None for key in before if key not in wanted}
    return gone | {key: three_way(before.get(key), value) for key, value in wanted.items()}


# --- the plan -------------------------------------------------------------------------------------------------------


def _plan(world: Simulation, outside: dict[tuple[str, str, str], str], warnings: tuple[str, ...]) -> Plan:
    after = dict(world.objects())
    told: dict[Place, list[simulation.Act]] = {}
    for act in world.acts:
        told.setdefault(act.place, []).append(act)
    changes = []
    for place, acts in told.items():
        before, now = world.before.get(place), after.get(place)
        found = _change_of(place, acts, before, now, world)
        if found is not None:
            changes.append(found)
    changes += _reread(world, outside, changes)
    changes.sort(key=lambda one: one.wave)
    return Plan(
        world.namespace,
        tuple(changes),
        tuple(_outside_changes(outside, world.outside)),
        tuple(dict.fromkeys((*_findings(told, after), *warnings))),
        tuple(_unready(after)),
    )


def _change_of(
    place: Place, acts: Sequence[simulation.Act], before: Object | None, now: Object | None, world: Simulation
) -> Change | None:
    """None where in the end all is as it was."""
    resource = place[0]
    if now is not None and "deletionTimestamp" in now["metadata"]:
        # It waits for something that nobody does here.
        now = None
    pods_verb = next((act for act in acts if act.verb not in ("create", "change", "delete")), None)
    if before is None and now is None:
        # It came and went: a Job that looks for something, or a DaemonSet that cleans up.
        verb = "create and delete"
    elif before is None:
        verb = "create"
    elif now is None:
        verb = "delete"
    else:
        verb = "change"
    differences = tuple(_differences(resource, before, now)) if before is not None and now is not None else ()
    if verb == "change" and not differences and pods_verb is None:
        return None
    wave = acts[0].wave
    return Change(
        wave,
        verb,
        resource.kind,
        place[2],
        differences,
        _pods(resource, pods_verb.verb, before, now, world) if pods_verb is not None else "",
        _downtime(resource, pods_verb.verb if pods_verb else "", before, now) if resource in simulation.PLAYED else "",
    )


def _reread(world: Simulation, before: dict[tuple[str, str, str], str], changes: Sequence[Change]) -> Iterator[Change]:
    """What running pods read again; those that are replaced read it in any case."""
    replaced = {(one.kind, one.name) for one in changes if one.pods.startswith(("replaces", "starts"))}
    for place, fingerprint in world.outside.items():
        word, _, workload = place[2].partition(" ")
        if word != rereading.TOLD or place not in before or before[place] == fingerprint:
            continue
        kind, _, name = workload.partition(" ")
        if (kind, name) in replaced:
            continue
        resource = next(one for one in simulation.PLAYED if one.kind == kind)
        item = world.get((resource, world.namespace, name))
        if item is None or not (count := _count(resource, item, world)):
            continue
        options = fingerprint.partition(" ")[2]
        many = f"{count} pod{'' if count == 1 else 's'}"
        yield Change(
            world.waves[place], "read again", kind, name, pods=f"applied without a restart in {many}: {options}"
        )


def _count(resource: Resource, item: Object, world: Simulation) -> int:
    spec = item["spec"]
    found: int = world.nodes(spec["template"]["spec"]) if resource == built_in.DAEMONSET else spec.get("replicas", 1)
    return found


def _pods(resource: Resource, verb: str, before: Object | None, now: Object | None, world: Simulation) -> str:
    if resource == built_in.JOB:
        return "runs"
    item = now or before
    assert item is not None
    count = _count(resource, item, world)
    many = f"{count} pod{'' if count == 1 else 's'}"
    if verb == "scale":
        return f"from {(before or {}).get('spec', {}).get('replicas', 1)} to {many}"
    return {"roll": f"replaces {many}", "start": f"starts {many}", "mark": "its pods stay until somebody deletes them"}[
        verb
    ]


def _downtime(resource: Resource, verb: str, before: Object | None, now: Object | None) -> str:
    """What users notice."""
    if now is None:
        return "gone" if before is not None and resource != built_in.JOB else ""
    spec = now["spec"]
    if verb == "scale" and spec.get("replicas", 1) == 0:
        return "down until it is scaled up again"
    if verb != "roll":
        return ""
    if resource == built_in.DEPLOYMENT:
        return "none: new pods serve before old ones go"
    if resource == built_in.STATEFULSET:
        return "while its only pod starts again" if spec.get("replicas", 1) == 1 else "none: one member at a time"
    return "node after node, while the pod there starts again"


def _differences(resource: Resource, before: Object, now: Object) -> Iterator[Difference]:
    old, new = (_shown(simulation.essence(one)) for one in (before, now))
    for one in _compared(old, new, ""):
        # All of the data is one difference where there was none, or is none in the end.
        if resource == built_in.SECRET and one.path.split(".")[0] in ("data", "stringData"):
            was, becomes = (None if value is None else live.HIDDEN for value in (one.before, one.after))
            yield Difference(one.path, was, becomes)
        else:
            yield one


def _shown(item: Object) -> Object:
    """Without the runtime's own note."""
    annotations = {key: value for key, value in item["metadata"].get("annotations", {}).items() if key not in _NOTES}
    return item | {"metadata": {**item["metadata"], "annotations": annotations}}


def _compared(old: Any, new: Any, path: str) -> Iterator[Difference]:
    if old == new:
        return
    named = [
        {one["name"]: one for one in value}
        if isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in value)
        else value
        for value in (old, new)
    ]
    first, second = named
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys((*first, *second)):
            here = f"{path}.{key}" if path else str(key)
            yield from _compared(first.get(key), second.get(key), here)
        return
    texts = [value for value in (old, new) if value is not None]
    if all(isinstance(value, str) for value in texts) and any("\n" in value for value in texts):
        found = difflib.unified_diff((old or "").splitlines(), (new or "").splitlines(), n=0, lineterm="")
        lines = (line for line in found if not line.startswith(("---", "+++", "@@")))
        yield Difference(path, None, None, tuple(map(hidden, lines)))
        return
    yield Difference(path, _masked(old), _masked(new))


_SECRET = re.compile(r"^([-+]?\s*\w*(?:password|secret|token|credential|passphrase)\w*\s*[:=]).*", re.IGNORECASE)


def hidden(line: str) -> str:
    """A line of users' text without the passwords in it: nobody keeps them from writing some there."""
    return _SECRET.sub(rf"\1 {live.HIDDEN}", redaction.without_logins(line))


def _masked(value: Any) -> Any:
    return redaction.without_logins(value) if isinstance(value, str) else value


def _outside_changes(before: dict[tuple[str, str, str], str], after: dict[tuple[str, str, str], str]) -> Iterator[str]:
    for place, fingerprint in after.items():
        kind, name, what = place
        words = _OUTSIDE.get(what.partition(" ")[0])
        if words is not None and before.get(place) != fingerprint:
            thing = what.partition(" ")[2]
            yield f"{kind} {name}: {words}{f' ({thing})' if thing else ''}"


def _findings(told: Any, after: dict[Place, Object]) -> Iterator[str]:
    """What the check of configuration text says about objects that change."""
    for place in told:
        kind = origins.KINDS.get(place[0].kind)
        item = after.get(place)
        if kind is None or item is None:
            continue
        try:
            spec = kind.spec.model_validate(item.get("spec", {}))
        except pydantic.ValidationError:
            continue
        for finding in origins.SERVICE_OF[place[0].kind].findings(kind, spec):
            yield f"{place[0].kind} {place[2]}: {finding}"


def _unready(after: dict[Place, Object]) -> Iterator[str]:
    for place, item in after.items():
        if place[0].kind in origins.KINDS and not conditions.is_ready(item):
            ready = conditions.find(item, conditions.READY)
            yield f"{place[0].kind} {place[2]}: {(ready or {}).get('message') or 'no status yet'}"


# --- showing --------------------------------------------------------------------------------------------------------

_MARKS = {"create": "+", "change": "~", "delete": "-", "create and delete": "±", "read again": "↻"}


def _text(plan: Plan) -> Iterator[str]:
    yield from (f"warning: {warning}" for warning in plan.warnings)
    if not plan.changes:
        yield "Nothing would change."
        return
    waves = sorted({change.wave for change in plan.changes})
    for number, wave in enumerate(waves, 1):
        yield f"{number}. {'At once' if number == 1 else 'When these have rolled out and ended'}:"
        for change in (one for one in plan.changes if one.wave == wave):
            yield f"  {_MARKS[change.verb]} {change.kind} {change.name}"
            for one in change.differences:
                yield from _difference(one)
            if change.pods:
                yield f"      {change.pods}{f'; downtime: {change.downtime}' if change.downtime else ''}"
            elif change.downtime:
                yield f"      {change.downtime}"
    yield from (f"Outside of the cluster: {one}" for one in plan.outside)
    yield from (f"Not Ready in the end: {one}" for one in plan.unready)
    yield _summary(plan)


def _difference(one: Difference) -> Iterator[str]:
    if one.lines:
        yield f"      {one.path}:"
        yield from (f"        {line[0]} {_cut(line[1:])}" for line in one.lines)
    elif one.before is None:
        yield f"      {one.path}: {_cut(origins.shown(one.after))} (new)"
    elif one.after is None:
        yield f"      {one.path}: {_cut(origins.shown(one.before))} (taken away)"
    else:
        yield f"      {one.path}: {_cut(origins.shown(one.before))} -> {_cut(origins.shown(one.after))}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _summary(plan: Plan) -> str:
    count = {verb: sum(change.verb == verb for change in plan.changes) for verb in _MARKS}
    rolled = [change.name for change in plan.changes if change.pods.startswith("replaces")]
    jobs = sum(change.pods == "runs" for change in plan.changes)
    parts = [f"{count['create']} to create, {count['change']} to change, {count['delete']} to delete"]
    parts.append(f"pods are replaced of {', '.join(rolled)}" if rolled else "no pod is replaced")
    if reread := [change.name for change in plan.changes if change.verb == "read again"]:
        parts.append(f"applied without a restart by {', '.join(reread)}")
    parts.append(f"{jobs} Job{'' if jobs == 1 else 's'} would run")
    down = [change.name for change in plan.changes if change.downtime and not change.downtime.startswith("none")]
    parts.append(f"downtime of {', '.join(down)}" if down else "no downtime")
    return f"Plan: {'; '.join(parts)}."


def _json(plan: Plan) -> str:
    return json.dumps(dataclasses.asdict(plan), indent=2, ensure_ascii=False, default=str) + "\n"
