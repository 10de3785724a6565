"""nova.conf of a proxy for consoles as rows."""

from __future__ import annotations

from openstack_operator.kit import ini
from openstack_operator.services.nova import rows

PORT = 6080
PAGE = "vnc_lite.html"
STATIC = "/usr/share/novnc"

ROWS = (
    *rows.BASE,
    *rows.LOCKS,
    *ini.messaging(),
    *rows.CELL_DATABASE,
    *rows.CLIENTS,
    ini.fixed("vnc", "enabled", True, "what this process is for"),
    ini.fixed("vnc", "novncproxy_host", "::", "both address families"),
    ini.fixed("vnc", "novncproxy_port", PORT, "the port of the Service"),
    ini.fixed("DEFAULT", "web", STATIC, "noVNC's page and scripts"),
    ini.fixed("oslo_middleware", "enable_proxy_headers_parsing", True, "links name the host that the client used"),
)
