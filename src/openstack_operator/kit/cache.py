"""A service's token and object cache: the members of a Memcached object as a fact."""

from __future__ import annotations

from typing import Any

from openstack_operator.kit import kinds, requests
from openstack_operator.runtime import errors
from openstack_operator.runtime.controller import Scope


async def observe(scope: Scope[Any], memcached: str) -> None:
    """Sets ``cache.servers`` (comma-separated members; clients shard over them, no load balancer).

    Members have stable names, so services can be configured before the pods are up. Raises ``errors.Waiting`` until
    the Memcached object has published them.
    """
    item = requests.server(scope, kinds.MEMCACHED, memcached)
    servers = item.get("status", {}).get("servers") or []
    if not servers:
        message = f"Memcached {scope.namespace}/{memcached} has not published its servers yet"
        raise errors.Waiting("NoServers", message, on=kinds.MEMCACHED.kind)
    scope.facts["cache.servers"] = ",".join(servers)
