"""Watches that controllers share: of objects that a spec names, and of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openstack_operator.runtime import conditions, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Watch
from openstack_operator.runtime.informer import Key, key_of
from openstack_operator.runtime.kinds import Resource


def referenced(target: Resource, source: Resource, field: str) -> Watch:
    """Objects of ``source`` whose ``spec.<field>.name`` is a changed ``target`` in the same namespace."""

    def keys(item: Object, manager: Any) -> Iterable[Key]:
        metadata = item["metadata"]
        for asker in manager.informer(source).items(metadata["namespace"]):
            if asker["spec"].get(field, {}).get("name") == metadata["name"]:
                yield metadata["namespace"], asker["metadata"]["name"]

    return Watch(target, keys)


def every(target: Resource, source: Resource) -> Watch:
    """All objects of ``source`` in the namespace of a changed ``target``: where references are anywhere in the spec, or
    are there no longer while something is still to be done."""

    def keys(item: Object, manager: Any) -> Iterable[Key]:
        namespace = item["metadata"]["namespace"]
        for asker in manager.informer(source).items(namespace):
            yield namespace, asker["metadata"]["name"]

    return Watch(target, keys)


def nodes(source: Resource) -> Watch:
    """All objects of ``source``, wherever they are, when a node comes, goes, turns Ready or not, or has other labels
    or addresses. Heartbeats wake nobody."""

    def keys(_: Object, manager: Any) -> Iterable[Key]:
        return map(key_of, manager.informer(source).items())

    return Watch(kinds.NODE, keys, _shape_of_node)


def _shape_of_node(node: Object) -> Any:
    status = node.get("status", {})
    return node["metadata"].get("labels"), conditions.is_true(node, conditions.READY), status.get("addresses")
