"""The Placement kind."""

from __future__ import annotations

from typing import ClassVar

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import (
    Entry,
    IdentityClientInstance,
    IdentityCredentials,
    ServiceStatus,
    ServiceTemplate,
)
from openstack_operator.runtime.kinds import Column, Kind


class PlacementTemplate(ServiceTemplate):
    """A resource inventory service."""

    components: ClassVar[tuple[str, ...]] = ("api", "db-sync")

    credentials: IdentityCredentials = IdentityCredentials()
    """Passwords that the user brings. Sets the service's Secrets."""


class PlacementEntry(Entry, PlacementTemplate):
    """The resource inventory service of a control plane."""


class PlacementSpec(PlacementTemplate, IdentityClientInstance):
    """A resource inventory service and where it belongs."""


class PlacementStatus(ServiceStatus):
    """What the operator observed of the resource inventory service."""


KIND = Kind(
    resource=kinds.PLACEMENT,
    spec=PlacementSpec,
    status=PlacementStatus,
    description="OpenStack Placement.",
    columns=(
        Column("Replicas", ".spec.replicas", "integer", description="Number of API pods."),
        Column("URL", ".status.publicUrl", description="Public URL."),
    ),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
