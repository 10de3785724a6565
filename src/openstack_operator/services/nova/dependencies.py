"""What parts of Nova wait for before they start, since they would end, or wait for minutes, otherwise."""

from __future__ import annotations

from typing import Any

from openstack_operator.kit import kinds
from openstack_operator.kit.types import Ref
from openstack_operator.runtime import conditions, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.kinds import Resource

REGISTERED = "CatalogReady"
"""Condition of a Nova: the service user can log in."""


async def observe_registration(scope: Scope[Any]) -> None:
    """The service user can log in, before the first pods start."""
    require_registered(scope, scope.spec.nova_ref, built_in.DEPLOYMENT)


def require_registered(scope: Scope[Any], ref: Ref | None, *workloads: Resource) -> None:
    """Raises ``errors.Waiting`` until the Nova is registered, but for a part that has one of the ``workloads`` of its
    own name: Nova was registered before that, and stays so. That it has to look again, while a cell is added, is no
    business of those that run."""
    if ref is not None and not any(scope.get(one, scope.name) for one in workloads):
        require(scope, kinds.NOVA, ref, REGISTERED)


def require(scope: Scope[Any], resource: Resource, ref: Ref, condition: str) -> None:
    """Raises ``errors.Waiting`` with what the object says of itself until a condition of it is True."""
    found = conditions.find(scope.get(resource, ref.name), condition)
    if found is None or found["status"] != "True":
        why = found["message"] if found else "no status yet"
        message = f"{resource.kind} {scope.namespace}/{ref.name} is not {condition}: {why}"
        raise errors.Waiting("DependencyNotReady", message, on=resource.kind)
