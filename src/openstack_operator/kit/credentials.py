"""Secrets with credentials: generated once, or taken from the user, and handed to whoever needs them.

A Secret of ours holds user, password and hostname (seed 000) and whatever else a client needs to connect. Passwords
that we generate consist of letters and digits only, so that no quoting rule of any consumer ever matters.
"""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import labels
from openstack_operator.kit.types import SecretKeyRef
from openstack_operator.runtime import controller, drift, errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope

_ALPHABET = string.ascii_letters + string.digits


def generate(length: int = 32) -> str:
    """A new password; 32 characters of 62 are 190 bits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def encode(values: Mapping[str, str]) -> dict[str, str]:
    """The ``data`` of a Secret."""
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


def decode(item: Object) -> dict[str, str]:
    """The values of a Secret of ours."""
    return {key: base64.b64decode(value).decode() for key, value in (item.get("data") or {}).items()}


def fingerprint(item: Object) -> str:
    """Hash of a Secret's user and password: what a server knows of it."""
    data = item.get("data") or {}
    return drift.digest([data.get("user"), data.get("password")])


async def password(
    scope: Scope[Any], secret: str, supplied: SecretKeyRef | None, field: str, longest: int | None = None
) -> str:
    """The password for a Secret of ours: the user's, else the one that stands in the Secret, else a new one.

    Raises ``errors.Stalled`` when the user's Secret is missing, empty, not text, or holds a line break, and when a
    password that is not in use yet has more bytes than ``longest``.
    """
    present = scope.get(kinds.SECRET, secret)
    if supplied is not None:
        value = (await scope.secret(supplied.name, supplied.key))[supplied.key]
        # A file made with echo ends in a line break that nobody means.
        value = value.removesuffix("\n")
        if not value:
            raise errors.Stalled("SecretEmpty", f"{field}: Secret {supplied.name}: key {supplied.key!r} is empty")
        if any(ord(letter) < 32 for letter in value):
            raise errors.Stalled(
                "SecretInvalid", f"{field}: Secret {supplied.name}: key {supplied.key!r} holds a control character"
            )
        size = len(value.encode())
        if longest is not None and size > longest and (present is None or decode(present).get("password") != value):
            raise errors.Stalled(
                "SecretInvalid",
                f"{field}: Secret {supplied.name}: key {supplied.key!r} holds {size} bytes; {longest} are the most",
            )
        return value
    if present is not None and (present.get("data") or {}).get("password"):
        return controller.secret_values(present, "password")["password"]
    return generate()


async def ensure(
    scope: Scope[Any],
    name: str,
    service: str,
    values: Mapping[str, str],
    *,
    owned: bool = True,
    keep: tuple[str, ...] = (),
) -> Object:
    """A Secret of ours with these values; ``keep`` names keys whose present value is not replaced."""
    present = scope.get(kinds.SECRET, name)
    stored = decode(present) if present is not None else {}
    kept = {key: stored[key] for key in keep if stored.get(key)}
    return await scope.apply(
        kinds.SECRET,
        {
            "metadata": {"name": name, "labels": labels.common(service, scope.name)},
            "type": "Opaque",
            "data": encode({**values, **kept}),
        },
        owned=owned,
    )
