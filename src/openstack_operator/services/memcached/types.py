"""The Memcached kind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import Instance, Status, Workload
from openstack_operator.runtime.kinds import Column, Kind


class MemcachedTemplate(Workload):
    """Memcached servers; clients spread their keys over all of them."""

    components: ClassVar[tuple[str, ...]] = ("server",)

    cache_mebibytes: Annotated[int, Field(ge=1, le=65536)] = 64
    """Memory for cached items of each server, in MiB. Sets -m and the memory request."""
    max_connections: Annotated[int, Field(ge=10, le=65536)] = 1024
    """Connections that each server accepts. Sets -c."""


class MemcachedSpec(MemcachedTemplate, Instance):
    """Memcached servers."""


class MemcachedStatus(Status):
    """What the operator observed of the servers."""

    replicas: int | None = None
    """Servers that exist."""
    selector: str | None = None
    """Label selector of the pods, for autoscalers."""
    servers: Annotated[tuple[str, ...], Field(max_length=1000)] = ()
    """`host:port` of each server, for clients."""


KIND = Kind(
    resource=kinds.MEMCACHED,
    spec=MemcachedSpec,
    status=MemcachedStatus,
    description="Memcached servers that services share.",
    columns=(Column("Replicas", ".spec.replicas", "integer", description="Number of servers."),),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
