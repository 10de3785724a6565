"""Reconciles an OVN network: addresses and databases, the translator, and the chassis on the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from openstack_operator.kit import kinds, labels, pods, rivals, storage, verified, watches, workloads
from openstack_operator.runtime import errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Controller, Scope, Step
from openstack_operator.services.ovn import config, resources, southbound
from openstack_operator.services.ovn.types import KIND, OVNNetworkSpec

# A controller registers within a second of its first connection; nothing watches the database for us.
REGISTRATION_SECONDS = 2


async def ensure_endpoints(scope: Scope[OVNNetworkSpec]) -> None:
    """The addresses of the databases are known."""
    for which, count in (("nb", scope.spec.northbound.replicas), ("sb", scope.spec.southbound.replicas)):
        await scope.apply(built_in.SERVICE, resources.members(scope.name, scope.spec, which))
        addresses = []
        # A stopped database keeps its address.
        for ordinal in range(max(count, 1)):
            body = resources.member(scope.name, scope.spec, which, ordinal)
            service = await scope.apply(built_in.SERVICE, body)
            address = service["spec"].get("clusterIP")
            if not address:
                name = service["metadata"]["name"]
                message = f"Service {scope.namespace}/{name} has no address yet"
                raise errors.Waiting("NoAddress", message, on=built_in.SERVICE.kind)
            addresses.append(address)
        scope.facts[f"{which}.addresses"] = addresses
        scope.facts[which] = config.connection(addresses, config.CLIENT_PORTS[which])
        scope.status[f"{which}Connection"] = scope.facts[which]


async def ensure_scripts(scope: Scope[OVNNetworkSpec]) -> None:
    """The start scripts are written."""
    await scope.apply(built_in.CONFIGMAP, resources.scripts(scope.name))


async def _ensure_database(scope: Scope[OVNNetworkSpec], which: str) -> None:
    volume = scope.spec.northbound if which == "nb" else scope.spec.southbound
    item = await workloads.apply_stateful_set(scope, resources.database(scope.name, scope.spec, which), volume)
    workloads.wait(scope, built_in.STATEFULSET, item)
    if item["spec"]["replicas"] == 0:
        raise errors.Waiting("NoReplicas", f"{item['metadata']['name']}: replicas is 0: the database is stopped")


async def ensure_northbound(scope: Scope[OVNNetworkSpec]) -> None:
    """The Northbound database answers."""
    await _ensure_database(scope, "nb")


async def ensure_southbound(scope: Scope[OVNNetworkSpec]) -> None:
    """The Southbound database answers."""
    await _ensure_database(scope, "sb")


async def ensure_northd(scope: Scope[OVNNetworkSpec]) -> None:
    """The translator between the databases runs."""
    pod = resources.northd_pod(scope.name, scope.spec, scope.facts["nb"], scope.facts["sb"])
    name, replicas = resources.northd_name(scope.name), scope.spec.northd.replicas
    await workloads.ensure_budget(scope, pod, name, replicas)
    item = await scope.apply(built_in.DEPLOYMENT, workloads.deployment(pod, name, replicas))
    workloads.wait(scope, built_in.DEPLOYMENT, item)


def _field(spec: Mapping[str, Any], node: Mapping[str, str]) -> str:
    """The field that takes a node with these labels. Without nodeSelector every node is one."""
    if labels.matches(dict(node), spec["nodeSelector"]):
        return "spec.nodeSelector"
    gateways = spec["gatewayNodeSelector"]
    return "spec.gatewayNodeSelector" if gateways and labels.matches(dict(node), gateways) else ""


async def observe_nodes(scope: Scope[OVNNetworkSpec]) -> None:
    """No node with the labels serves another OVNNetwork: of two that want a node the older one has it."""
    rivals.check(scope, kinds.OVN_NETWORK, _field)


def _has_gateway_nodes(scope: Scope[OVNNetworkSpec]) -> bool:
    return resources.has_gateway_nodes(scope.spec, scope.manager.informer(built_in.NODE).items())


async def ensure_switches(scope: Scope[OVNNetworkSpec]) -> str | None:
    """Open vSwitch runs on every chassis."""
    body = resources.switch(scope.name, scope.spec, _has_gateway_nodes(scope))
    item = await scope.apply(built_in.DAEMONSET, body)
    workloads.wait(scope, built_in.DAEMONSET, item)
    return outdated(item)


def outdated(item: Object) -> str | None:
    """What to tell about switches that still run as an older spec wanted them."""
    status = item.get("status", {})
    wanted = status.get("desiredNumberScheduled", 0)
    count = wanted - status.get("updatedNumberScheduled", 0)
    if count <= 0:
        return None
    return (
        f"{count} of {wanted} switches run as before the last change: delete their pods, node by node; "
        "each costs guests some seconds of traffic"
    )


async def ensure_controllers(scope: Scope[OVNNetworkSpec]) -> None:
    """ovn-controller runs on every chassis and is connected to the Southbound database."""
    bodies = resources.controllers(scope.name, scope.spec, scope.facts["sb"], _has_gateway_nodes(scope))
    items = [await scope.apply(built_in.DAEMONSET, body) for body in bodies.values()]
    await scope.prune(built_in.DAEMONSET, (*bodies, resources.switch_name(scope.name)))
    for item in items:
        workloads.wait(scope, built_in.DAEMONSET, item)


async def observe_chassis(scope: Scope[OVNNetworkSpec]) -> str | None:
    """The controller of every node with a switch has registered."""
    nodes = _switch_nodes(scope)
    if not nodes:
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(scope.spec.node_selector.items()))
        raise errors.Waiting("NoNodes", f"no node runs Open vSwitch; nodes that run guests are labelled {wanted}")
    before = scope.object.get("status", {})
    known = ",".join(_chassis_containers(scope))
    observed = ("chassis", "gateways", "datapath")
    is_known = verified.is_assumed(scope) or all(before.get(field) is not None for field in observed)
    if verified.is_current(scope, "chassis", known) and is_known:
        scope.status |= {field: before[field] for field in observed if field in before}
        return None
    found = await southbound.chassis(scope.facts["sb.addresses"][0], config.CLIENT_PORTS["sb"])
    scope.status |= summary(found, nodes)
    missing = sorted(nodes - {one.hostname for one in found})
    if missing:
        raise errors.Waiting(
            "NotRegistered",
            f"node {missing[0]} ({len(missing)} of {len(nodes)}) has not registered in the Southbound database yet",
            retry_after=REGISTRATION_SECONDS,
            on=built_in.NODE.kind,
        )
    verified.note(scope, "chassis", known)
    return None


def summary(found: Iterable[southbound.Chassis], nodes: set[str]) -> dict[str, Any]:
    """Status fields; chassis of nodes that are gone do not count."""
    present = [one for one in found if one.hostname in nodes]
    kinds_of_datapath = {"Userspace" if one.is_userspace else "Kernel" for one in present}
    fields: dict[str, Any] = {"chassis": len(present), "gateways": sum(one.is_gateway for one in present)}
    if kinds_of_datapath:
        fields["datapath"] = kinds_of_datapath.pop() if len(kinds_of_datapath) == 1 else "Mixed"
    return fields


def _pods(scope: Scope[OVNNetworkSpec], *components: str) -> Iterable[Object]:
    for component in components:
        wanted = labels.selector(resources.SERVICE, scope.name, component)
        for pod in scope.items(built_in.POD):
            metadata = pod["metadata"]
            if labels.matches(metadata.get("labels") or {}, wanted) and "deletionTimestamp" not in metadata:
                yield pod


def _switch_nodes(scope: Scope[OVNNetworkSpec]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in _pods(scope, "openvswitch") if pod["spec"].get("nodeName")}


def _chassis_containers(scope: Scope[OVNNetworkSpec]) -> list[str]:
    """What tells us to look again: another container may have chosen another datapath."""
    return pods.container_ids(_pods(scope, "openvswitch", "gateway", "controller", "sb"))


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("EndpointsReady", ensure_endpoints, needs=()),
        Step("ScriptsReady", ensure_scripts, needs=()),
        Step("NorthboundReady", ensure_northbound, needs=("EndpointsReady", "ScriptsReady")),
        Step("SouthboundReady", ensure_southbound, needs=("EndpointsReady", "ScriptsReady")),
        Step("NorthdReady", ensure_northd, needs=("EndpointsReady", "ScriptsReady")),
        Step(rivals.CONDITION, observe_nodes, needs=()),
        Step("SwitchesReady", ensure_switches, needs=("ScriptsReady", rivals.CONDITION)),
        Step("ControllersReady", ensure_controllers, needs=("EndpointsReady", "ScriptsReady", rivals.CONDITION)),
        Step("ChassisReady", observe_chassis, needs=("SouthboundReady", "SwitchesReady", "ControllersReady")),
    ),
    owns=(
        built_in.CONFIGMAP,
        built_in.SERVICE,
        built_in.STATEFULSET,
        built_in.PVC,
        built_in.DEPLOYMENT,
        built_in.DAEMONSET,
        built_in.PDB,
    ),
    watches=(
        *pods.watches(kinds.OVN_NETWORK),
        storage.watch(kinds.OVN_NETWORK),
        storage.watch_claims(kinds.OVN_NETWORK),
        # Labels decide which of them are gateways.
        watches.nodes(kinds.OVN_NETWORK),
        rivals.watch(kinds.OVN_NETWORK),
    ),
)
