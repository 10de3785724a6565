"""Objects of the family below another one: made by it, and their state mirrored upward."""

from __future__ import annotations

import hashlib
from typing import Any

from openstack_operator.kit import labels, names
from openstack_operator.runtime import conditions, errors
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.kinds import Resource

SERVICE = "nova"


def name(instance: str, part: str) -> str:
    """Name of a child, short enough for the names derived from it.

    A part with a dash gets a hash: cell `cell1-0` with computes `x` must not meet cell `cell1` with computes `0-x`.
    """
    if "-" not in part:
        return names.join(instance, part, longest=names.INSTANCE_LENGTH)
    digest = hashlib.sha256(f"{instance}/{part}".encode()).hexdigest()[:8]
    return f"{f'{instance}-{part}'[: names.INSTANCE_LENGTH - len(digest) - 1].rstrip('-')}-{digest}"


async def ensure(scope: Scope[Any], resource: Resource, child: str, component: str, spec: dict[str, Any]) -> Object:
    """The child with this spec."""
    tags = labels.common(SERVICE, scope.name, component)
    return await scope.apply(resource, {"metadata": {"name": child, "labels": tags}, "spec": spec})


def require_ready(scope: Scope[Any], resource: Resource, item: Object) -> None:
    """Raises with the child's name and what it says of itself until it is Ready for its present spec."""
    if conditions.is_ready(item):
        return
    where = f"{resource.kind} {scope.namespace}/{item['metadata']['name']}"
    ready = conditions.find(item, conditions.READY)
    if ready is None or ready["status"] == "True":
        # No status yet, or one of an older spec.
        raise errors.Waiting("Starting", f"{where} has not been looked at yet", on=resource.kind)
    message = f"{where}: {ready['message']}"
    if conditions.is_true(item, conditions.STALLED):
        raise errors.Stalled(ready["reason"], message)
    raise errors.Waiting(ready["reason"], message, on=resource.kind)
