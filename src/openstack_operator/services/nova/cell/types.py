"""The NovaCell kind."""

from __future__ import annotations

from typing import Annotated, ClassVar, cast

from pydantic import Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import (
    ConfigPolicy,
    ConfigSecrets,
    ConfigText,
    Configurable,
    PublicEndpoint,
    Ref,
    Status,
)
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import IMMUTABLE, K8s, Replicas, Rule
from openstack_operator.services.nova.compute.types import ComputeTemplate
from openstack_operator.services.nova.conductor.types import ConductorTemplate
from openstack_operator.services.nova.metadata.types import CellMetadataTemplate
from openstack_operator.services.nova.novncproxy.types import NoVNCProxyTemplate
from openstack_operator.services.nova.parts import CellName, Process

KEYS = Rule(
    "self.all(key, key.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(key) <= 16)",
    "names must have 1 to 16 characters a-z, 0-9 or '-', and start with a letter",
)

RESERVED_GROUPS = Rule(
    "!self.exists(key, key in ['conductor', 'metadata', 'novncproxy'])",
    "conductor, metadata and novncproxy are names of other parts of the cell",
)


class CellParts(Configurable):
    """What a cell consists of."""

    custom_service_config: ConfigText = ""
    """oslo.config text for all parts of the cell; the parts' own text wins over it. Appended to nova.conf."""
    config_secrets: ConfigSecrets = ()
    """oslo.config text that nobody may see, for all parts of the cell. Appended to nova.conf after
    customServiceConfig."""
    config_policy: ConfigPolicy | None = None
    """How the text here and below is judged. Sets configPolicy of the parts that have none of their own."""
    conductor: ConductorTemplate = ConductorTemplate()
    """The conductor of the cell. Sets the NovaConductor."""
    novncproxy: NoVNCProxyTemplate = NoVNCProxyTemplate()
    """The proxy for consoles of the cell. Sets the NovaNoVNCProxy."""
    metadata: CellMetadataTemplate = CellMetadataTemplate()
    """A metadata service of the cell's own. Sets the NovaMetadata."""
    computes: Annotated[
        dict[str, ComputeTemplate],
        Field(max_length=16, validate_default=True),
        K8s(cel=(KEYS, RESERVED_GROUPS), map_type="atomic"),
    ] = cast("dict[str, ComputeTemplate]", {"compute": {}})
    """Groups of compute nodes by name. Sets one NovaCompute each."""

    overwritable: ClassVar[tuple[str, ...]] = ("api-paste.ini", "logging.conf", "policy.yaml")


class CellTemplate(CellParts):
    """A cell."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.databaseRef) ? self.databaseRef.name : '') == "
            "(has(oldSelf.databaseRef) ? oldSelf.databaseRef.name : '')",
            "the database server of a cell cannot be changed after creation: the cell's servers are in its database",
            field_path=".databaseRef",
        ),
    )

    database_ref: Ref | None = None
    """The MariaDB object with the cell's database, which cannot be changed; the Nova's own when absent. Sets the host
    in the connection URL."""
    messaging_ref: Ref | None = None
    """The RabbitMQ object with the cell's message bus; the Nova's own when absent. Sets the host in transport_url."""


class NovaCellSpec(CellParts, Process):
    """A cell and what it connects to."""

    cell_name: Annotated[CellName, K8s(cel=(IMMUTABLE,))]
    """Name of the cell in Nova, which cannot be changed. Sets the column Cell."""
    replicas: Replicas = 1
    """Number of pods of each part whose own template says nothing. Sets replicas of the parts."""
    public_endpoint: PublicEndpoint | None = None
    """How the cell's proxy is reached from outside where its template says nothing. Sets the public Service."""
    cell_database_secret_ref: Ref
    """Secret with user, password and hostname of the cell's database. Sets [database] connection."""
    metadata_secret_ref: Ref = Ref(name="neutron-metadata")
    """Secret with the key `secret`, which the metadata agents share. Sets [neutron] metadata_proxy_shared_secret."""
    placement_ref: Ref | None = None
    """The Placement that nova-compute waits for. Sets placementRef of the NovaComputes."""
    nova_ref: Ref | None = None
    """The Nova whose registration in Keystone conductor and nova-compute wait for. Sets novaRef of the NovaConductor
    and of the NovaComputes."""


class CellStatus(Status):
    """What the operator observed of the cell."""

    hosts: tuple[str, ...] = ()
    """Nodes on which nova-compute works."""
    virt_type: str | None = None
    """How servers run; more than one value where nodes differ."""
    console_url: str | None = None
    """URL of the page with which browsers reach consoles."""


KIND = Kind(
    resource=kinds.NOVA_CELL,
    spec=NovaCellSpec,
    status=CellStatus,
    description="A cell of a Nova: conductor, consoles, metadata and computes with a database and a message bus.",
    columns=(
        Column("Cell", ".spec.cellName", description="Name of the cell in Nova."),
        Column("Virt", ".status.virtType", description="How servers run: kvm or qemu."),
    ),
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
