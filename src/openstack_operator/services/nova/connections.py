"""From the Secrets, URLs and names in the spec of one of Nova's kinds to the facts that configuration rows use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openstack_operator.kit import database, messaging
from openstack_operator.kit.types import Ref
from openstack_operator.runtime import conditions, controller, errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope, Watch
from openstack_operator.runtime.informer import Key
from openstack_operator.runtime.kinds import Resource
from openstack_operator.services.nova.parts import Process

SECRET_FIELDS = (
    "apiDatabaseSecretRef",
    "cellDatabaseSecretRef",
    "messagingSecretRef",
    "serviceUserSecretRef",
    "metadataSecretRef",
)


def watch(resource: Resource) -> Watch:
    """A change of a Secret wakes the objects of a kind that name it."""

    def keys(secret: Object, manager: Any) -> Iterable[Key]:
        metadata = secret["metadata"]
        for item in manager.informer(resource).items(metadata["namespace"]):
            if any(item["spec"].get(field, {}).get("name") == metadata["name"] for field in SECRET_FIELDS):
                yield metadata["namespace"], item["metadata"]["name"]

    return Watch(kinds.SECRET, keys)


async def read(scope: Scope[Any], ref: Ref, *required: str) -> dict[str, str]:
    """All values of a Secret that must have the ``required`` keys.

    Raises ``errors.Stalled`` that names the Secret and what is wrong with it.
    """
    item = scope.get(kinds.SECRET, ref.name)
    if item is not None:
        controller.secret_values(item, *required)
        return controller.secret_values(item)
    # Not one of ours: it is watched by its name.
    await scope.secret(ref.name, *required)
    return await scope.secret(ref.name)


async def observe(scope: Scope[Any]) -> None:
    """Sets the facts of Keystone, Memcached, the service user and the message bus, and the name of the service."""
    spec: Process = scope.spec
    facts = scope.facts
    facts["identity.url"] = spec.auth_url
    facts["identity.public_url"] = spec.public_auth_url or spec.auth_url
    facts["cache.servers"] = spec.memcached_servers
    # All pods of a process share one service record: pods come and go, and each would leave a dead one behind.
    facts["host"] = scope.name
    user = await read(scope, spec.service_user_secret_ref, "user", "password")
    facts["service_user.user"], facts["service_user.password"] = user["user"], user["password"]
    bus = await read(scope, spec.messaging_secret_ref, "user", "password", "hostname")
    facts["messaging.url"] = messaging.url({"vhost": bus["user"], **bus})


async def observe_database(scope: Scope[Any], ref: Ref, fact: str) -> None:
    """Sets ``<fact>.url`` from a database Secret."""
    values = await read(scope, ref, "user", "password", "hostname")
    scope.facts[f"{fact}.url"] = database.url({"database": values["user"], **values})


async def observe_shared_secret(scope: Scope[Any], ref: Ref) -> None:
    """Sets ``metadata.secret``. Neutron makes that Secret, so a missing one is waited for."""
    try:
        scope.facts["metadata.secret"] = (await read(scope, ref, "secret"))["secret"]
    except errors.Stalled as problem:
        if problem.reason == conditions.REASON_SECRET_MISSING:
            raise errors.Waiting(problem.reason, problem.message) from None
        raise
