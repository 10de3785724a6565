"""The pods of an OVN network and the objects around them: pure functions of the spec and of what nodes are labelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from openstack_operator.kit import kinds, labels, names, probes, releases, settings, workloads
from openstack_operator.kit.types import PodSettings
from openstack_operator.runtime import drift
from openstack_operator.runtime.client import Object
from openstack_operator.services.ovn import config
from openstack_operator.services.ovn.types import OVNDatabase, OVNNetworkSpec

SERVICE = "ovn"
# Open vSwitch's own user in Kolla's images; OVN has none.
UID = 42424
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"

STATE = "/var/lib/openstack/openvswitch"
"""On the node: the switch's database and the identity of its chassis."""

_ROOT: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    # The switch's sockets are mode 0750 and belong to root; capabilities are given to uid 0 only. Without any, uid 0
    # is no more than the owner of these files.
    "runAsUser": 0,
    "runAsGroup": 0,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
# Interfaces are made and packets are sent by the switch itself.
_SWITCH = {**_ROOT, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]}}

# A switch without its bridge runs on, and tries again ten times a second. The script takes the socket of an earlier one
# away, and the bridge stays when it is there.
_HAS_BRIDGE = "test -S /run/openvswitch/br-int.mgmt || { echo ovs-vswitchd has not made br-int, see its log; exit 1; }"

_SCRIPTS = {"name": "scripts", "mountPath": config.SCRIPTS_MOUNT, "readOnly": True}
_RUN_OPENVSWITCH = {"name": "run-openvswitch", "mountPath": "/run/openvswitch"}


def _image(spec: OVNNetworkSpec, role: str, override: str | None = None) -> str:
    release = releases.load(spec.openstack_release)
    return releases.image(release, role, spec.images, settings.image_source(), override)


def _command(script: str) -> tuple[str, ...]:
    return ("sh", f"{config.SCRIPTS_MOUNT}/{script}")


def _scripts_volume(instance: str) -> dict[str, Any]:
    return {"name": "scripts", "configMap": {"name": names.scripts(instance), "defaultMode": 0o555}}


def _digest(*scripts: str) -> str:
    """A pod starts again when a script of its own changes."""
    return drift.digest([config.script(name) for name in scripts])


def scripts(instance: str) -> Object:
    """The ConfigMap with all start scripts."""
    return {
        "metadata": {"name": names.scripts(instance), "labels": labels.common(SERVICE, instance)},
        "data": {name: config.script(name) for name in config.SCRIPTS},
    }


# --- databases -----------------------------------------------------------------------------------------------------


def database_name(instance: str, which: str) -> str:
    """StatefulSet and headless Service of the database ``which`` (nb or sb)."""
    return names.workload(instance, which)


def member_service(instance: str, which: str, ordinal: int) -> str:
    return names.join(database_name(instance, which), str(ordinal))


def database_pod(instance: str, spec: OVNNetworkSpec, which: str) -> workloads.Pod:
    """A member of the Northbound (nb) or Southbound (sb) database."""
    own: OVNDatabase = spec.northbound if which == "nb" else spec.southbound
    return workloads.Pod(
        service=SERVICE,
        instance=instance,
        component=which,
        owner_kind=kinds.OVN_NETWORK.kind,
        image=_image(spec, f"ovn-{which}-db-server", own.container_image),
        user=UID,
        settings=own,
        writable=("/tmp", "/run/ovn"),
        hash_extra=_digest("database.sh"),
        volumes=(_scripts_volume(instance),),
        containers=(
            workloads.Container(
                name=f"ovn-{which}",
                command=_command("database.sh"),
                # The second is for people: ovn-nbctl and ovn-sbctl look elsewhere by themselves.
                env={"DATABASE": which, f"OVN_{which.upper()}_DB": f"unix:/run/ovn/{which}.sock"},
                env_from_fields={"POD_IP": "status.podIP"},
                ports={"clients": config.CLIENT_PORTS[which], "raft": config.RAFT_PORTS[which]},
                # The port opens when the member belongs to a cluster with a leader and the first row was written.
                probe=probes.tcp(config.CLIENT_PORTS[which]),
                liveness=probes.tcp(config.CLIENT_PORTS[which]),
                memory="64Mi",
                mounts=(_SCRIPTS, {"name": "data", "mountPath": "/var/lib/ovn"}),
            ),
        ),
    )


def database(instance: str, spec: OVNNetworkSpec, which: str) -> Object:
    own = spec.northbound if which == "nb" else spec.southbound
    pod = database_pod(instance, spec, which)
    return workloads.stateful_set(pod, database_name(instance, which), own.replicas, volume=own)


def members(instance: str, spec: OVNNetworkSpec, which: str) -> Object:
    """The headless Service with which members find each other."""
    ports = {"clients": config.CLIENT_PORTS[which], "raft": config.RAFT_PORTS[which]}
    return workloads.service(database_pod(instance, spec, which), database_name(instance, which), ports, headless=True)


def member(instance: str, spec: OVNNetworkSpec, which: str, ordinal: int) -> Object:
    """A member's own Service: its address is what clients know, and outlives the pod."""
    pod = database_pod(instance, spec, which)
    body = workloads.service(pod, member_service(instance, which, ordinal), {"clients": config.CLIENT_PORTS[which]})
    body["spec"]["selector"] = {
        **workloads.selector(pod),
        POD_NAME_LABEL: f"{database_name(instance, which)}-{ordinal}",
    }
    return body


# --- northd --------------------------------------------------------------------------------------------------------


def northd_name(instance: str) -> str:
    return names.workload(instance, "northd")


def northd_pod(instance: str, spec: OVNNetworkSpec, northbound: str, southbound: str) -> workloads.Pod:
    """The translator; with more than one pod, the others wait for a lock in the database."""
    status = "ovn-appctl -t /run/ovn/northd.ctl sb-connection-status | grep -qx connected"
    return workloads.Pod(
        service=SERVICE,
        instance=instance,
        component="northd",
        owner_kind=kinds.OVN_NETWORK.kind,
        image=_image(spec, "ovn-northd", spec.northd.container_image),
        user=UID,
        settings=spec.northd,
        writable=("/tmp", "/run/ovn"),
        grace_seconds=10,
        hash_extra=_digest("northd.sh"),
        volumes=(_scripts_volume(instance),),
        containers=(
            workloads.Container(
                name="ovn-northd",
                command=_command("northd.sh"),
                env={
                    "OVN_NB": northbound,
                    "OVN_SB": southbound,
                    "OVN_NB_DB": northbound,
                    "OVN_SB_DB": southbound,
                },
                probe=probes.command("sh", "-c", status),
                memory="64Mi",
                mounts=(_SCRIPTS,),
            ),
        ),
    )


# --- chassis -------------------------------------------------------------------------------------------------------


def has_gateway_nodes(spec: OVNNetworkSpec, nodes: Iterable[Object]) -> bool:
    """Whether some node is labelled as a gateway; otherwise every chassis is one."""
    wanted = spec.gateway_node_selector
    return bool(wanted) and any(labels.matches(node["metadata"].get("labels") or {}, wanted) for node in nodes)


def _expressions(selector: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(selector.items())]


def _on(terms: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Node affinity: any of the terms. A term without expressions means every node, so there is no affinity then."""
    if not all(terms):
        return {}
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def _daemon_set(pod: workloads.Pod, name: str, affinity: dict[str, Any], *, on_delete: bool = False) -> Object:
    body = workloads.daemon_set(pod, name, on_delete=on_delete)
    if affinity:
        body["spec"]["template"]["spec"]["affinity"] = affinity
    return body


def _host_path(name: str, path: str, kind: str = "DirectoryOrCreate") -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def switch_pod(instance: str, spec: OVNNetworkSpec) -> workloads.Pod:
    """Open vSwitch on a node: its database and the switch itself."""
    external = spec.external_bridge
    environment: dict[str, str] = {"DATAPATH": spec.datapath}
    if external is not None:
        environment |= {"EXTERNAL_BRIDGE": external.name, "EXTERNAL_ADDRESS": external.address}
    state = {"name": "state", "mountPath": "/var/lib/openvswitch"}
    return workloads.Pod(
        service=SERVICE,
        instance=instance,
        component="openvswitch",
        owner_kind=kinds.OVN_NETWORK.kind,
        image=_image(spec, "openvswitch-db-server"),
        user=None,
        settings=PodSettings(tolerations=spec.tolerations),
        host_network=True,
        grace_seconds=10,
        hash_extra=_digest("serve.sh", "ovsdb.sh", "vswitchd.sh"),
        volumes=(
            _scripts_volume(instance),
            _host_path("run-openvswitch", "/run/openvswitch"),
            _host_path("state", STATE),
            # Interfaces of the userspace datapath are tap devices.
            _host_path("tun", "/dev/net/tun", "CharDevice"),
        ),
        containers=(
            workloads.Container(
                name="ovsdb-server",
                command=_command("ovsdb.sh"),
                security=_ROOT,
                # The node asks its own loopback: the port is for agents of the node alone.
                probe={"tcpSocket": {"host": "127.0.0.1", "port": config.SWITCH_PORT}},
                memory="32Mi",
                mounts=(_SCRIPTS, _RUN_OPENVSWITCH, state),
            ),
            workloads.Container(
                name="ovs-vswitchd",
                image=_image(spec, "openvswitch-vswitchd"),
                command=_command("vswitchd.sh"),
                env=environment,
                env_from_fields={"NODE_NAME": "spec.nodeName"},
                probe=probes.command("sh", "-c", _HAS_BRIDGE),
                probes_start_only=True,
                security=_SWITCH,
                cpu="50m",
                memory="64Mi",
                mounts=(_SCRIPTS, _RUN_OPENVSWITCH, state, {"name": "tun", "mountPath": "/dev/net/tun"}),
            ),
        ),
    )


def switch_name(instance: str) -> str:
    return names.workload(instance, "openvswitch")


def switch(instance: str, spec: OVNNetworkSpec, has_gateways: bool) -> Object:
    """On every chassis. Pods are replaced one node at a time by a person: each start costs guests some seconds."""
    terms = [_expressions(spec.node_selector)]
    if has_gateways:
        terms.append(_expressions(spec.gateway_node_selector))
    return _daemon_set(switch_pod(instance, spec), switch_name(instance), _on(terms), on_delete=True)


def controller_pod(instance: str, spec: OVNNetworkSpec, southbound: str, *, gateway: bool) -> workloads.Pod:
    """ovn-controller on a node: flows stay in the switch while it starts again."""
    status = "ovn-appctl -t /run/ovn/controller.ctl connection-status | grep -qx connected"
    return workloads.Pod(
        service=SERVICE,
        instance=instance,
        component="gateway" if gateway else "controller",
        owner_kind=kinds.OVN_NETWORK.kind,
        image=_image(spec, "ovn-controller"),
        user=None,
        settings=PodSettings(tolerations=spec.tolerations),
        writable=("/tmp", "/run/ovn"),
        host_network=True,
        grace_seconds=10,
        hash_extra=_digest("controller.sh"),
        volumes=(_scripts_volume(instance), _host_path("run-openvswitch", "/run/openvswitch")),
        containers=(
            workloads.Container(
                name="ovn-controller",
                command=_command("controller.sh"),
                env={
                    "OVN_SB": southbound,
                    "BRIDGE_MAPPINGS": config.mappings(spec.bridge_mappings),
                    "GATEWAY": "true" if gateway else "false",
                },
                env_from_fields={"ENCAP_IP": "status.podIP"},
                security=_ROOT,
                probe=probes.command("sh", "-c", status),
                cpu="20m",
                memory="64Mi",
                mounts=(_SCRIPTS, _RUN_OPENVSWITCH),
            ),
        ),
    )


def controllers(instance: str, spec: OVNNetworkSpec, southbound: str, has_gateways: bool) -> dict[str, Object]:
    """DaemonSets by name: gateways, and the other chassis if there can be any."""
    gateway = names.workload(instance, "gateway")
    own = spec.gateway_node_selector if has_gateways else spec.node_selector
    pod = controller_pod(instance, spec, southbound, gateway=True)
    found = {gateway: _daemon_set(pod, gateway, _on([_expressions(own)]))}
    if has_gateways:
        name = names.workload(instance, "controller")
        pod = controller_pod(instance, spec, southbound, gateway=False)
        others = [
            [*_expressions(spec.node_selector), {"key": key, "operator": "NotIn", "values": [value]}]
            for key, value in sorted(spec.gateway_node_selector.items())
        ]
        found[name] = _daemon_set(pod, name, _on(others))
    return found
