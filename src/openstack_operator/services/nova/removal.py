"""Cells that are no longer in the spec: emptied of what Nova knows of them, then their database and virtual host go.

The controller's table calls ``unmap`` before the parts that read the cells, and ``drop`` after them: nova-api answers
every list of servers with an error while it knows a cell whose database is gone, so it must have forgotten the cell
first. Each pass finds out anew how far a cell is, from the objects that are left of it:

    NovaCell exists        Job looks for servers and foreign hosts ── found ──> CellInUse: everything keeps running
           │ none
    NovaCell is deleted    its parts end, computes clean their nodes
           │
    Job removes            providers in Placement, hosts, servers' mappings, the cell's mapping
           │
    parts roll             registeredCells without the cell
           │
    drop                   database, virtual host, users, Secrets; the cell leaves the register

The register is a ConfigMap: which cells have, or had, a database and a virtual host, and in which servers.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from openstack_operator.kit import (
    config,
    credentials,
    database,
    jobs,
    kinds,
    labels,
    levels,
    messaging,
    names,
)
from openstack_operator.runtime import conditions, drift, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.informer import Key
from openstack_operator.services.nova import children, compute_api, resources
from openstack_operator.services.nova import config as files
from openstack_operator.services.nova.types import NovaSpec

LOOK_AGAIN_SECONDS = 10
"""Servers have no watch; asked only while some are in the way of a removal."""
GONE = "gone"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a cell has its database and its virtual host."""

    mariadb: str
    rabbitmq: str


def register_name(instance: str) -> str:
    return names.join(instance, "cells")


def schema(instance: str, part: str) -> str:
    """Name of a database, and of its user."""
    return children.name(instance, part).replace("-", "_")


def vhost(instance: str, cell: str) -> str:
    """Name of a virtual host, and of its user."""
    return children.name(instance, cell)


def database_secret(instance: str, part: str) -> str:
    return names.database_secret(children.name(instance, part))


def messaging_secret(instance: str, cell: str) -> str:
    return names.messaging_secret(children.name(instance, cell))


def places(scope: Scope[NovaSpec]) -> dict[str, Place]:
    """The register: every cell that has, or had, something."""
    item = scope.get(built_in.CONFIGMAP, register_name(scope.name))
    return {cell: Place(**json.loads(text)) for cell, text in ((item or {}).get("data") or {}).items()}


async def ensure_register(scope: Scope[NovaSpec]) -> None:
    """Writes the cells of the spec down before anything is made for them, so that nothing of them is ever forgotten."""
    spec = scope.spec
    known = places(scope)
    wanted = {
        cell: Place(
            (template.database_ref or spec.database_ref).name, (template.messaging_ref or spec.messaging_ref).name
        )
        for cell, template in spec.cell_templates.items()
    }
    await _write(scope, known | wanted)


async def _write(scope: Scope[NovaSpec], known: dict[str, Place]) -> None:
    data = {cell: json.dumps(dataclasses.asdict(place), sort_keys=True) for cell, place in sorted(known.items())}
    tags = labels.common(resources.SERVICE, scope.name)
    await scope.apply(
        built_in.CONFIGMAP, {"metadata": {"name": register_name(scope.name), "labels": tags}, "data": data}
    )


def leaving(scope: Scope[NovaSpec]) -> list[str]:
    """Cells of the register that the spec does not have."""
    return sorted(set(places(scope)) - set(scope.spec.cell_templates))


async def unmap(scope: Scope[NovaSpec]) -> dict[str, str]:
    """Brings every leaving cell as far as it gets; returns the hashes of those that the API database still knows.

    Sets the fact ``removal``: what each cell that still has a mapping waits for.
    """
    await _prune_jobs(scope)
    problems: dict[str, errors.StepError] = {}
    mapped: dict[str, str] = {}
    for cell in leaving(scope):
        try:
            await _unmap(scope, cell)
        except errors.StepError as problem:
            # One that is in use, or whose Job fails, holds up no other.
            problems[cell] = problem
            mapped[cell] = _hash(scope, cell)
    scope.facts["removal"] = problems
    return mapped


def _hash(scope: Scope[NovaSpec], cell: str) -> str:
    """The hash of a leaving cell's connections, as it was when the cell was in the spec."""
    stored = []
    for secret, url in (
        (database_secret(scope.name, cell), database.url),
        (messaging_secret(scope.name, cell), messaging.url),
    ):
        item = scope.get(built_in.SECRET, secret)
        stored.append(url(credentials.decode(item)) if item is not None else "")
    return drift.digest(stored)


async def _unmap(scope: Scope[NovaSpec], cell: str) -> None:
    if "identity.url" not in scope.facts or "service_user.user" not in scope.facts:
        raise errors.Waiting("NoIdentity", "waits for the URLs of Keystone (SurroundingsReady)")
    is_forced = cell in scope.spec.forced_cell_removals
    item = scope.get(kinds.NOVA_CELL, children.name(scope.name, cell))
    if item is None:
        await _run(scope, cell, "force" if is_forced else "remove")
        return
    if "deletionTimestamp" not in item["metadata"]:
        if not is_forced:
            await _run(scope, cell, "check", *sorted(item.get("status", {}).get("hosts", [])))
        await scope.event("Normal", "CellRemoved", f"cell {cell}: ends its parts")
        await scope.delete(kinds.NOVA_CELL, item["metadata"]["name"])
    ready = conditions.find(item, conditions.READY)
    why = f": {ready['message']}" if ready and ready["reason"] == "Deleting" else ""
    raise errors.Waiting("PartsExist", f"NovaCell {item['metadata']['name']} is ending{why}")


async def _run(scope: Scope[NovaSpec], cell: str, mode: str, *own_hosts: str) -> None:
    """Runs the Job until it says that nothing is left; raises for what it found."""
    custom = config.Custom(levels.texts(scope))
    sources = await config.ensure(
        scope,
        resources.SERVICE,
        [config.File("nova.conf", files.SERVICE_ROWS, custom)],
        scripts={files.REMOVAL_NAME: files.REMOVAL_SCRIPT},
        instance=names.join(scope.name, "removal"),
    )
    pod = resources.removal_pod(scope.name, scope.spec, sources, cell, mode, own_hosts)
    said = await jobs.said(scope, await jobs.ensure(scope, pod, pod.component))
    if said == GONE:
        return
    if said:
        found = json.loads(said)
        if await _is_still(scope, found):
            raise errors.Waiting("CellInUse", _in_use(cell, found), retry_after=LOOK_AGAIN_SECONDS)
    # What it found has changed since, or its pod is gone and nobody knows what it found.
    for job in scope.children(built_in.JOB):
        if job["metadata"]["labels"].get(labels.COMPONENT) == pod.component:
            await scope.delete(built_in.JOB, job["metadata"]["name"])
    raise errors.Waiting("JobRunning", f"cell {cell}: looks again for what is in it")


def api_url(scope: Scope[NovaSpec]) -> str:
    """Of the compute API, also while it is not known whether that serves."""
    item = scope.get(kinds.NOVA_API, children.name(scope.name, "api"))
    url = ((item or {}).get("status") or {}).get("internalUrl")
    if not url:
        raise errors.Waiting("NoURL", "waits for the URL of the API (APIReady)")
    return str(url)


async def _is_still(scope: Scope[NovaSpec], found: dict[str, Any]) -> bool:
    """Whether all that the Job has named is still there."""
    facts = scope.facts
    return await compute_api.are_present(
        facts["identity.url"],
        facts["service_user.user"],
        facts["service_user.password"],
        api_url(scope),
        [uuid for uuid, _ in found["servers"]],
        found["hosts"],
    )


def _in_use(cell: str, found: dict[str, Any]) -> str:
    parts = []
    if found["servers"]:
        shown = ", ".join(f"{name} ({uuid})" for uuid, name in found["servers"])
        more = f" and {found['count'] - len(found['servers'])} more" if found["count"] > len(found["servers"]) else ""
        parts.append(f"servers {shown}{more}")
    if found["hosts"]:
        parts.append(f"hosts {', '.join(found['hosts'])}")
    return (
        f"cell {cell} keeps running, because in it are {'; '.join(parts)}. Delete them, put the cell back into "
        "spec.cellTemplates, or lose them with spec.forcedCellRemovals"
    )


async def _prune_jobs(scope: Scope[NovaSpec]) -> None:
    """A cell that comes back and goes again is looked at again."""
    wanted = {resources.removal_component(cell) for cell in leaving(scope)}
    for job in scope.children(built_in.JOB):
        component = job["metadata"]["labels"].get(labels.COMPONENT, "")
        if component.startswith(resources.REMOVAL_PREFIX) and component not in wanted:
            await scope.delete(built_in.JOB, job["metadata"]["name"])


async def drop(scope: Scope[NovaSpec]) -> str | None:
    """Gives back what the cells without a mapping had, once every part has forgotten them; raises the first problem."""
    problems: dict[str, errors.StepError] = dict(scope.facts["removal"])
    known = places(scope)
    for cell in leaving(scope):
        if cell in problems:
            continue
        try:
            _require_forgotten(scope, cell)
            await _drop(scope, cell, known[cell])
        except errors.StepError as problem:
            problems[cell] = problem
            continue
        del known[cell]
        await _write(scope, known)
        await scope.event("Normal", "CellRemoved", f"cell {cell}: database and virtual host are gone")
    if problems:
        raise problems[min(problems)]
    for resource, name in (
        (built_in.CONFIGMAP, names.config_data(names.join(scope.name, "removal"))),
        (built_in.CONFIGMAP, names.scripts(names.join(scope.name, "removal"))),
        (built_in.SECRET, names.config_secrets(names.join(scope.name, "removal"))),
    ):
        await scope.delete(resource, name)
    return None


READERS = (
    (kinds.NOVA_API, "api"),
    (kinds.NOVA_SCHEDULER, "scheduler"),
    (kinds.NOVA_CONDUCTOR, "conductor"),
    (kinds.NOVA_METADATA, "metadata"),
)
"""Kinds whose pods hold the cells' connections in memory, and their parts of a Nova."""


def novas_of_ending_pod(pod: Object, manager: Any) -> Iterator[Key]:
    """Of a pod that is ending: the Nova whose cells it knows. For ``Watch``."""
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return
    instance = metadata.get("labels", {}).get("app.kubernetes.io/instance", "")
    for resource, _ in READERS:
        item = manager.informer(resource).get(metadata["namespace"], instance)
        for owner in (item or {"metadata": {}})["metadata"].get("ownerReferences", []):
            if owner["kind"] == kinds.NOVA.kind:
                yield metadata["namespace"], owner["name"]


def _require_forgotten(scope: Scope[NovaSpec], cell: str) -> None:
    for resource, part in READERS:
        item = scope.get(resource, children.name(scope.name, part))
        if item is None:
            continue
        if cell in item["spec"].get("registeredCells", {}):
            raise errors.Waiting("CellKnown", f"{resource.kind} {item['metadata']['name']} still reads cell {cell}")
        children.require_ready(scope, resource, item)
        _require_ended(scope, item)


def _require_ended(scope: Scope[NovaSpec], part: Object) -> None:
    """The pods that the newest ones replaced are gone: until then they answer, and know the cell."""
    name = part["metadata"]["name"]
    found = [
        pod["metadata"]
        for pod in scope.items(built_in.POD)
        if pod["metadata"].get("labels", {}).get("app.kubernetes.io/instance") == name
        and any(owner["kind"] == "ReplicaSet" for owner in pod["metadata"].get("ownerReferences", []))
    ]
    ending = sorted(one["name"] for one in found if "deletionTimestamp" in one)
    # Caches of two kinds are not equally new: one pod too many is about to end.
    if ending or len(found) > part["spec"].get("replicas", 1):
        raise errors.Waiting("PodsExist", f"waits for the end of old pods of {name}: {', '.join(ending[:10])}")


async def _drop(scope: Scope[NovaSpec], cell: str, place: Place) -> None:
    await database.drop(scope, place.mariadb, schema(scope.name, cell))
    await messaging.drop(scope, place.rabbitmq, vhost(scope.name, cell))
    await scope.delete(built_in.SECRET, database_secret(scope.name, cell))
    await scope.delete(built_in.SECRET, messaging_secret(scope.name, cell))
