"""Dynamic volumes of the embedded cluster: a directory on the node for each claim, as a volume of type ``local``.

Runs as a daemon on the machine (``node`` starts it):
``python -m openstack_operator.embedded.provisioner KUBECONFIG DIRECTORY NODE``. The controller manager's own hostPath
provisioner cannot serve pods that are not root: the kubelet sets a pod's group (fsGroup) on ``local`` volumes and never
on hostPath ones.

    claim waits --> directory made, volume created --> bound (by Kubernetes)
    claim deleted, volume Released --> directory removed, volume deleted
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from pathlib import Path

from openstack_operator.runtime import client, errors, kinds, logs
from openstack_operator.runtime.client import Client, Object
from openstack_operator.runtime.informer import Informer
from openstack_operator.runtime.kinds import Resource

PROVISIONER = "openstack-operator.embedded/local"
VOLUME = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"

log = logs.get("provisioner")


def is_wanted(claim: Object, node: str) -> bool:
    """Whether a claim waits for a volume of ours, on this node or anywhere."""
    annotations = claim["metadata"].get("annotations", {})
    return (
        annotations.get(STORAGE_PROVISIONER) == PROVISIONER
        # Where the class waits for the first consumer, the scheduler has chosen.
        and annotations.get(SELECTED_NODE, node) == node
        and not claim["spec"].get("volumeName")
        and "deletionTimestamp" not in claim["metadata"]
    )


def is_released(volume: Object, node: str) -> bool:
    """Whether a volume of ours on this node has lost its claim and is to be deleted with its data."""
    return (
        volume["metadata"].get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
        and volume.get("status", {}).get("phase") == "Released"
        and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        and _node(volume) == node
        and "deletionTimestamp" not in volume["metadata"]
    )


def _node(volume: Object) -> str:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    name: str = terms[0]["matchExpressions"][0]["values"][0]
    return name


def volume_of(claim: Object, directory: Path, node: str) -> Object:
    """The volume of a claim: its directory is named after the volume."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": str(directory / name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.get("storageClassName"),
            "volumeMode": "Filesystem",
        },
    }


class Provisioner:
    """Serves the claims of one node."""

    def __init__(self, api: Client, directory: Path, node: str) -> None:
        self._api, self._directory, self._node = api, directory, node
        self._claims = Informer(api, kinds.PVC, None)
        self._volumes = Informer(api, VOLUME, None)
        self._changed = asyncio.Event()
        for cache in (self._claims, self._volumes):
            cache.subscribe(lambda new, old: self._changed.set())

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for cache in (self._claims, self._volumes):
                tasks.create_task(cache.run())
            await self._claims.synced.wait()
            await self._volumes.synced.wait()
            while True:
                self._changed.clear()
                try:
                    await self._settle()
                except (errors.ApiError, errors.ApiUnreachableError, OSError) as problem:
                    log.warning("not settled, tried again", problem=str(problem))
                    # The API server may be away: caches recover by themselves, what was due is tried again.
                    await asyncio.sleep(1)
                    continue
                await self._changed.wait()

    async def _settle(self) -> None:
        for claim in list(self._claims.items()):
            if is_wanted(claim, self._node) and self._volumes.get(None, f"pvc-{claim['metadata']['uid']}") is None:
                await self._provide(claim)
        for volume in list(self._volumes.items()):
            if is_released(volume, self._node):
                await self._remove(volume)

    async def _provide(self, claim: Object) -> None:
        volume = volume_of(claim, self._directory, self._node)
        await asyncio.to_thread(make_directory, Path(volume["spec"]["local"]["path"]))
        self._volumes.observe(await self._api.create(VOLUME, volume))
        log.info("volume made", volume=volume["metadata"]["name"], claim=claim["metadata"]["name"])

    async def _remove(self, volume: Object) -> None:
        path = Path(volume["spec"]["local"]["path"])
        # Never anything but a directory of ours, whatever the object says.
        if path.parent == self._directory:
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        await self._api.delete(VOLUME, volume["metadata"]["name"])
        log.info("volume removed", volume=volume["metadata"]["name"])


def make_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    # Pods without a group of their own (a database image that runs as root once) write as well.
    path.chmod(0o777)


async def serve(kubeconfig: Path, directory: Path, node: str) -> None:
    """Runs until SIGTERM."""
    config = client.Config.load(str(kubeconfig))
    async with client.Client(config, "openstack-operator-provisioner") as api:
        work = asyncio.ensure_future(Provisioner(api, directory, node).run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            log.info("stopped")


if __name__ == "__main__":
    logs.configure("info", "json")
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
