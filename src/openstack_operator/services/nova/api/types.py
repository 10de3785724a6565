"""The NovaAPI kind."""

from __future__ import annotations

from typing import ClassVar

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import PublicEndpoint, Ref, ServiceStatus
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import Replicas
from openstack_operator.services.nova.parts import PartTemplate, Process, RegisteredCells


class APITemplate(PartTemplate):
    """The compute API."""

    components: ClassVar[tuple[str, ...]] = ("api",)
    overwritable: ClassVar[tuple[str, ...]] = ("api-paste.ini", "logging.conf", "policy.yaml")

    public_endpoint: PublicEndpoint | None = None
    """How the API is reached from outside. Sets the public Service and the public URL in Keystone; absent,
    `publicEndpoint` of the Nova holds."""


class NovaAPISpec(APITemplate, Process):
    """A compute API and what it connects to."""

    replicas: Replicas = 1
    """Number of pods. Sets replicas of the Deployment."""
    api_database_secret_ref: Ref
    """Secret with user, password and hostname of the API database. Sets [api_database] connection."""
    cell_database_secret_ref: Ref
    """Secret with user, password and hostname of cell0's database. Sets [database] connection."""
    registered_cells: RegisteredCells = {}
    """Hash of the connections of each cell that the API database knows. Restarts the pods when it changes, because they
    read the cells once."""


KIND = Kind(
    resource=kinds.NOVA_API,
    spec=NovaAPISpec,
    status=ServiceStatus,
    description="The compute API of a Nova.",
    columns=(
        Column("Replicas", ".spec.replicas", "integer", description="Number of pods."),
        Column("URL", ".status.publicUrl", description="Public URL."),
    ),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
