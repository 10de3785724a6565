"""nova.conf of a conductor as rows."""

from __future__ import annotations

from openstack_operator.kit import ini
from openstack_operator.services.nova import rows
from openstack_operator.services.nova.conductor.types import NovaConductorSpec

ROWS = (
    *rows.BASE,
    *rows.HOST,
    *rows.LOCKS,
    *rows.SHUTDOWN,
    *ini.messaging(),
    *rows.CELL_DATABASE,
    *rows.CLIENTS,
    *ini.cache(),
    ini.fixed("conductor", "workers", 1, "pods are the workers"),
)

SUPER_ROWS = (*ROWS, *rows.API_DATABASE)
CELL_ROWS = (*ROWS, *rows.NO_UPCALLS)


def choose(spec: NovaConductorSpec) -> tuple[ini.Row, ...]:
    """A cell's conductor must not see the API database, so that a cell is a domain of failure of its own."""
    return CELL_ROWS if spec.api_database_secret_ref is None else SUPER_ROWS
