"""Reconciles NovaCell: makes the parts of a cell and mirrors their state."""

from __future__ import annotations

from collections.abc import Iterable

from openstack_operator.kit import kinds, labels
from openstack_operator.runtime import conditions, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.runtime.kinds import Resource
from openstack_operator.services.nova import children
from openstack_operator.services.nova.cell import resources
from openstack_operator.services.nova.cell.types import KIND, NovaCellSpec


async def ensure_conductor(scope: Scope[NovaCellSpec]) -> None:
    """The cell's conductor works."""
    name = children.name(scope.name, "conductor")
    item = await children.ensure(
        scope, kinds.NOVA_CONDUCTOR, name, "conductor", resources.conductor(scope.name, scope.spec)
    )
    children.require_ready(scope, kinds.NOVA_CONDUCTOR, item)


async def ensure_metadata(scope: Scope[NovaCellSpec]) -> str | None:
    """The cell's own metadata service answers, if it has one."""
    name = children.name(scope.name, "metadata")
    if not scope.spec.metadata.enabled:
        await scope.delete(kinds.NOVA_METADATA, name)
        return "spec.metadata.enabled is false: the Nova's metadata service serves the cell"
    item = await children.ensure(
        scope, kinds.NOVA_METADATA, name, "metadata", resources.metadata(scope.name, scope.spec)
    )
    children.require_ready(scope, kinds.NOVA_METADATA, item)
    return None


async def ensure_novncproxy(scope: Scope[NovaCellSpec]) -> str | None:
    """The cell's proxy for consoles serves, if it has one."""
    name = children.name(scope.name, "novncproxy")
    scope.facts["console.url"] = ""
    if not scope.spec.novncproxy.enabled:
        await scope.delete(kinds.NOVA_NOVNCPROXY, name)
        return "spec.novncproxy.enabled is false"
    item = await children.ensure(
        scope, kinds.NOVA_NOVNCPROXY, name, "novncproxy", resources.novncproxy(scope.name, scope.spec)
    )
    url = item.get("status", {}).get("publicUrl") or ""
    scope.facts["console.url"] = scope.status["consoleUrl"] = url
    children.require_ready(scope, kinds.NOVA_NOVNCPROXY, item)
    return None


async def ensure_computes(scope: Scope[NovaCellSpec]) -> str | None:
    """Every group of compute nodes works."""
    if scope.spec.novncproxy.enabled and not scope.facts["console.url"]:
        proxy = kinds.NOVA_NOVNCPROXY.kind
        name = children.name(scope.name, "novncproxy")
        raise errors.Waiting("NoURL", f"{proxy} {scope.namespace}/{name} has no URL yet", on=proxy)
    conductor = children.name(scope.name, "conductor")
    url = scope.facts["console.url"]
    items = {}
    for group in sorted(scope.spec.computes):
        body = resources.compute(scope.name, scope.spec, group, conductor, url)
        name = children.name(scope.name, group)
        items[name] = await children.ensure(scope, kinds.NOVA_COMPUTE, name, "compute", body)
    await scope.prune(kinds.NOVA_COMPUTE, items)
    statuses = [item.get("status", {}) for item in items.values()]
    scope.status["hosts"] = sorted({host["name"] for status in statuses for host in status.get("hosts", [])})
    virt = {kind for status in statuses for kind in (status.get("virtType") or "").split(",") if kind}
    scope.status["virtType"] = ",".join(sorted(virt)) or None
    for item in items.values():
        children.require_ready(scope, kinds.NOVA_COMPUTE, item)
    return f"{len(scope.status['hosts'])} hosts"


PARTS = (kinds.NOVA_COMPUTE, kinds.NOVA_CONDUCTOR, kinds.NOVA_METADATA, kinds.NOVA_NOVNCPROXY)
LOOK_AGAIN_SECONDS = 2
"""Pods wake their own object, which is gone before them."""


async def finalize(scope: Scope[NovaCellSpec]) -> None:
    """Ends the parts and waits for the end of their pods: a nova-compute that still runs would come back to what the
    Nova forgets of it next."""
    left = []
    for resource in PARTS:
        for item in scope.children(resource):
            left.append(f"{resource.kind} {item['metadata']['name']}")
            await scope.delete(resource, item["metadata"]["name"])
    if left:
        raise errors.Waiting("PartsExist", f"waits for the end of {', '.join(left)}")
    parts = {(kind.kind, children.name(scope.name, name)) for kind, name in _parts(scope.spec)}
    if pods := [
        pod["metadata"]["name"]
        for pod in scope.items(built_in.POD)
        if (tags := pod["metadata"].get("labels", {}))
        and (tags.get(labels.OWNER_KIND), tags.get(labels.OWNER_NAME)) in parts
        and _is_reachable(scope, pod["spec"].get("nodeName", ""))
    ]:
        raise errors.Waiting("PodsExist", f"waits for the end of {', '.join(pods[:10])}", LOOK_AGAIN_SECONDS)


def _parts(spec: NovaCellSpec) -> Iterable[tuple[Resource, str]]:
    yield kinds.NOVA_CONDUCTOR, "conductor"
    yield kinds.NOVA_METADATA, "metadata"
    yield kinds.NOVA_NOVNCPROXY, "novncproxy"
    for group in spec.computes:
        yield kinds.NOVA_COMPUTE, group


def _is_reachable(scope: Scope[NovaCellSpec], node: str) -> bool:
    """Whether pods of the node can end: one that is down for ever must not hold up the end."""
    return conditions.is_true(scope.manager.informer(built_in.NODE).get(None, node), conditions.READY)


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("ConductorReady", ensure_conductor, needs=()),
        Step("MetadataReady", ensure_metadata, needs=()),
        Step("NoVNCProxyReady", ensure_novncproxy, needs=()),
        Step("ComputesReady", ensure_computes, needs=()),
    ),
    owns=PARTS,
    reads=(built_in.NODE, built_in.POD),
    finalize=finalize,
)
