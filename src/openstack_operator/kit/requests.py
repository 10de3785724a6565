"""Asking another object for something: an entry in a list of its spec that belongs to the asker.

MariaDB's ``spec.databases`` and RabbitMQ's ``spec.vhosts`` are lists keyed by name. Each asker owns its entries through
server-side apply with a field manager of its own, so neither the control plane nor other services touch them; taking an
entry out makes the server's controller drop what it stands for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any

from openstack_operator.kit import credentials
from openstack_operator.runtime import apply, conditions, errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.kinds import Resource


def _manager(scope: Scope[Any], field: str, name: str) -> str:
    return f"{scope.kind}.{scope.name}.{field}.{name}"[:128]


def server(scope: Scope[Any], resource: Resource, name: str) -> Object:
    """The object asked. Raises ``errors.Waiting`` while there is none."""
    item = scope.get(resource, name)
    if item is None or "deletionTimestamp" in item["metadata"]:
        raise errors.Waiting("NotFound", f"{resource.kind} {scope.namespace}/{name} does not exist", on=resource.kind)
    return item


async def ask(scope: Scope[Any], resource: Resource, server_name: str, field: str, entry: dict[str, Any]) -> None:
    """Puts ``entry`` into ``spec.<field>`` of the server object and waits until its status grants it.

    ``entry`` has ``name`` and ``secretRef``; granted means that the server knows the credentials in that Secret.
    """
    item = server(scope, resource, server_name)
    name = entry["name"]
    listed = [other for other in item["spec"].get(field, []) if other["name"] == name]
    if listed != [entry]:
        # Two askers of one name would fight over the entry for ever.
        if listed and (owner := _other_owner(scope, listed[0])):
            raise errors.Stalled(
                conditions.REASON_NAME_IN_USE,
                f"{resource.kind} {server_name}: spec.{field} {name!r} belongs to {owner}: rename one of the two",
            )
        written = await scope.client.apply(
            resource,
            {
                "metadata": {"name": server_name, "namespace": scope.namespace, "uid": item["metadata"]["uid"]},
                "spec": {field: [entry]},
            },
            manager=_manager(scope, field, name),
        )
        scope.manager.informer(resource).observe(written)
    secret = scope.get(kinds.SECRET, entry["secretRef"]["name"])
    wanted = credentials.fingerprint(secret) if secret is not None else ""
    granted = [other for other in item.get("status", {}).get(field, []) if other["name"] == name]
    if not granted or granted[0].get("secretHash") != wanted:
        raise errors.Waiting(
            "NotGranted",
            f"{resource.kind} {scope.namespace}/{server_name} has not set up {field} {name} yet{_why(item)}",
            on=resource.kind,
        )


def _why(item: Object) -> str:
    """What the server itself waits for, for the end of a message."""
    problem = conditions.find(item, conditions.READY)
    return f" ({problem['message']})" if problem and problem["status"] != "True" and problem["message"] else ""


def _other_owner(scope: Scope[Any], entry: dict[str, Any]) -> str:
    """Who put an entry into the list, if it was somebody else: the owner of the Secret in it. The cache drops
    managedFields, and a name alone tells nothing: `nova2-db` begins like a Secret of `nova`."""
    name = entry.get("secretRef", {}).get("name", "")
    secret = scope.get(kinds.SECRET, name)
    if secret is None:
        return f"whoever made Secret {name}"
    if apply.controller_uid(secret) == scope.uid:
        return ""
    owners = secret["metadata"].get("ownerReferences", [])
    return next((f"{one['kind']} {one['name']}" for one in owners if one.get("controller")), f"the owner of {name}")


async def withdraw(scope: Scope[Any], resource: Resource, server_name: str, field: str, name: str) -> None:
    """Takes an entry out and waits until the server has dropped what it stood for.

    A server that is gone, or going, takes everything with it.
    """
    item = scope.get(resource, server_name)
    if item is None or "deletionTimestamp" in item["metadata"]:
        return
    if any(other["name"] == name for other in item["spec"].get(field, [])):
        written = await scope.client.apply(
            resource,
            {"metadata": {"name": server_name, "namespace": scope.namespace, "uid": item["metadata"]["uid"]}},
            manager=_manager(scope, field, name),
        )
        scope.manager.informer(resource).observe(written)
        item = written
    if any(other["name"] == name for other in item.get("status", {}).get(field, [])):
        where = f"{resource.kind} {scope.namespace}/{server_name}"
        message = f"{where} has not dropped {field} {name} yet{_why(item)}"
        raise errors.Waiting("NotDropped", message, on=resource.kind)


async def each(asked: Iterable[Awaitable[Any]]) -> None:
    """Awaits each, so that one that waits, or is refused, holds up no other; raises the first problem."""
    problems: list[errors.OperatorError] = []
    for one in asked:
        try:
            await one
        except errors.OperatorError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
