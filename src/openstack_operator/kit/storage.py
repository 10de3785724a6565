"""Storage classes: does the one that a volume needs exist?

Asked before a StatefulSet is made, because its claims cannot be changed afterwards and a claim without its class waits
for ever without saying why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openstack_operator.kit.types import Storage
from openstack_operator.runtime import errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope, Watch
from openstack_operator.runtime.informer import Key
from openstack_operator.runtime.kinds import Resource

DEFAULT = "storageclass.kubernetes.io/is-default-class"


def check(scope: Scope[Any], storage: Storage, field: str = "spec.storageClass") -> None:
    """Raises ``errors.Stalled`` that names the classes there are, when the wanted one or a default one is missing."""
    classes = list(scope.manager.informer(kinds.STORAGECLASS).items())
    names = sorted(str(item["metadata"]["name"]) for item in classes)
    there = f"there are: {', '.join(names)}" if names else "there are none"
    if storage.storage_class is not None:
        if storage.storage_class not in names:
            raise errors.Stalled("StorageClassMissing", f"{field}: no StorageClass {storage.storage_class}; {there}")
        return
    if not any(item["metadata"].get("annotations", {}).get(DEFAULT) == "true" for item in classes):
        raise errors.Stalled(
            "StorageClassMissing", f"{field} is not set and the cluster has no default StorageClass; {there}"
        )


def watch(resource: Resource) -> Watch:
    """A class that comes or goes wakes every object of a kind."""

    def keys(_: Object, manager: Any) -> Iterable[Key]:
        for item in manager.informer(resource).items():
            yield item["metadata"]["namespace"], item["metadata"]["name"]

    return Watch(kinds.STORAGECLASS, keys)


def watch_claims(resource: Resource) -> Watch:
    """A claim of a StatefulSet wakes the object that the StatefulSet belongs to; Kubernetes makes claims without an
    owner."""

    def keys(claim: Object, manager: Any) -> Iterable[Key]:
        metadata = claim["metadata"]
        key = metadata["namespace"], metadata.get("labels", {}).get("app.kubernetes.io/instance", "")
        if manager.informer(resource).get(*key) is not None:
            yield key

    return Watch(kinds.PVC, keys)
