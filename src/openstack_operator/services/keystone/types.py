"""The Keystone kind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from openstack_operator.kit import admission, kinds, names
from openstack_operator.kit.types import Entry, SecretKeyRef, ServiceInstance, ServiceStatus, ServiceTemplate
from openstack_operator.runtime.kinds import Column, Kind
from openstack_operator.runtime.schema import Model

HOUR = 3600
DAY = 24 * HOUR


class FernetSpec(Model):
    """Keys that sign tokens, and their rotation."""

    rotation_hours: Annotated[int, Field(ge=1, le=24 * 90)] = 24
    """Hours between two rotations. Sets the schedule of the rotation CronJob and [fernet_tokens] max_active_keys."""


class TokenSpec(Model):
    """Life of tokens."""

    expiration_seconds: Annotated[int, Field(ge=60, le=90 * DAY)] = HOUR
    """How long a token is valid, in seconds. Sets [token] expiration and [fernet_tokens] max_active_keys."""
    allow_expired_window_seconds: Annotated[int, Field(ge=0, le=90 * DAY)] = 2 * DAY
    """How long services accept an expired token of a running operation, in seconds. Sets [token]
    allow_expired_window and [fernet_tokens] max_active_keys."""


class KeystoneTemplate(ServiceTemplate):
    """An identity service."""

    components: ClassVar[tuple[str, ...]] = ("api", "bootstrap", "fernet-rotate")

    admin_password_secret_ref: SecretKeyRef | None = None
    """Password of the admin user, at most 72 bytes; generated when absent. Sets the user's password and the Secret
    `<name>-admin`."""
    fernet: FernetSpec = FernetSpec()
    """Keys that sign tokens."""
    token: TokenSpec = TokenSpec()
    """Life of tokens."""


class KeystoneEntry(Entry, KeystoneTemplate):
    """The identity service of a control plane."""


class KeystoneSpec(KeystoneTemplate, ServiceInstance):
    """An identity service and where it belongs."""


class KeystoneStatus(ServiceStatus):
    """What the operator observed of the identity service."""

    admin_secret: str | None = None
    """Secret with the admin's login and a clouds.yaml."""


KIND = Kind(
    resource=kinds.KEYSTONE,
    spec=KeystoneSpec,
    status=KeystoneStatus,
    description="OpenStack Identity.",
    columns=(
        Column("Replicas", ".spec.replicas", "integer", description="Number of API pods."),
        Column("URL", ".status.publicUrl", description="Public URL."),
    ),
    scale=True,
    max_name_length=names.INSTANCE_LENGTH,
    admit=admission.admit,
)
