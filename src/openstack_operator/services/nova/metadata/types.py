"""The NovaMetadata kind."""

from __future__ import annotations

from typing import ClassVar

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import Ref
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import Replicas
from openstack_operator.services.nova.parts import PartStatus, PartTemplate, Process, RegisteredCells


class MetadataTemplate(PartTemplate):
    """The metadata service for all cells."""

    components: ClassVar[tuple[str, ...]] = ("metadata",)
    overwritable: ClassVar[tuple[str, ...]] = ("api-paste.ini", "logging.conf", "policy.yaml")

    enabled: bool = True
    """Whether there is one metadata service for all cells. False deletes its object."""


class CellMetadataTemplate(MetadataTemplate):
    """The metadata service of one cell."""

    enabled: bool = False
    """Whether the cell has a metadata service of its own; its metadata agents must be told so. False deletes its
    object."""


class NovaMetadataSpec(PartTemplate, Process):
    """A metadata service and what it connects to."""

    components: ClassVar[tuple[str, ...]] = MetadataTemplate.components
    overwritable: ClassVar[tuple[str, ...]] = MetadataTemplate.overwritable

    replicas: Replicas = 1
    """Number of pods. Sets replicas of the Deployment."""
    api_database_secret_ref: Ref | None = None
    """Secret with user, password and hostname of the API database, to serve all cells. Sets [api_database] connection;
    without it [api] local_metadata_per_cell is set."""
    cell_database_secret_ref: Ref
    """Secret with user, password and hostname of the cell's database, cell0's to serve all cells. Sets [database]
    connection."""
    metadata_secret_ref: Ref
    """Secret with the key `secret`, which the metadata agents share. Sets [neutron] metadata_proxy_shared_secret."""
    registered_cells: RegisteredCells = {}
    """Hash of the connections of each cell that the API database knows. Restarts the pods when it changes, because they
    read the cells once."""


class MetadataStatus(PartStatus):
    """What the operator observed of the metadata service."""

    internal_url: str | None = None
    """URL inside the cluster."""


KIND = Kind(
    resource=kinds.NOVA_METADATA,
    spec=NovaMetadataSpec,
    status=MetadataStatus,
    description="A metadata service of a Nova: for all cells or for one.",
    columns=(
        Column("Replicas", ".spec.replicas", "integer", description="Number of pods."),
        Column("URL", ".status.internalUrl", description="URL inside the cluster."),
    ),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
