"""Reconciles NovaCompute: libvirt and nova-compute on every node that has the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import config, kinds, labels, levels, pods, rereading, rivals, watches, workloads
from openstack_operator.runtime import conditions, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.nova import children, connections, dependencies
from openstack_operator.services.nova.compute import config as files
from openstack_operator.services.nova.compute import resources
from openstack_operator.services.nova.compute.types import KIND, NovaComputeSpec


def _field(spec: Mapping[str, Any], node: Mapping[str, str]) -> str:
    """The field that takes a node with these labels. Without Libvirt one shares its nodes with whoever wants them."""
    is_taken = spec["driver"] == "Libvirt" and labels.matches(dict(node), spec["nodeSelector"])
    return "spec.nodeSelector" if is_taken else ""


async def observe_nodes(scope: Scope[NovaComputeSpec]) -> str | None:
    """No node with the labels serves another NovaCompute: of two that want a node the older one has it."""
    if scope.spec.driver != "Libvirt":
        return f"spec.driver is {scope.spec.driver}"
    rivals.check(scope, kinds.NOVA_COMPUTE, _field)
    return None


async def ensure_libvirt(scope: Scope[NovaComputeSpec]) -> str | None:
    """libvirt runs on every node that has the labels."""
    if scope.spec.driver != "Libvirt":
        return f"spec.driver is {scope.spec.driver}"
    sources = await config.ensure(
        scope,
        "nova",
        (),
        whole={"libvirtd.conf": files.LIBVIRTD_CONF, "qemu.conf": files.QEMU_CONF},
        scripts={"start.sh": files.LIBVIRT_START, resources.WRAPPER_NAME: files.WRAPPER},
        instance=resources.libvirt_name(scope.name),
    )
    pod = resources.libvirt_pod(scope.name, scope.spec, sources)
    body = workloads.daemon_set(pod, resources.libvirt_name(scope.name))
    workloads.wait(scope, built_in.DAEMONSET, await scope.apply(built_in.DAEMONSET, body))
    return None


async def observe_connections(scope: Scope[NovaComputeSpec]) -> None:
    """The Secrets of message bus and service user are complete."""
    await connections.observe(scope)


async def ensure_config(scope: Scope[NovaComputeSpec]) -> None:
    """The configuration is valid and written."""
    custom = levels.custom(scope)
    if scope.spec.driver == "Fake":
        scope.facts["sources"] = await config.ensure(
            scope,
            "nova",
            [config.File("nova.conf", files.FAKE_ROWS, custom)],
            # nova-compute refuses to start under another identity than its first, and the pod keeps no files.
            whole={files.IDENTITY: scope.uid},
        )
        return
    scope.facts["sources"] = await config.ensure(
        scope,
        "nova",
        [config.File("nova.conf", files.ROWS, custom)],
        scripts={"start.py": files.START, "node.sh": files.NODE, "ready.sh": files.READY},
    )


async def observe_dependencies(scope: Scope[NovaComputeSpec]) -> None:
    """What nova-compute calls when it starts can answer: it would end, or wait for minutes, otherwise."""
    spec = scope.spec
    for resource, ref in ((kinds.NOVA_CONDUCTOR, spec.conductor_ref), (kinds.PLACEMENT, spec.placement_ref)):
        if ref is not None:
            dependencies.require(scope, resource, ref, conditions.READY)
    dependencies.require_registered(scope, spec.nova_ref, built_in.DAEMONSET, built_in.DEPLOYMENT)


async def ensure_compute(scope: Scope[NovaComputeSpec]) -> str | None:
    """nova-compute runs on every node that has the labels, and is connected to the message bus."""
    if scope.spec.driver == "Fake":
        pod = resources.fake_pod(scope.name, scope.spec, scope.facts["sources"])
        item = await workloads.apply(scope, built_in.DEPLOYMENT, workloads.deployment(pod, scope.name, 1))
        told = await workloads.reread(scope, built_in.DEPLOYMENT, item, pod)
        workloads.wait(scope, built_in.DEPLOYMENT, item)
        scope.status["hosts"] = [{"name": scope.name}]
        return "; ".join(filter(None, ("servers are in memory only (spec.driver is Fake)", told)))
    pod = resources.compute_pod(scope.name, scope.spec, scope.facts["sources"])
    item = await workloads.apply(scope, built_in.DAEMONSET, workloads.daemon_set(pod, scope.name))
    status = item.get("status", {})
    scope.status["nodes"] = status.get("desiredNumberScheduled", 0)
    hosts = _hosts(scope, workloads.selector(pod))
    scope.status["readyNodes"] = len(hosts)
    scope.status["hosts"] = hosts
    scope.status["virtType"] = ",".join(sorted({host["virtType"] for host in hosts if "virtType" in host})) or None
    # Before the wait: one node that is down must not keep all others from it.
    told = await workloads.reread(scope, built_in.DAEMONSET, item, pod)
    workloads.wait(scope, built_in.DAEMONSET, item)
    if not status.get("desiredNumberScheduled"):
        wanted = ", ".join(f"{key}={value}" for key, value in scope.spec.node_selector.items())
        return f"no node has the labels {wanted}"
    reasons = sorted({f"{host['virtType']} ({host['reason']})" for host in hosts if "virtType" in host})
    runs = f"servers run with {', '.join(reasons)}" if reasons else ""
    return "; ".join(filter(None, (runs, told))) or None


def _goes_for_good(scope: Scope[NovaComputeSpec]) -> bool:
    """Whether the whole Nova goes, or has gone, or does without the cell: nothing knows the guests any more."""
    ref = scope.spec.nova_ref
    if ref is None:
        return False
    nova = scope.get(kinds.NOVA, ref.name)
    if nova is None or "deletionTimestamp" in nova["metadata"]:
        return True
    cells = {children.name(ref.name, cell) for cell in nova["spec"].get("cellTemplates", {})}
    owners = [one["name"] for one in scope.object["metadata"].get("ownerReferences", []) if one.get("controller")]
    return bool(owners) and not cells.intersection(owners)


async def finalize(scope: Scope[NovaComputeSpec]) -> None:
    """Ends the guests and empties the nodes when the cell goes for good: the next nova-compute would refuse to start
    beside them. Computes that go alone leave their guests running."""
    if scope.spec.driver != "Libvirt" or not _goes_for_good(scope):
        return
    libvirt = labels.selector(children.SERVICE, scope.name, "libvirt")
    for name in (scope.name, resources.libvirt_name(scope.name)):
        await scope.delete(built_in.DAEMONSET, name)
    nodes = _reachable(scope)
    if left := [
        pod["metadata"]["name"]
        for pod in scope.items(built_in.POD)
        if labels.matches(pod["metadata"].get("labels", {}), libvirt) and pod["spec"].get("nodeName") in nodes
    ]:
        raise errors.Waiting("PodsExist", f"waits for the end of {', '.join(left[:10])}")
    name = resources.cleanup_name(scope.name)
    try:
        item = await _ensure_cleanup(scope, name)
    except errors.ApiError as problem:
        if not problem.is_of_ending_namespace:
            raise
        # No pod can clean anything there any more, and to wait for one would hold up the namespace for ever.
        scope.log.warning("guests stay on their nodes, since the namespace is being deleted", nodes=sorted(nodes))
        return
    status = item.get("status", {})
    if status.get("observedGeneration", 0) < item["metadata"]["generation"]:
        raise errors.Waiting("Cleaning", f"DaemonSet {scope.namespace}/{name} has just been made")
    clean = {pod["spec"].get("nodeName") for pod in scope.items(built_in.POD) if _is_clean(scope, pod)}
    if todo := sorted(nodes - clean):
        raise errors.Waiting("Cleaning", f"DaemonSet {scope.namespace}/{name} removes guests on {', '.join(todo[:10])}")


async def _ensure_cleanup(scope: Scope[NovaComputeSpec], name: str) -> Object:
    sources = await config.ensure(scope, "nova", (), scripts={"cleanup.sh": files.CLEAN}, instance=name)
    return await scope.apply(
        built_in.DAEMONSET, workloads.daemon_set(resources.cleanup_pod(scope.name, scope.spec, sources), name)
    )


def _is_clean(scope: Scope[NovaComputeSpec], pod: Object) -> bool:
    cleanup = labels.selector(children.SERVICE, scope.name, "cleanup")
    return labels.matches(pod["metadata"].get("labels", {}), cleanup) and pods.is_ready(pod)


def _reachable(scope: Scope[NovaComputeSpec]) -> set[str]:
    """Nodes with the labels on which a pod can do something: one that is down for ever must not hold up the end."""
    return {
        node["metadata"]["name"]
        for node in scope.manager.informer(built_in.NODE).items()
        if labels.matches(node["metadata"].get("labels", {}), dict(scope.spec.node_selector))
        and conditions.is_true(node, conditions.READY)
    }


def _hosts(scope: Scope[NovaComputeSpec], selector: dict[str, str]) -> list[dict[str, str]]:
    """Nodes with a ready nova-compute, as status has them."""
    found = {}
    for pod in scope.items(built_in.POD):
        if not labels.matches(pod["metadata"].get("labels", {}), selector) or not pods.is_ready(pod):
            continue
        node = pod["spec"]["nodeName"]
        found[node] = {"name": node} | _virt(pod)
    return [found[name] for name in sorted(found)]


def _virt(pod: Object) -> dict[str, str]:
    """What the init container said when it ended: the only word from inside a pod that its status carries."""
    for container in pod.get("status", {}).get("initContainerStatuses", []):
        if container["name"] == resources.NODE_CONTAINER:
            message = (container.get("state", {}).get("terminated") or {}).get("message", "")
            virt, _, reason = message.strip().partition(": ")
            if virt in ("kvm", "qemu"):
                return {"virtType": virt, "reason": reason}
    return {}


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step(rivals.CONDITION, observe_nodes, needs=()),
        Step("LibvirtReady", ensure_libvirt, needs=(rivals.CONDITION,)),
        Step("ConnectionsReady", observe_connections, needs=()),
        Step("ConfigReady", ensure_config, needs=("ConnectionsReady",)),
        Step("DependenciesReady", observe_dependencies, needs=()),
        Step("ComputeReady", ensure_compute, needs=(rivals.CONDITION, "ConfigReady", "DependenciesReady")),
    ),
    owns=(built_in.CONFIGMAP, built_in.SECRET, built_in.DAEMONSET, built_in.DEPLOYMENT),
    rules=rereading.RULES,
    finalize=finalize,
    watches=(
        *pods.watches(kinds.NOVA_COMPUTE),
        watches.nodes(kinds.NOVA_COMPUTE),
        rivals.watch(kinds.NOVA_COMPUTE),
        connections.watch(kinds.NOVA_COMPUTE),
        watches.referenced(kinds.NOVA_CONDUCTOR, kinds.NOVA_COMPUTE, "conductorRef"),
        watches.referenced(kinds.PLACEMENT, kinds.NOVA_COMPUTE, "placementRef"),
        watches.referenced(kinds.NOVA, kinds.NOVA_COMPUTE, "novaRef"),
    ),
)
