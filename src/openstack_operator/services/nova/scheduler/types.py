"""The NovaScheduler kind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import Ref
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import Replicas
from openstack_operator.services.nova.parts import DaemonTemplate, PartStatus, Process, RegisteredCells


class SchedulerTemplate(DaemonTemplate):
    """The scheduler."""

    components: ClassVar[tuple[str, ...]] = ("scheduler",)

    discover_hosts_interval_seconds: Annotated[int, Field(ge=1, le=3600)] | None = None
    """How often the scheduler itself looks for compute hosts that belong to no cell yet, in seconds: for computes that
    the operator does not run, whose hosts nobody else maps to their cells. Absent, it does not look: the operator maps
    the hosts that it runs. Sets [scheduler] discover_hosts_in_cells_interval and [DEFAULT] periodic_fuzzy_delay."""


class NovaSchedulerSpec(SchedulerTemplate, Process):
    """A scheduler and what it connects to."""

    replicas: Replicas = 1
    """Number of pods. Sets replicas of the Deployment."""
    api_database_secret_ref: Ref
    """Secret with user, password and hostname of the API database. Sets [api_database] connection."""
    cell_database_secret_ref: Ref
    """Secret with user, password and hostname of cell0's database. Sets [database] connection."""
    nova_ref: Ref | None = None
    """The Nova, if the first pods shall be started only when that is registered in Keystone: they end where Keystone
    refuses their login. Delays the Deployment."""
    registered_cells: RegisteredCells = {}
    """Hash of the connections of each cell that the API database knows. Restarts the pods when it changes, because they
    read the cells once."""


KIND = Kind(
    resource=kinds.NOVA_SCHEDULER,
    spec=NovaSchedulerSpec,
    status=PartStatus,
    description="The scheduler of a Nova.",
    columns=(Column("Replicas", ".spec.replicas", "integer", description="Number of pods."),),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
