"""The RabbitMQ kind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import (
    ENTRIES,
    GrantedEntry,
    Instance,
    PodSettings,
    Status,
    Storage,
    VhostRequest,
)
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import Quantity


class RabbitMQTemplate(PodSettings, Storage):
    """A RabbitMQ server with a persistent volume; queues are quorum queues from the start."""

    components: ClassVar[tuple[str, ...]] = ("server",)

    replicas: Annotated[int, Field(ge=0, le=1)] = 1
    """Number of servers; 0 stops the message bus and keeps its volume. Sets replicas of the StatefulSet."""
    storage_size: Quantity = "5Gi"
    """Size of the volume. Sets the request of the PersistentVolumeClaim when it is made."""


class RabbitMQSpec(RabbitMQTemplate, Instance):
    """A RabbitMQ server and its virtual hosts."""

    vhosts: Annotated[tuple[VhostRequest, ...], Field(max_length=256), ENTRIES] = ()
    """Virtual hosts with their users. Services add their own entries; each is created, repaired and, when taken out,
    deleted."""


class RabbitMQStatus(Status):
    """What the operator observed of the server."""

    replicas: int | None = None
    """Servers that exist."""
    vhosts: Annotated[tuple[GrantedEntry, ...], Field(max_length=256), ENTRIES] = ()
    """Virtual hosts that stand in the server."""


KIND = Kind(
    resource=kinds.RABBITMQ,
    spec=RabbitMQSpec,
    status=RabbitMQStatus,
    description="A RabbitMQ server and the virtual hosts that services ask for.",
    columns=(Column("Replicas", ".spec.replicas", "integer", description="Number of servers."),),
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
