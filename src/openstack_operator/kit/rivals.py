"""Objects of one kind that want the same node, in whatever namespace: what each of them runs there bears no second one.

Of two that want a node the older one has it, and the younger one names it in its status and leaves its own nodes alone
until the labels say otherwise. A controller calls ``check`` in a step of its own, the condition ``NodesReady``, which
the steps that put something on nodes need, and has ``watch`` among its watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from openstack_operator.runtime import conditions, errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope, Watch
from openstack_operator.runtime.informer import Key, key_of
from openstack_operator.runtime.kinds import Resource

CONDITION = "NodesReady"

Field = Callable[[Mapping[str, Any], Mapping[str, str]], str]
"""The field of a spec, as the cluster has it, that takes a node with these labels; empty where none does."""


def check(scope: Scope[Any], resource: Resource, field: Field) -> None:
    """Raises ``errors.Stalled`` when an older object of the kind has a node that this one wants."""
    nodes = [node["metadata"] for node in scope.manager.informer(kinds.NODE).items()]
    # Few of a cluster's nodes, so that a pass does not cost nodes times objects.
    wanted = [(found, node) for node in nodes if (found := field(scope.object["spec"], node.get("labels") or {}))]
    mine = _age(scope.object)
    for other in scope.manager.informer(resource).items():
        if not wanted or _age(other) >= mine:
            continue
        for found, node in wanted:
            if field(other["spec"], node.get("labels") or {}):
                head = other["metadata"]
                raise errors.Stalled(
                    "NodeInUse",
                    f"{found}: node {node['name']} serves {resource.kind} {head['namespace']}/{head['name']}; "
                    "choose other labels",
                )


def watch(resource: Resource) -> Watch:
    """A change of one wakes those that wait for a node; where the labels that it asks for may be new, also all that are
    younger."""

    def keys(item: Object, manager: Any) -> Iterable[Key]:
        is_new = item.get("status", {}).get("observedGeneration") != item["metadata"]["generation"]
        age = _age(item)
        for one in manager.informer(resource).items():
            if one["metadata"]["uid"] == item["metadata"]["uid"]:
                continue
            if (is_new and _age(one) > age) or not conditions.is_true(one, CONDITION):
                yield key_of(one)

    return Watch(resource, keys)


def _age(item: Object) -> tuple[str, str]:
    """Orders objects from the oldest on."""
    return item["metadata"]["creationTimestamp"], item["metadata"]["uid"]
