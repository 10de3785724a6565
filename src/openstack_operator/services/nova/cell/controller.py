"""Reconciles NovaCell: makes the parts of a cell and mirrors their state."""

from __future__ import annotations

from openstack_operator.kit import kinds
from openstack_operator.runtime import errors
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.nova import children
from openstack_operator.services.nova.cell import resources
from openstack_operator.services.nova.cell.types import KIND, NovaCellSpec


async def ensure_conductor(scope: Scope[NovaCellSpec]) -> None:
    """The cell's conductor works."""
    name = children.name(scope.name, "conductor")
    item = await children.ensure(scope, kinds.NOVA_CONDUCTOR, name, "conductor", resources.conductor(scope.spec))
    children.require_ready(scope, kinds.NOVA_CONDUCTOR, item)


async def ensure_metadata(scope: Scope[NovaCellSpec]) -> str | None:
    """The cell's own metadata service answers, if it has one."""
    name = children.name(scope.name, "metadata")
    if not scope.spec.metadata.enabled:
        await scope.delete(kinds.NOVA_METADATA, name)
        return "spec.metadata.enabled is false: the Nova's metadata service serves the cell"
    item = await children.ensure(scope, kinds.NOVA_METADATA, name, "metadata", resources.metadata(scope.spec))
    children.require_ready(scope, kinds.NOVA_METADATA, item)
    return None


async def ensure_novncproxy(scope: Scope[NovaCellSpec]) -> str | None:
    """The cell's proxy for consoles serves, if it has one."""
    name = children.name(scope.name, "novncproxy")
    scope.facts["console.url"] = ""
    if not scope.spec.novncproxy.enabled:
        await scope.delete(kinds.NOVA_NOVNCPROXY, name)
        return "spec.novncproxy.enabled is false"
    item = await children.ensure(scope, kinds.NOVA_NOVNCPROXY, name, "novncproxy", resources.novncproxy(scope.spec))
    url = item.get("status", {}).get("publicUrl") or ""
    scope.facts["console.url"] = scope.status["consoleUrl"] = url
    children.require_ready(scope, kinds.NOVA_NOVNCPROXY, item)
    return None


async def ensure_computes(scope: Scope[NovaCellSpec]) -> str | None:
    """Every group of compute nodes works."""
    if scope.spec.novncproxy.enabled and not scope.facts["console.url"]:
        raise errors.Waiting("NoURL", "the URL of the proxy for consoles is not known yet")
    conductor = children.name(scope.name, "conductor")
    url = scope.facts["console.url"]
    items = {}
    for group in sorted(scope.spec.computes):
        body = resources.compute(scope.spec, group, conductor, url)
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


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("ConductorReady", ensure_conductor, needs=()),
        Step("MetadataReady", ensure_metadata, needs=()),
        Step("NoVNCProxyReady", ensure_novncproxy, needs=()),
        Step("ComputesReady", ensure_computes, needs=()),
    ),
    owns=(kinds.NOVA_CONDUCTOR, kinds.NOVA_METADATA, kinds.NOVA_NOVNCPROXY, kinds.NOVA_COMPUTE),
)
