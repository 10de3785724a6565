"""What a volume claim waits for, in one line; and whose claim it is. Pure functions of what caches hold.

Whether a storage class exists before a claim is made is asked in ``storage``. Called by ``pods`` and ``storage``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from openstack_operator.runtime import events
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.informer import Key
from openstack_operator.runtime.kinds import Resource

# Set by the scheduler when it has chosen a node, for classes that wait for that.
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def problem(claim: Object, classes: Sequence[Object], warnings: Sequence[Object] = ()) -> str:
    """What keeps a claim from its volume; empty when it has one, or waits for its pod's node as its class wants it.

    ``classes`` are the cluster's storage classes, ``warnings`` the (trimmed) Events of the claim's namespace.
    """
    metadata, spec = claim["metadata"], claim["spec"]
    where = f"PersistentVolumeClaim {metadata['namespace']}/{metadata['name']}"
    phase = claim.get("status", {}).get("phase", "Pending")
    if phase == "Bound":
        return ""
    if phase == "Lost":
        return f"{where}: its volume {spec.get('volumeName', '')} is gone"
    told = events.newest(warnings, metadata["uid"], events.PROVISIONING_FAILED)
    if told is not None:
        return f"{where}: {told['message']}"
    name = spec.get("storageClassName") or ""
    if not name:
        return f"{where}: it names no storage class, and no volume without one fits"
    wanted = next((one for one in classes if one["metadata"]["name"] == name), None)
    if wanted is None:
        return f"{where}: no StorageClass {name} exists"
    waits = wanted.get("volumeBindingMode") == "WaitForFirstConsumer"
    if waits and SELECTED_NODE not in metadata.get("annotations", {}):
        return ""
    return f"{where}: waits for a volume from {wanted.get('provisioner', '')} (StorageClass {name})"


def owner(resource: Resource, claim: Object | None, manager: Any) -> Iterable[Key]:
    """The object of a kind that a StatefulSet's claim belongs to; Kubernetes makes claims without an owner."""
    if claim is None:
        return
    metadata = claim["metadata"]
    key = metadata["namespace"], metadata.get("labels", {}).get("app.kubernetes.io/instance", "")
    if manager.cached(resource, *key) is not None:
        yield key
