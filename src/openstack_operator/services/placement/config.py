"""placement.conf as rows."""

from __future__ import annotations

from openstack_operator.kit import ini

PORT = 8778
SERVICE_TYPE = "placement"

ROWS = (
    *ini.logging(),
    *ini.database("placement_database"),
    ini.fixed("api", "auth_strategy", "keystone", "callers show tokens"),
    *ini.authtoken(SERVICE_TYPE),
    ini.fixed("oslo_middleware", "enable_proxy_headers_parsing", True, "links name the host that the client used"),
)
