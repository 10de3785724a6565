"""A cluster with the real controllers of Kubernetes, and a namespace in it for each test."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import controlplane
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import identity, storage
from openstack_operator.runtime import client, errors, kinds, logs

sys.path.insert(0, str(Path(__file__).parent))

import kubelet  # the path is set above
from world import World


@pytest.fixture(scope="session", autouse=True)
def logging_configured() -> None:
    logs.configure("info")


# A default one, and those that tests name. Nothing provisions volumes here: pods are never scheduled.
STORAGE_CLASSES = [
    {
        "apiVersion": kinds.STORAGECLASS.api_version,
        "kind": kinds.STORAGECLASS.kind,
        "metadata": {"name": name, "annotations": {storage.DEFAULT: "true"} if name == "standard" else {}},
        "provisioner": "example.com/none",
    }
    for name in ("standard", "fast", "slow")
]


@pytest.fixture(scope="session")
def cluster(kubernetes_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd, kube-apiserver and kube-controller-manager with our CRDs: workloads make pods, owners' children go."""
    directory = tmp_path_factory.mktemp("cluster")
    with ControlPlane(kubernetes_programs, directory, controller_manager=True) as running:
        crds = [kinds.crd(kind) for service in controlplane.EVERYTHING for kind in service.kinds]
        running.apply(*crds, *STORAGE_CLASSES)
        names = [f"crd/{crd['metadata']['name']}" for crd in crds]
        running.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
        # The garbage collector looks for new kinds twice a minute; one that starts now knows them at once.
        running.restart("kube-controller-manager")
        yield running


@pytest.fixture
async def world(cluster: ControlPlane) -> AsyncIterator[World]:
    """A fresh namespace; its objects end with the cluster."""
    namespace = f"cloud-{uuid.uuid4().hex[:8]}"
    async with client.Client(client.Config.from_kubeconfig(cluster.kubeconfig), "user") as api:
        await api.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})
        # Pods need it, and Kubernetes makes it a moment after the namespace.
        node = kubelet.Kubelet(api, namespace)
        world = World(cluster, namespace, api, node)
        await world.until(kinds.SERVICEACCOUNT, lambda item: item is not None, "default")
        task = asyncio.ensure_future(node.run())
        try:
            yield world
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    # TLS connections that were cut while they opened end a moment later, and want the loop for it.
    await asyncio.sleep(0.2)


@pytest.fixture(autouse=True)
def cluster_dns(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Stands in for the cluster's DNS: Service names resolve to the addresses that a test puts here, and to nothing
    else, so that no question about them leaves the machine."""
    known: dict[str, str] = {}
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if isinstance(name, str) and name.endswith(".svc"):
            if name not in known:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            host = known[name]
        return resolve(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The Keystones that know Nova's user, by name. What is said to a real one is seen in test_servers.py."""
    known = {"keystone"}

    async def register(scope: Any, keystone: str, *_: Any) -> None:
        if keystone not in known:
            raise errors.Waiting("KeystoneNotReady", f"Keystone {scope.namespace}/{keystone} is not Ready")

    monkeypatch.setattr(identity, "register", register)
    return known
