"""Volumes: the claims of StatefulSets and of Deployments, and whether the storage class that they need exists.

That is asked before the first claim is made, because claims cannot be changed afterwards, and one without its class
waits for ever. What a claim waits for is in ``volumes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from openstack_operator.kit import volumes
from openstack_operator.kit.types import Storage
from openstack_operator.runtime import apply, errors, kinds
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


async def replace_claims(scope: Scope[Any], volume: Storage, wanted: Object, present: Object | None) -> None:
    """Takes away a StatefulSet with its claims where another class is wanted now and none of them has a volume: nothing
    is in them, and Kubernetes lets nobody change what they ask for.

    ``present`` is the StatefulSet that there is, or None. Raises ``errors.Waiting`` until they are gone, and
    ``errors.Stalled`` as ``check``.
    """
    for template in wanted["spec"].get("volumeClaimTemplates", []):
        claims = _claims(scope, _prefix(wanted, template)).values()
        if not claims or any(claim["spec"].get("volumeName") for claim in claims):
            continue
        name = template["spec"].get("storageClassName")
        # Of a StatefulSet that is gone already, by a pass that did not come to its claims, they tell what was asked.
        left = [one for one in claims if "deletionTimestamp" in one["metadata"] or _is_of_another(scope, one, name)]
        if present is not None:
            if name == _class(present, template["metadata"]["name"]):
                continue
            check(scope, volume)
            left = list(claims)
            await scope.delete(kinds.STATEFULSET, present["metadata"]["name"])
        if left:
            names = ", ".join(sorted(f"{scope.namespace}/{one['metadata']['name']}" for one in left))
            for claim in left:
                await scope.delete(kinds.PVC, claim["metadata"]["name"])
            raise errors.Waiting(
                "ClaimsReplaced", f"PersistentVolumeClaim {names}: has no volume, and is made again of another class"
            )


def _prefix(stateful_set: Object, template: Object) -> str:
    return f"{template['metadata']['name']}-{stateful_set['metadata']['name']}-"


def _claims(scope: Scope[Any], prefix: str) -> dict[str, Object]:
    """The claims of a template of a StatefulSet, by name."""
    return {
        name: claim
        for claim in scope.items(kinds.PVC)
        if (name := claim["metadata"]["name"]).startswith(prefix) and name.removeprefix(prefix).isdigit()
    }


def is_retained(scope: Scope[Any], stateful_set: str, template: str = "data") -> bool:
    """Whether a volume of a StatefulSet is kept when the object goes that asked for it. The claims say so also when the
    object and the StatefulSet are gone."""
    claims = _claims(scope, f"{template}-{stateful_set}-").values()
    return any(apply.controller_uid(one) is None and "deletionTimestamp" not in one["metadata"] for one in claims)


def _class(stateful_set: Object, name: str) -> str | None:
    """The class that a template of a StatefulSet names."""
    templates = stateful_set["spec"].get("volumeClaimTemplates", [])
    found = next((one for one in templates if one["metadata"]["name"] == name), None)
    return found["spec"].get("storageClassName") if found else None


def _is_of_another(scope: Scope[Any], claim: Object, name: str | None) -> bool:
    """Whether a claim of ours asks for another class than the named one."""
    return (
        name is not None and claim["spec"].get("storageClassName") != name and apply.controller_uid(claim) == scope.uid
    )


def watch(resource: Resource) -> Watch:
    """A class that comes or goes wakes every object of a kind."""

    def keys(_: Object, manager: Any) -> Iterable[Key]:
        for item in manager.informer(resource).items():
            yield item["metadata"]["namespace"], item["metadata"]["name"]

    return Watch(kinds.STORAGECLASS, keys)


def watch_claims(resource: Resource) -> Watch:
    """A claim of a StatefulSet wakes the object that the StatefulSet belongs to."""
    return Watch(kinds.PVC, lambda claim, manager: volumes.owner(resource, claim, manager))


def claim(storage: Storage) -> dict[str, Any]:
    """The spec of a claim."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.storage_size}},
        # The server's default, which it writes into the template of a StatefulSet: the claim made from it is the same
        # before and after, and is not written again while the scheduler binds it.
        "volumeMode": "Filesystem",
    }
    if storage.storage_class:
        spec["storageClassName"] = storage.storage_class
    return spec


async def ensure_claims(scope: Scope[Any], stateful_set: Object, storage: Storage) -> None:
    """Makes the claims of a StatefulSet, which go with the object that asked for them, or outlive it.

    The StatefulSet would make them itself, without the owner; to write it into a claim that is new collides with the
    scheduler, which then looks at the pod again seconds later.
    """
    spec = stateful_set["spec"]
    for template in spec.get("volumeClaimTemplates", []):
        prefix = _prefix(stateful_set, template)
        present = _claims(scope, prefix)
        for name in sorted({f"{prefix}{ordinal}" for ordinal in range(spec["replicas"])} | set(present)):
            await _apply(scope, name, template["metadata"]["labels"], template["spec"], storage)


async def ensure_claim(scope: Scope[Any], name: str, tags: Mapping[str, str], storage: Storage) -> None:
    """Makes a claim that all pods of a Deployment share. Raises ``errors.Stalled`` when a new one needs a storage class
    that does not exist."""
    if scope.get(kinds.PVC, name) is None:
        check(scope, storage)
    await _apply(scope, name, tags, claim(storage), storage)


async def _apply(
    scope: Scope[Any], name: str, tags: Mapping[str, str], spec: Mapping[str, Any], storage: Storage
) -> None:
    present = scope.get(kinds.PVC, name) or await _foreign(scope, name)
    # Nobody can change what a claim that exists asks for.
    asked = {key: value for key, value in present["spec"].items() if key in spec} if present else dict(spec)
    body = {"metadata": {"name": name, "labels": dict(tags)}, "spec": asked}
    await scope.apply(kinds.PVC, body, owned=storage.storage_retention == "Delete")


async def _foreign(scope: Scope[Any], name: str) -> Object | None:
    """A claim that is not in the cache, because somebody else made it: without our labels."""
    try:
        return await scope.client.get(kinds.PVC, name, scope.namespace)
    except errors.ApiError as problem:
        if problem.status != 404:
            raise
    return None
