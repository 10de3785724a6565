"""glance-api.conf as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import ini
from openstack_operator.services.glance.types import GlanceSpec

PORT = 9292
SERVICE_TYPE = "image"
CONF = "glance-api.conf"
"""Under this name the API looks for it, in $OS_GLANCE_CONFIG_DIR and nowhere else, its paste file beside it."""
DEFAULTS = "/etc/glance"
"""Directory of the image with the paste file."""
DATA = "/var/lib/glance"
"""Mount point of the volume."""

# Name of the store; images remember it, so it stays.
STORE = "file"
_BACKENDS = {"pvc": f"{STORE}:file"}


def enabled_backends(spec: GlanceSpec, facts: Mapping[str, Any]) -> str:
    """Stores as ``name:driver``."""
    return _BACKENDS[spec.storage_type]


def import_methods(spec: GlanceSpec, facts: Mapping[str, Any]) -> str:
    """oslo.config wants this list in brackets."""
    return f"[{','.join(spec.import_methods)}]"


ROWS = (
    *ini.logging(),
    ini.computed("DEFAULT", "enabled_backends", enabled_backends, "spec.storageType"),
    ini.computed("DEFAULT", "enabled_import_methods", import_methods, "spec.importMethods"),
    ini.fact("DEFAULT", "worker_self_reference_url", "url.self"),
    *ini.database("database"),
    ini.fixed("glance_store", "default_backend", STORE, "the only store"),
    ini.fixed(STORE, "filesystem_store_datadir", f"{DATA}/images", "in the volume"),
    # What is imported is staged first, at full size: /tmp would be the node's disk.
    ini.fixed("os_glance_staging_store", "filesystem_store_datadir", f"{DATA}/staging", "in the volume"),
    ini.fixed("os_glance_tasks_store", "filesystem_store_datadir", f"{DATA}/tasks", "in the volume"),
    ini.fixed("paste_deploy", "flavor", "keystone", "callers show tokens"),
    *ini.authtoken(SERVICE_TYPE),
    ini.fixed("oslo_concurrency", "lock_path", "/tmp", "locks concern one pod, and nothing else is writable"),
    ini.fixed("oslo_middleware", "enable_proxy_headers_parsing", True, "links name the host that the client used"),
)
