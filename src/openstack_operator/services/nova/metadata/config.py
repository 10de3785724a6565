"""nova.conf of a metadata service as rows."""

from __future__ import annotations

from openstack_operator.kit import ini
from openstack_operator.services.nova import rows
from openstack_operator.services.nova.metadata.types import NovaMetadataSpec

PORT = 8775

ROWS = (
    *rows.BASE,
    *rows.HOST,
    *rows.LOCKS,
    *ini.messaging(),
    *rows.CELL_DATABASE,
    *rows.CLIENTS,
    *ini.cache(),
    ini.fixed("neutron", "service_metadata_proxy", True, "requests come through the agents of Neutron"),
    ini.fact("neutron", "metadata_proxy_shared_secret", "metadata.secret", secret=True),
)

GLOBAL_ROWS = (*ROWS, *rows.API_DATABASE)
CELL_ROWS = (
    *ROWS,
    ini.fixed("api", "local_metadata_per_cell", True, "there is no API database to find the cell in"),
)


def choose(spec: NovaMetadataSpec) -> tuple[ini.Row, ...]:
    return CELL_ROWS if spec.api_database_secret_ref is None else GLOBAL_ROWS
