"""The Glance kind."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import (
    Entry,
    IdentityClientInstance,
    IdentityCredentials,
    ServiceStatus,
    ServiceTemplate,
    Storage,
)
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import K8s, Rule

StorageType = Literal["pvc"]
ImportMethod = Literal["glance-direct", "web-download"]


class GlanceTemplate(ServiceTemplate, Storage):
    """An image service."""

    components: ClassVar[tuple[str, ...]] = ("api", "db-sync")
    overwritable: ClassVar[tuple[str, ...]] = ("glance-api-paste.ini", "logging.conf", "policy.yaml")

    credentials: IdentityCredentials = IdentityCredentials()
    """Passwords that the user brings. Sets the service's Secrets."""
    storage_type: StorageType = "pvc"
    """Where images are kept: `pvc` is one persistent volume, which pods of one node can use. Sets [DEFAULT]
    enabled_backends and the volume of the pod."""
    import_methods: Annotated[tuple[ImportMethod, ...], Field(max_length=2), K8s(list_type="set")] = (
        "glance-direct",
        "web-download",
    )
    """Ways to import an image besides uploading it; `web-download` lets users make Glance fetch a URL. Sets [DEFAULT]
    enabled_import_methods in glance-api.conf."""

    cel_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.storageType != 'pvc' || self.replicas <= 1",
            "replicas must be 0 or 1 with storageType pvc: its volume belongs to one pod",
            field_path=".replicas",
        ),
    )


class GlanceEntry(Entry, GlanceTemplate):
    """The image service of a control plane."""


class GlanceSpec(GlanceTemplate, IdentityClientInstance):
    """An image service and where it belongs."""


class GlanceStatus(ServiceStatus):
    """What the operator observed of the image service."""


KIND = Kind(
    resource=kinds.GLANCE,
    spec=GlanceSpec,
    status=GlanceStatus,
    description="OpenStack Image service.",
    columns=(
        Column("Replicas", ".spec.replicas", "integer", description="Number of API pods."),
        Column("Storage", ".spec.storageType", description="Where images are kept."),
        Column("URL", ".status.publicUrl", description="Public URL."),
    ),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
