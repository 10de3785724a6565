"""A service's message bus: credentials, the request to RabbitMQ, transport_url as a fact."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import credentials, kinds, names, requests
from openstack_operator.kit.types import SecretKeyRef
from openstack_operator.runtime.controller import Scope

FIELD = "vhosts"


def url(values: Mapping[str, str]) -> str:
    """oslo.messaging transport URL of a message bus Secret (user, password, hostname, port, vhost); ``hostname`` may
    be a comma-separated list of members."""
    user, password, vhost = (urllib.parse.quote(values[key], safe="") for key in ("user", "password", "vhost"))
    port = values.get("port", "5672")
    hosts = ",".join(f"{user}:{password}@{host.strip()}:{port}" for host in values["hostname"].split(","))
    return f"rabbit://{hosts}/{vhost}"


async def ensure(
    scope: Scope[Any],
    service: str,
    rabbitmq: str,
    vhost: str,
    *,
    supplied: SecretKeyRef | None = None,
    secret: str = "",
    fact: str = "messaging",
) -> str:
    """Makes the Secret, the virtual host and its user, sets ``<fact>.url``; returns the Secret's name.

    Raises ``errors.Waiting`` until RabbitMQ knows both.
    """
    item = requests.server(scope, kinds.RABBITMQ, rabbitmq)
    secret = secret or names.messaging_secret(scope.name)
    values = {
        "user": vhost,
        "password": await credentials.password(scope, secret, supplied, "spec.credentials.messaging"),
        "hostname": names.dns(item["metadata"]["name"], scope.namespace),
        "port": "5672",
        "vhost": vhost,
    }
    values["transport_url"] = url(values)
    await credentials.ensure(scope, secret, service, values)
    scope.facts[f"{fact}.url"] = values["transport_url"]
    await requests.ask(scope, kinds.RABBITMQ, rabbitmq, FIELD, {"name": vhost, "secretRef": {"name": secret}})
    return secret


async def drop(scope: Scope[Any], rabbitmq: str, vhost: str) -> None:
    """For finalizers."""
    await requests.withdraw(scope, kinds.RABBITMQ, rabbitmq, FIELD, vhost)
