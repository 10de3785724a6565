"""The serving side of ``requests``: what MariaDB and RabbitMQ do with the entries that services put into their spec.

Each entry names a thing (schema, virtual host) and a Secret with user and password. What stands in the server is kept
in status under the same field, with a hash of the credentials it knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from openstack_operator.kit import credentials, labels, pods, verified
from openstack_operator.kit.types import Ref
from openstack_operator.runtime import controller, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope, Watch
from openstack_operator.runtime.informer import Key
from openstack_operator.runtime.kinds import Resource

Logins = Mapping[str, tuple[str, str]]
"""User and password by name of the thing."""


class Request(Protocol):
    """An entry of the spec."""

    @property
    def name(self) -> str: ...
    @property
    def secret_ref(self) -> Ref: ...


async def settle(
    scope: Scope[Any],
    field: str,
    requests: Sequence[Request],
    selector: dict[str, str],
    act: Callable[[Logins, Logins], Awaitable[None]],
) -> None:
    """Calls ``act`` with what must be granted and what must be dropped, if anything, and sets ``status.<field>``.

    ``selector`` selects the server's pods: another container may hold other data, so everything is granted anew. So it
    is when a pod of somebody else has stopped serving: what it has lost may be what was granted to it.
    Raises ``errors.Stalled`` for requests whose Secret is unusable, after all others were dealt with.
    """
    wanted: dict[str, tuple[str, str, str]] = {}
    problems = []
    for request in requests:
        try:
            user, password = await _login(scope, request.secret_ref.name)
        except errors.Stalled as problem:
            problems.append(f"{field} {request.name}: {problem.message}")
            continue
        known = credentials.fingerprint({"data": credentials.encode({"user": user, "password": password})})
        wanted[request.name] = (user, password, known)
    granted = {entry["name"]: entry for entry in scope.object.get("status", {}).get(field, [])}
    asked = {request.name for request in requests}
    gone = {name: (entry["user"], "") for name, entry in granted.items() if name not in asked}
    server = ".".join(pods.container_ids(pods.selected(scope, selector)))
    missing = "" if verified.is_assumed(scope) else _missing(scope)
    if not missing:
        verified.forget(scope, f"{field} missed")
    is_missed = bool(missing) and not verified.is_current(scope, f"{field} missed", missing)
    due = {
        name: (user, password)
        for name, (user, password, known) in wanted.items()
        if name not in granted or is_missed or not verified.is_current(scope, f"{field} {name}", f"{server}.{known}")
    }
    if (gone or due) and not verified.is_assumed(scope):
        await act(due, gone)
        if missing:
            verified.note(scope, f"{field} missed", missing)
    for name in due:
        user, _, known = wanted[name]
        verified.note(scope, f"{field} {name}", f"{server}.{known}")
        granted[name] = {"name": name, "user": user, "secretHash": known}
    scope.status[field] = [granted[name] for name in sorted(granted) if name not in gone]
    if problems:
        raise errors.Stalled("SecretInvalid", "; ".join(problems))


async def _login(scope: Scope[Any], secret: str) -> tuple[str, str]:
    item = scope.get(built_in.SECRET, secret)
    if item is not None:
        values = controller.secret_values(item, "user", "password")
    else:
        values = await scope.secret(secret, "user", "password")
    return values["user"], values["password"]


def _missing(scope: Scope[Any]) -> str:
    """Names of the pods that have stopped serving, the server's own left out."""
    found = (pod["metadata"] for pod in scope.items(built_in.POD) if pods.has_stopped_serving(pod))
    return ",".join(sorted(one["name"] for one in found if one.get("labels", {}).get(labels.OWNER_KIND) != scope.kind))


def watches(resource: Resource, field: str) -> tuple[Watch, Watch]:
    """What wakes an object with entries: a Secret that an entry names, and a pod that has stopped serving."""
    return _watch_secrets(resource, field), _watch_users(resource)


def _watch_users(resource: Resource) -> Watch:
    def keys(pod: Object, manager: Any) -> Iterable[Key]:
        metadata = pod["metadata"]
        if labels.OWNER_KIND not in metadata.get("labels", {}) or not pods.has_stopped_serving(pod):
            return
        for item in manager.informer(resource).items(metadata["namespace"]):
            yield metadata["namespace"], item["metadata"]["name"]

    return Watch(built_in.POD, keys, pods.has_stopped_serving)


def _watch_secrets(resource: Resource, field: str) -> Watch:
    def keys(secret: Object, manager: Any) -> Iterable[Key]:
        metadata = secret["metadata"]
        for item in manager.informer(resource).items(metadata["namespace"]):
            if any(entry["secretRef"]["name"] == metadata["name"] for entry in item["spec"].get(field, [])):
                yield metadata["namespace"], item["metadata"]["name"]

    return Watch(built_in.SECRET, keys)
