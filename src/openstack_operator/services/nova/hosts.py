"""Which compute host is in which cell, and the Jobs that tell Nova so.

The scheduler places nothing on a host that Nova has no mapping of. A mapping is a host's name and its cell, and both
are known before nova-compute starts: the nodes with the labels that a cell's computes ask for, and the objects of fake
ones. So the Job that registers the cells maps the hosts of that moment as well, and a Job of its own runs when there
are others later; nothing looks for hosts again and again. Nobody reads the mapping of a host on which nova-compute has
not started yet.

What the newest of these Jobs was told is what Nova knows. It also forgets: who deletes a compute service deletes the
mapping with it. ``forgotten`` is for the controller, which asks the compute API.

The register, a ConfigMap, outlives Jobs: every host that a Job was told of, until Nova has no service of it any more
(``host_removal``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openstack_operator.kit import jobs, kinds, labels, names
from openstack_operator.runtime import errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope
from openstack_operator.services.nova import children, resources
from openstack_operator.services.nova.types import NovaSpec


def expected(
    instance: str, spec: NovaSpec, nodes: Iterable[Object], running: Mapping[str, Iterable[str]]
) -> dict[str, str]:
    """Cell of each compute host; ``running`` are the hosts on which a cell's nova-compute works.

    A node that more than one cell asks for serves one of them: of such a node only the latter says which.
    """
    cells = {host: min(asking) for host, asking in asked(instance, spec, nodes).items() if len(asking) == 1}
    for cell in sorted(running):
        for host in running[cell]:
            cells.setdefault(host, cell)
    return cells


def asked(instance: str, spec: NovaSpec, nodes: Iterable[Object]) -> dict[str, set[str]]:
    """Cells that ask for each compute host."""
    found: dict[str, set[str]] = {}
    tags = {node["metadata"]["name"]: node["metadata"].get("labels", {}) for node in nodes}
    for cell, template in spec.cell_templates.items():
        for group, compute in template.computes.items():
            if compute.driver == "Fake":
                hosts = [children.name(children.name(instance, cell), group)]
            else:
                hosts = [name for name, own in tags.items() if labels.matches(own, dict(compute.node_selector))]
            for host in hosts:
                found.setdefault(host, set()).add(cell)
    return found


def wanted(scope: Scope[NovaSpec]) -> dict[str, str]:
    """Cell of each compute host, as spec, nodes and cells are now."""
    running = {}
    for cell in scope.spec.cell_templates:
        item = scope.get(kinds.NOVA_CELL, children.name(scope.name, cell))
        running[cell] = (item or {}).get("status", {}).get("hosts", [])
    return expected(scope.name, scope.spec, scope.manager.informer(built_in.NODE).items(), running)


def register_name(instance: str) -> str:
    # No cell's object has this name: one with a dash has a hash.
    return names.join(instance, "mapped-hosts")


def registered(scope: Scope[NovaSpec]) -> dict[str, str]:
    """The register: cell of each host that Nova may know from the operator."""
    item = scope.get(built_in.CONFIGMAP, register_name(scope.name))
    # Of an operator that kept no register, the Jobs are left.
    return told(jobs.children(scope)) if item is None else dict(item.get("data") or {})


async def remember(scope: Scope[NovaSpec]) -> None:
    """Writes hosts down before a Job is told of them. Sets the fact ``hosts.new``: those that were not there, of which
    a Job of earlier says nothing."""
    hosts, known = wanted(scope), registered(scope)
    scope.facts["hosts.new"] = {host for host, cell in hosts.items() if known.get(host) != cell}
    await write_register(scope, known | hosts)


async def write_register(scope: Scope[NovaSpec], known: Mapping[str, str]) -> None:
    tags = labels.common(resources.SERVICE, scope.name)
    body = {"metadata": {"name": register_name(scope.name), "labels": tags}, "data": dict(sorted(known.items()))}
    await scope.apply(built_in.CONFIGMAP, body)


def told(found: Iterable[Object]) -> dict[str, str]:
    """Cell of each host that the newest Job was told, among the Jobs of a Nova that have succeeded."""
    ours = [
        job
        for job in found
        if job["metadata"]["labels"].get(labels.COMPONENT) in resources.MAPPING
        and job.get("status", {}).get("succeeded")
    ]
    # Of two of the same second the one for hosts alone is the newer: it runs after the other only.
    newest = max(ours, key=lambda job: (job["metadata"]["creationTimestamp"], _is_for_hosts(job)), default=None)
    return resources.hosts_told(newest) if newest is not None else {}


def _is_for_hosts(job: Object) -> bool:
    return bool(job["metadata"]["labels"].get(labels.COMPONENT) == resources.HOSTS)


def with_the_cells(scope: Scope[NovaSpec]) -> dict[str, str]:
    """Hosts for the Job that registers cells. Not those that have changed their cell, at which a Job may fail."""
    before = told(jobs.children(scope))
    return {host: cell for host, cell in wanted(scope).items() if before.get(host, cell) == cell}


async def ensure(scope: Scope[NovaSpec]) -> str | None:
    """Nova knows the cell of every compute host that there is, or will be once nova-compute has started there."""
    hosts, present = wanted(scope), jobs.children(scope)
    known = {host: cell for host, cell in told(present).items() if host not in scope.facts["hosts.new"]}
    is_running = any(_is_for_hosts(job) and not job.get("status", {}).get("succeeded") for job in present)
    if is_running or any(known.get(host) != cell for host, cell in hosts.items()):
        await _run(scope, hosts)
    return f"{len(hosts)} hosts"


async def _run(scope: Scope[NovaSpec], hosts: Mapping[str, str]) -> None:
    pod = resources.hosts_pod(scope.name, scope.spec, scope.facts["sources"], hosts)
    await jobs.ensure(scope, pod, resources.HOSTS)


async def forget(scope: Scope[NovaSpec], gone: Iterable[str]) -> None:
    """Nova has no service of these hosts any more: if they come back, a Job is told of them again."""
    gone = set(gone)
    known = registered(scope)
    await write_register(scope, {host: cell for host, cell in known.items() if host not in gone})
    for job in scope.children(built_in.JOB):
        if _is_for_hosts(job) and gone & resources.hosts_told(job).keys():
            await scope.delete(built_in.JOB, job["metadata"]["name"])


async def map_again(scope: Scope[NovaSpec], forgotten: Iterable[str]) -> None:
    """Runs the Job although it, or that of the cells, has succeeded; raises ``errors.Waiting``."""
    for job in scope.children(built_in.JOB):
        if _is_for_hosts(job):
            await scope.delete(built_in.JOB, job["metadata"]["name"])
            raise errors.Waiting("HostsForgotten", f"maps hosts again that Nova has forgotten: {', '.join(forgotten)}")
    await _run(scope, wanted(scope))
