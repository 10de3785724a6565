"""nova.conf of the scheduler as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import ini
from openstack_operator.services.nova import rows
from openstack_operator.services.nova.scheduler.types import NovaSchedulerSpec


def _delay(spec: NovaSchedulerSpec, facts: Mapping[str, Any]) -> int | None:
    return None if spec.discover_hosts_interval_seconds is None else 0


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
    ini.computed("DEFAULT", "periodic_fuzzy_delay", _delay, "0 with spec.discoverHostsIntervalSeconds: its first look"),
)
