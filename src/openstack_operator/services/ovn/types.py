"""The OVNNetwork kind."""

from __future__ import annotations

import ipaddress
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import Entry, Instance, PodSettings, Status, Storage, Workload
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import K8s, Labels, Model, Opaque, Quantity, Rule


def _interface(text: str) -> str:
    """Raises ValueError for what no interface can have."""
    ipaddress.ip_interface(text)
    return text


BridgeName = Annotated[str, Field(pattern=r"^[a-z][-a-z0-9_.]{0,14}$", max_length=15)]
"""Name of a bridge, which is the name of a network interface too."""

BridgeMappings = Annotated[
    dict[str, BridgeName],
    Field(max_length=16),
    K8s(
        cel=(
            Rule(
                "self.all(network, network.size() <= 64 && !network.contains(':') && !network.contains(',') && "
                "!network.contains(' ') && !network.contains('\"') && !network.contains('='))",
                'names of physical networks have at most 64 characters, without blanks and : , = "',
            ),
        ),
        map_type="atomic",
    ),
]


class OVNDatabase(PodSettings, Storage):
    """One of OVN's two databases: a clustered database that has one member today."""

    replicas: Annotated[int, Field(ge=0, le=1)] = 1
    """Number of members; 0 stops the database and keeps its volume. Sets replicas of the StatefulSet."""
    storage_size: Quantity = "1Gi"
    """Size of the volume. Sets the request of the PersistentVolumeClaim when it is made."""


class Northbound(OVNDatabase):
    """The database of logical networks."""

    components: ClassVar[tuple[str, ...]] = ("nb",)


class Southbound(OVNDatabase):
    """The database of flows."""

    components: ClassVar[tuple[str, ...]] = ("sb",)


class Northd(Workload):
    """The daemon that translates Northbound into Southbound."""

    components: ClassVar[tuple[str, ...]] = ("northd",)


class ExternalBridge(Model):
    """A bridge on which each node has an address itself, so that floating addresses are reachable from the node."""

    name: BridgeName = "br-ex"
    """Name of the bridge. Creates it in Open vSwitch when the node's switch starts."""
    address: Annotated[str, Field(pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}$", max_length=64), AfterValidator(_interface)]
    """Address and prefix length of the node, such as 172.24.4.1/24. Sets the address of the bridge's interface; a
    change reaches a node when its switch starts again."""


class OVNNetworkTemplate(Model):
    """A virtual network: databases, the daemon that translates between them, and the chassis on the nodes."""

    northbound: Northbound = Northbound()
    """The database of logical networks, which Neutron writes. Sets the StatefulSet `<name>-nb`."""
    southbound: Southbound = Southbound()
    """The database of flows, which the nodes read. Sets the StatefulSet `<name>-sb`."""
    northd: Northd = Northd()
    """The daemon that translates Northbound into Southbound; one pod is active. Sets the Deployment `<name>-northd`."""
    node_selector: Labels = {"openstack.k8s.io/compute": "true"}
    """Nodes that run guests. Sets node affinity of the DaemonSets."""
    gateway_node_selector: Labels = {"openstack.k8s.io/network": "true"}
    """Nodes through which routers reach external networks; when no node has these labels, every node of
    `nodeSelector`. Sets external_ids:ovn-cms-options of their chassis."""
    tolerations: Annotated[tuple[Opaque, ...], Field(max_length=32)] = ()
    """Taints that the pods on these nodes bear. Sets tolerations of the DaemonSets."""
    bridge_mappings: BridgeMappings = {"physnet1": "br-ex"}
    """Bridge of each physical network. Creates the bridges and sets external_ids:ovn-bridge-mappings."""
    external_bridge: ExternalBridge | None = None
    """A bridge on which the nodes have an address. Absent, no bridge has one."""
    datapath: Literal["Auto", "Kernel", "Userspace"] = "Auto"
    """Where packets are switched: by the kernel's openvswitch module, or by the daemon itself. Auto takes the kernel
    where it has the module; each node decides when its switch starts. Tunnels between nodes need the kernel. Sets
    datapath_type of the bridges."""


class OVNNetworkEntry(Entry, OVNNetworkTemplate):
    """The virtual network of a control plane."""


class OVNNetworkSpec(OVNNetworkTemplate, Instance):
    """A virtual network and where it belongs."""


class OVNNetworkStatus(Status):
    """What the operator observed of the virtual network."""

    nb_connection: str | None = None
    """Connection string of the Northbound database: all members."""
    sb_connection: str | None = None
    """Connection string of the Southbound database: all members."""
    chassis: int | None = None
    """Nodes whose controller has registered."""
    gateways: int | None = None
    """Nodes among them through which routers reach external networks."""
    datapath: Literal["Kernel", "Userspace", "Mixed"] | None = None
    """Where packets are switched on these nodes."""


KIND = Kind(
    resource=kinds.OVN_NETWORK,
    spec=OVNNetworkSpec,
    status=OVNNetworkStatus,
    description="OVN, the virtual network of guests.",
    short_names=("ovn",),
    columns=(
        Column("Chassis", ".status.chassis", "integer", description="Nodes whose controller has registered."),
        Column("Datapath", ".status.datapath", description="Where packets are switched."),
    ),
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
