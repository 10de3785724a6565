"""The MariaDB kind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import (
    ENTRIES,
    DatabaseRequest,
    GrantedEntry,
    Instance,
    PodSettings,
    Status,
    Storage,
)
from openstack_operator.runtime.kinds import Column, Kind


class MariaDBTemplate(PodSettings, Storage):
    """A MariaDB server with a persistent volume."""

    components: ClassVar[tuple[str, ...]] = ("server",)

    replicas: Annotated[int, Field(ge=0, le=1)] = 1
    """Number of servers; 0 stops the database and keeps its volume. Sets replicas of the StatefulSet."""
    max_connections: Annotated[int, Field(ge=10, le=100000)] = 1000
    """Connections that are accepted at the same time. Sets max_connections in my.cnf."""
    buffer_pool_mebibytes: Annotated[int, Field(ge=16, le=1048576)] = 256
    """Memory for cached data, in MiB. Sets innodb_buffer_pool_size in my.cnf and the memory request."""


class MariaDBSpec(MariaDBTemplate, Instance):
    """A MariaDB server and its databases."""

    databases: Annotated[tuple[DatabaseRequest, ...], Field(max_length=256), ENTRIES] = ()
    """Databases with their users. Services add their own entries; each is created, repaired and, when taken out,
    dropped."""


class MariaDBStatus(Status):
    """What the operator observed of the server."""

    replicas: int | None = None
    """Servers that exist."""
    databases: Annotated[tuple[GrantedEntry, ...], Field(max_length=256), ENTRIES] = ()
    """Databases that stand in the server."""


KIND = Kind(
    resource=kinds.MARIADB,
    spec=MariaDBSpec,
    status=MariaDBStatus,
    description="A MariaDB server and the databases that services ask for.",
    columns=(Column("Replicas", ".spec.replicas", "integer", description="Number of servers."),),
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
