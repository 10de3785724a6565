"""Storage classes: does the one that a volume needs exist? And the claims of StatefulSets.

Asked before a StatefulSet is made, because its claims cannot be changed afterwards and a claim without its class waits
for ever. What a claim waits for is in ``volumes``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openstack_operator.kit import volumes
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


async def ensure_claims(scope: Scope[Any], stateful_set: Object, *, is_owned: bool) -> None:
    """Makes the claims of a StatefulSet, which go with the object that asked for them, or outlive it.

    The StatefulSet would make them itself, without the owner; to write it into a claim that is new collides with the
    scheduler, which then looks at the pod again seconds later.
    """
    spec = stateful_set["spec"]
    for template in spec.get("volumeClaimTemplates", []):
        prefix = f"{template['metadata']['name']}-{stateful_set['metadata']['name']}-"
        present = {
            name: claim
            for claim in scope.items(kinds.PVC)
            if (name := claim["metadata"]["name"]).startswith(prefix) and name.removeprefix(prefix).isdigit()
        }
        for name in sorted({f"{prefix}{ordinal}" for ordinal in range(spec["replicas"])} | set(present)):
            claim = present.get(name) or await _foreign_claim(scope, name)
            # Nobody can change what a claim that exists asks for.
            asked = (
                {key: value for key, value in claim["spec"].items() if key in template["spec"]}
                if claim
                else template["spec"]
            )
            body = {"metadata": {"name": name, "labels": template["metadata"]["labels"]}, "spec": asked}
            await scope.apply(kinds.PVC, body, owned=is_owned)


async def _foreign_claim(scope: Scope[Any], name: str) -> Object | None:
    """A claim that is not in the cache, because somebody else made it: without our labels."""
    try:
        return await scope.client.get(kinds.PVC, name, scope.namespace)
    except errors.ApiError as problem:
        if problem.status != 404:
            raise
    return None


def watch(resource: Resource) -> Watch:
    """A class that comes or goes wakes every object of a kind."""

    def keys(_: Object, manager: Any) -> Iterable[Key]:
        for item in manager.informer(resource).items():
            yield item["metadata"]["namespace"], item["metadata"]["name"]

    return Watch(kinds.STORAGECLASS, keys)


def watch_claims(resource: Resource) -> Watch:
    """A claim of a StatefulSet wakes the object that the StatefulSet belongs to."""
    return Watch(kinds.PVC, lambda claim, manager: volumes.owner(resource, claim, manager))
