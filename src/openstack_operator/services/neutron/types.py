"""The Neutron kind."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import (
    Configurable,
    Credentials,
    Entry,
    MessagingClientInstance,
    PodSettings,
    Ref,
    ServiceStatus,
    ServiceTemplate,
    Workload,
)
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import Labels


def _ordered(limits: list[str], highest: int) -> None:
    """Raises ValueError for a range that neutron-server does not start with."""
    first, last = (int(limit) for limit in limits)
    if not 1 <= first <= last <= highest:
        raise ValueError(f"{first}:{last} is no range within 1:{highest}")


def _vni_range(text: str) -> str:
    # Geneve has 24 bits for the identifier.
    _ordered(text.split(":"), 2**24 - 1)
    return text


def _vlan_range(text: str) -> str:
    _, *limits = text.split(":")
    if limits:
        # 0 and 4095 are reserved (IEEE 802.1Q).
        _ordered(limits, 4094)
    return text


# Neutron puts scheme and port around it: a URL would be an address that nobody has.
HOST = r"^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$"
VniRange = Annotated[str, Field(pattern=r"^[0-9]{1,8}:[0-9]{1,8}$", max_length=17), AfterValidator(_vni_range)]
VlanRange = Annotated[
    str, Field(pattern=r"^[^\s:,]+(:[0-9]{1,4}:[0-9]{1,4})?$", max_length=80), AfterValidator(_vlan_range)
]


class RPCServer(Workload):
    """The server of agents' and other services' calls."""

    components: ClassVar[tuple[str, ...]] = ("rpc-server",)


class NeutronAgent(PodSettings, Configurable):
    """The agent on every node that runs guests: it gives them their metadata."""

    components: ClassVar[tuple[str, ...]] = ("ovn-agent",)
    overwritable: ClassVar[tuple[str, ...]] = ("logging.conf",)

    node_selector: Labels = {"openstack.k8s.io/compute": "true"}
    """Nodes that run guests; they need a chassis of the OVN network. Sets nodeSelector of the DaemonSet."""


class NeutronTemplate(ServiceTemplate):
    """A network service."""

    components: ClassVar[tuple[str, ...]] = (
        "api", "db-sync", "ovn-maintenance-worker", "periodic-workers", "rpc-server",
    )  # fmt: skip
    overwritable: ClassVar[tuple[str, ...]] = ("api-paste.ini", "logging.conf", "policy.yaml")

    credentials: Credentials = Credentials()
    """Passwords that the user brings. Sets the service's Secrets."""
    mechanism: Literal["ovn"] = "ovn"
    """How networks are made. Sets [ml2] mechanism_drivers in neutron.conf."""
    distributed_floating_ips: bool = True
    """Whether traffic of floating addresses enters and leaves at the guest's own node instead of a gateway. Sets [ovn]
    enable_distributed_floating_ip in neutron.conf."""
    physical_network_mtu: Annotated[int, Field(ge=576, le=65535)] = 1500
    """Largest packet that the network between nodes carries, in bytes; networks of tenants get less, for the tunnel's
    header. Sets [DEFAULT] global_physnet_mtu in neutron.conf."""
    vni_ranges: Annotated[tuple[VniRange, ...], Field(min_length=1, max_length=16)] = ("1:4096",)
    """Tunnel identifiers `first:last` of tenants' networks: as many networks can exist. Each process compares the whole
    range with the database when it starts, so wide ranges cost seconds. Sets [ml2_type_geneve] vni_ranges in
    neutron.conf."""
    vlan_ranges: Annotated[tuple[VlanRange, ...], Field(max_length=64)] = ()
    """Physical networks that carry VLANs, such as `physnet1` or `physnet1:100:199` (what tenants may use). Sets
    [ml2_type_vlan] network_vlan_ranges in neutron.conf."""
    rpc_server: RPCServer = RPCServer()
    """The server of agents' and other services' calls. Sets the Deployment `<name>-rpc-server`."""
    agent: NeutronAgent = NeutronAgent()
    """The agent on the nodes. Sets the DaemonSet `<name>-ovn-agent`."""


class NeutronEntry(Entry, NeutronTemplate):
    """The network service of a control plane."""


class NeutronSpec(NeutronTemplate, MessagingClientInstance):
    """A network service and where it belongs."""

    ovn_ref: Ref = Ref(name="ovn")
    """The OVNNetwork object that carries the networks. Sets [ovn] ovn_nb_connection and ovn_sb_connection."""
    nova_metadata_host: Annotated[str, Field(pattern=HOST, max_length=253)] = "nova-metadata"
    """Service of the same namespace, or host name with dots, that serves guests' metadata. Sets [DEFAULT]
    nova_metadata_host of the agent."""


class NeutronStatus(ServiceStatus):
    """What the operator observed of the network service."""

    metadata_secret: str | None = None
    """Secret whose key `secret` signs metadata requests: Nova must know it."""


KIND = Kind(
    resource=kinds.NEUTRON,
    spec=NeutronSpec,
    status=NeutronStatus,
    description="OpenStack Networking.",
    columns=(
        Column("Replicas", ".spec.replicas", "integer", description="Number of API pods."),
        Column("URL", ".status.publicUrl", description="Public URL."),
    ),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
