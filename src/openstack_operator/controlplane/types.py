"""The OpenStackControlPlane kind: one field per service, and what all of them share."""

from __future__ import annotations

import ipaddress
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from openstack_operator.controlplane import admission
from openstack_operator.kit import kinds
from openstack_operator.kit.types import (
    DEFAULT_RELEASE,
    SAME_REGION,
    ConfigPolicy,
    ConfigSecrets,
    ConfigText,
    Entry,
    Images,
    PodSettings,
    PublicEndpoint,
    Release,
    Status,
)
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import K8s, Model, ObjectName, Rule
from openstack_operator.services.glance.types import GlanceEntry
from openstack_operator.services.keystone.types import KeystoneEntry
from openstack_operator.services.mariadb.types import MariaDBTemplate
from openstack_operator.services.memcached.types import MemcachedTemplate
from openstack_operator.services.neutron.types import NeutronEntry
from openstack_operator.services.nova.types import NovaEntry
from openstack_operator.services.ovn.types import OVNNetworkEntry
from openstack_operator.services.placement.types import PlacementEntry
from openstack_operator.services.rabbitmq.types import RabbitMQTemplate

Phase = Literal["Infrastructure", "Identity", "CoreServices", "Compute", "Ready", "Deleting"]


class ClientEntry(Entry, PodSettings):
    """A pod with the openstack command line client, logged in as admin."""

    components: ClassVar[tuple[str, ...]] = ("client",)


def _network(cidr: str) -> str:
    ipaddress.ip_network(cidr)
    return cidr


CIDR = Annotated[str, Field(pattern=r"^[0-9a-fA-F.:]+/[0-9]+$", max_length=43), AfterValidator(_network)]


class NetworkPolicies(Model):
    """Who may connect to the pods of the cloud: what needs them, and nobody else."""

    enabled: bool = True
    """Whether pods take connections only from what needs them. Sets the NetworkPolicies of the namespace; False deletes
    them."""
    node_cidrs: Annotated[tuple[CIDR, ...], Field(max_length=64), K8s(list_type="set")] = ()
    """Networks that agents on nodes come from beside the nodes' own addresses, such as 10.42.0.0/16. Sets ipBlock in
    the NetworkPolicies of what the agents use."""


class OpenStackControlPlaneSpec(Model):
    """A cloud."""

    openstack_release: Release = DEFAULT_RELEASE
    """OpenStack release. Chooses images and everything that differs between releases, for all services."""
    region: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=255),
        K8s(cel=(SAME_REGION,)),
    ] = "RegionOne"
    """Keystone region, which cannot be changed. Sets region of all services."""
    images: Images = Images()
    """Where images come from. Sets images of all services."""
    public_endpoint: PublicEndpoint = PublicEndpoint()
    """How APIs are reached from outside. Sets publicEndpoint of every service that has none of its own."""
    custom_service_config: ConfigText = ""
    """oslo.config text for all services: each gets the options that it has, and the services' own text wins over it.
    Appended to the services' configuration files."""
    config_secrets: ConfigSecrets = ()
    """oslo.config text that nobody may see, for all services: each gets the options that it has. Appended to the
    services' configuration files after customServiceConfig."""
    config_policy: ConfigPolicy | None = None
    """How configuration text is judged. Sets configPolicy of every service that has none of its own."""
    storage_class: ObjectName | None = None
    """Storage class of every volume; the cluster's default one when absent. Sets storageClass of every service that has
    none of its own."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """Who may connect to the pods. Sets the NetworkPolicies of the namespace."""
    mariadb: MariaDBTemplate = MariaDBTemplate()
    """The database server. Sets the object `mariadb`."""
    rabbitmq: RabbitMQTemplate = RabbitMQTemplate()
    """The message bus. Sets the object `rabbitmq`."""
    memcached: MemcachedTemplate = MemcachedTemplate()
    """The cache. Sets the object `memcached`."""
    keystone: KeystoneEntry = KeystoneEntry()
    """The identity service. Sets the object `keystone`."""
    glance: GlanceEntry = GlanceEntry()
    """The image service. Sets the object `glance`."""
    placement: PlacementEntry = PlacementEntry()
    """The placement service. Sets the object `placement`."""
    ovn: OVNNetworkEntry = OVNNetworkEntry()
    """The virtual network. Sets the object `ovn`."""
    neutron: NeutronEntry = NeutronEntry()
    """The networking service. Sets the object `neutron`."""
    nova: NovaEntry = NovaEntry()
    """The compute service. Sets the object `nova`."""
    openstackclient: ClientEntry = ClientEntry()
    """A pod for `kubectl exec` with the openstack command. Sets the Deployment `openstackclient`."""


class OpenStackControlPlaneStatus(Status):
    """What the operator observed of the cloud."""

    phase: Phase | None = None
    """Where the rollout is, for people. Programs read the conditions."""
    identity_url: str | None = None
    """Public URL of Keystone, from which clients find everything else."""
    admin_secret: str | None = None
    """Secret with the admin's login and a clouds.yaml."""


KIND = Kind(
    resource=kinds.CONTROL_PLANE,
    spec=OpenStackControlPlaneSpec,
    status=OpenStackControlPlaneStatus,
    description="An OpenStack cloud: every service of its control plane.",
    short_names=("oscp",),
    columns=(
        Column("Phase", ".status.phase", description="Where the rollout is."),
        Column("Release", ".spec.openstackRelease", description="OpenStack release."),
        Column("URL", ".status.identityUrl", description="Public URL of Keystone."),
    ),
    cel=(
        Rule(
            "self.metadata.name.size() <= 63",
            "metadata.name must have at most 63 characters: labels of all objects have it as their value",
        ),
    ),
    admit=admission.admit,
)
