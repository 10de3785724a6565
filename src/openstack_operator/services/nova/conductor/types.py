"""The NovaConductor kind."""

from __future__ import annotations

from typing import ClassVar

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import Ref
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import Replicas
from openstack_operator.services.nova.parts import DaemonTemplate, PartStatus, Process, RegisteredCells


class ConductorTemplate(DaemonTemplate):
    """A conductor."""

    components: ClassVar[tuple[str, ...]] = ("conductor",)


class NovaConductorSpec(ConductorTemplate, Process):
    """A conductor and what it connects to."""

    replicas: Replicas = 1
    """Number of pods. Sets replicas of the Deployment."""
    api_database_secret_ref: Ref | None = None
    """Secret with user, password and hostname of the API database, which makes this a super-conductor. Sets
    [api_database] connection; conductors of cells have none."""
    cell_database_secret_ref: Ref
    """Secret with user, password and hostname of the cell's database, cell0's for a super-conductor. Sets [database]
    connection."""
    nova_ref: Ref | None = None
    """The Nova, if the first pods shall be started only when that is registered in Keystone: they end where Keystone
    refuses their login. Delays the Deployment."""
    registered_cells: RegisteredCells = {}
    """Hash of the connections of each cell that the API database knows. Restarts the pods when it changes, because they
    read the cells once; conductors of cells need none."""


KIND = Kind(
    resource=kinds.NOVA_CONDUCTOR,
    spec=NovaConductorSpec,
    status=PartStatus,
    description="A conductor of a Nova: the super-conductor or one of a cell.",
    columns=(Column("Replicas", ".spec.replicas", "integer", description="Number of pods."),),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
