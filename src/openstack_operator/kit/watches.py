"""Watches that follow references: a change of the object named by ``spec.<field>`` wakes the one that names it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Watch
from openstack_operator.runtime.informer import Key
from openstack_operator.runtime.kinds import Resource


def referenced(target: Resource, source: Resource, field: str) -> Watch:
    """Objects of ``source`` whose ``spec.<field>.name`` is a changed ``target`` in the same namespace."""

    def keys(item: Object, manager: Any) -> Iterable[Key]:
        metadata = item["metadata"]
        for asker in manager.informer(source).items(metadata["namespace"]):
            if asker["spec"].get(field, {}).get("name") == metadata["name"]:
                yield metadata["namespace"], asker["metadata"]["name"]

    return Watch(target, keys)
