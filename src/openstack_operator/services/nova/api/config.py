"""nova.conf of the compute API as rows."""

from __future__ import annotations

from openstack_operator.kit import ini
from openstack_operator.services.nova import rows

PORT = 8774

ROWS = (
    *rows.BASE,
    *rows.HOST,
    *rows.LOCKS,
    *ini.messaging(),
    *rows.API_DATABASE,
    *rows.CELL_DATABASE,
    *ini.authtoken("compute"),
    *rows.CLIENTS,
    *ini.cache(),
    ini.fixed("oslo_middleware", "enable_proxy_headers_parsing", True, "links name the host that the client used"),
)
