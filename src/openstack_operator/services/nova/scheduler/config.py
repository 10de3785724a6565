"""nova.conf of the scheduler as rows."""

from __future__ import annotations

from openstack_operator.kit import ini
from openstack_operator.services.nova import rows

ROWS = (
    *rows.BASE,
    *rows.HOST,
    *rows.LOCKS,
    *rows.SHUTDOWN,
    *ini.messaging(),
    *rows.API_DATABASE,
    *rows.CELL_DATABASE,
    *rows.CLIENTS,
    *ini.cache(),
    *rows.NO_UPCALLS,
    ini.fixed("scheduler", "workers", 1, "pods are the workers"),
    ini.spec("scheduler", "discover_hosts_in_cells_interval", "discoverHostsIntervalSeconds"),
    ini.fixed("DEFAULT", "periodic_fuzzy_delay", 0, "the first look for new hosts must not wait"),
)
