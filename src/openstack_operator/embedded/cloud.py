"""From a cluster to a cloud: the operator installed, a control plane applied, its login written, a first VM started.

Called by ``up`` stage by stage, for the embedded cluster and for one that the user brought alike. Every function may be
called again on what an earlier call left.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from openstack_operator.embedded import addresses
from openstack_operator.kit import kinds as ours
from openstack_operator.kit import labels, names
from openstack_operator.runtime import client, conditions, informer, kinds, lease
from openstack_operator.services import SERVICES

Log = Callable[[str], None]

SYSTEM_NAMESPACE = "openstack-operator-system"
DEPLOY_SECONDS = 1800
CATCH_UP_SECONDS = 60


class CloudError(Exception):
    """The cloud did not come up; the message says what everything waits for."""


@dataclass(frozen=True)
class Cloud:
    """One cloud on one cluster, and where its files are kept on this machine."""

    kubeconfig: Path
    kubectl: Path
    state: Path
    """Directory of clouds.yaml and the key pair."""
    source: Path
    """Top of the source tree (deploy/)."""
    name: str = "openstack"
    namespace: str = "openstack"
    release: str = "2026.1"
    public_host: str | None = None
    """Address in public URLs; None: the cluster decides."""
    external: bool = True
    """Whether the external network lives on this machine (the embedded cluster's br-ex)."""
    operator_image: str | None = None
    image_registry: str | None = None
    image_prefix: str | None = None
    """Where images come from; None: as the manifest and the operator's settings say."""

    @property
    def clouds_yaml(self) -> Path:
        return self.state / "clouds.yaml"

    @property
    def key(self) -> Path:
        return self.state / "id_ed25519"


def kubectl(cloud: Cloud, *arguments: str, text: str | None = None, check: bool = True) -> str:
    """Output of a kubectl call. Raises ``CloudError`` with kubectl's words."""
    done = subprocess.run(
        [str(cloud.kubectl), f"--kubeconfig={cloud.kubeconfig}", *arguments],
        check=False, capture_output=True, text=True, input=text,
    )  # fmt: skip
    if check and done.returncode != 0:
        raise CloudError(f"kubectl {' '.join(arguments[:4])}: {done.stderr.strip()[-1000:]}")
    return done.stdout


IMAGE_CONTENT = f"{ours.DOMAIN}/image-content"


def install_operator(cloud: Cloud, log: Log, content: str = "") -> None:
    """Applies deploy/install.yaml and waits until the operator is ready.

    ``content`` names what is in the operator's image: a new one under the same tag needs a new pod, and the same one
    leaves the running pod alone.
    """
    manifest = cloud.source / "deploy" / "install.yaml"
    documents = list(yaml.safe_load_all(manifest.read_text()))
    for document in documents:
        if document["kind"] == "Deployment":
            template = document["spec"]["template"]
            if content:
                template["metadata"].setdefault("annotations", {})[IMAGE_CONTENT] = content
            if cloud.operator_image:
                template["spec"]["containers"][0]["image"] = cloud.operator_image
    text = "---\n".join(yaml.safe_dump(document) for document in documents)
    kubectl(cloud, "apply", "--server-side", "--force-conflicts", "-f", "-", text=text)
    log("waiting for the operator's pod")
    try:
        kubectl(cloud, "-n", SYSTEM_NAMESPACE, "rollout", "status", "deployment/openstack-operator", "--timeout=120s")
    except CloudError as problem:
        pods = kubectl(cloud, "-n", SYSTEM_NAMESPACE, "get", "pods", "-o", "wide", check=False)
        logs = kubectl(cloud, "-n", SYSTEM_NAMESPACE, "logs", "deployment/openstack-operator", "--tail=20", check=False)
        raise CloudError(f"{problem}\n{pods}\n{logs}") from None
    log("waiting for its first look at everything")
    asyncio.run(_wait_caught_up(cloud, log))


async def _wait_caught_up(cloud: Cloud, log: Log, seconds: float = CATCH_UP_SECONDS) -> None:
    """Watches the operator's Lease until its holder has looked at every object once.

    Before that a cloud says what another operator, or the one before a restart, found: Ready, of what is replaced in
    the next moment.
    """
    places = ((kinds.LEASE, SYSTEM_NAMESPACE, labels.OPERATOR), (kinds.POD, SYSTEM_NAMESPACE, None))
    try:
        async with asyncio.timeout(seconds), _watched(cloud, *places) as ((leases, pods), changed):
            while not _is_caught_up(leases, pods):
                changed.clear()
                await changed.wait()
    except TimeoutError:
        # It does not say so where it is of an older version, or has much to do.
        log(f"the operator has not looked at everything within {seconds:.0f} s")


@contextlib.asynccontextmanager
async def _watched(
    cloud: Cloud, *places: tuple[kinds.Resource, str, str | None]
) -> AsyncIterator[tuple[list[informer.Informer], asyncio.Event]]:
    """Caches of objects (resource, namespace, and a name or all of them), and an Event that is set by every change,
    also of whether they can be watched."""
    changed = asyncio.Event()
    async with client.Client(client.Config.load(str(cloud.kubeconfig)), "openstack-operator-cli") as api:
        caches = [
            informer.Informer(api, resource, namespace, {"fieldSelector": f"metadata.name={name}"} if name else None)
            for resource, namespace, name in places
        ]
        for cache in caches:
            cache.subscribe(lambda new, old: changed.set())
            cache.subscribe_breaks(changed.set)
        # The first that is answered again has the others try too.
        informer.Together(caches)
        watching = [asyncio.create_task(cache.run()) for cache in caches]
        try:
            yield caches, changed
        finally:
            for task in watching:
                task.cancel()


def _is_caught_up(leases: informer.Informer, pods: informer.Informer) -> bool:
    found = leases.get(SYSTEM_NAMESPACE, labels.OPERATOR)
    holder = found["spec"].get("holderIdentity") if found else None
    pod = pods.get(SYSTEM_NAMESPACE, holder) if holder else None
    if found is None or pod is None or "deletionTimestamp" in pod["metadata"]:
        return False
    return bool(found["metadata"].get("annotations", {}).get(f"{ours.DOMAIN}/{lease.CAUGHT_UP}") == holder)


def manifest(cloud: Cloud) -> dict[str, Any]:
    """The control plane that ``up`` applies."""
    endpoint: dict[str, Any] = {"type": "NodePort"}
    if cloud.public_host:
        endpoint["host"] = cloud.public_host
    spec: dict[str, Any] = {"openstackRelease": cloud.release, "publicEndpoint": endpoint}
    images = {"registry": cloud.image_registry, "prefix": cloud.image_prefix}
    if any(images.values()):
        spec["images"] = {name: value for name, value in images.items() if value}
    if cloud.external:
        spec["ovn"] = {
            "bridgeMappings": {"physnet1": "br-ex"},
            "externalBridge": {"name": "br-ex", "address": f"{EXTERNAL_GATEWAY}/{EXTERNAL_PREFIX}"},
        }
    return {
        "apiVersion": ours.CONTROL_PLANE.api_version,
        "kind": ours.CONTROL_PLANE.kind,
        "metadata": {"name": cloud.name, "namespace": cloud.namespace},
        "spec": spec,
    }


def deploy(cloud: Cloud, log: Log) -> None:
    """Applies the control plane, waits until it is Ready, and writes clouds.yaml."""
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": cloud.namespace,
            # Node agents (OVS, libvirt) cannot be restricted; everything else is, by its own security context.
            "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
        },
    }
    documents = "---\n".join(yaml.safe_dump(one) for one in (namespace, manifest(cloud)))
    kubectl(cloud, "apply", "--server-side", "--force-conflicts", "-f", "-", text=documents)
    asyncio.run(wait_ready(cloud, log))
    write_clouds_yaml(cloud)


async def wait_ready(cloud: Cloud, log: Log, seconds: float = DEPLOY_SECONDS) -> None:
    """Watches the control plane until it is Ready; each new reason to wait is logged."""
    said = ""
    place = (ours.CONTROL_PLANE, cloud.namespace, cloud.name)
    try:
        async with asyncio.timeout(seconds), _watched(cloud, place) as ((cache,), changed):
            while True:
                item = cache.get(cloud.namespace, cloud.name)
                if conditions.is_ready(item):
                    return
                ready = conditions.find(item, conditions.READY)
                message = ready["message"] if ready else "the operator has not looked at it yet"
                stalled = conditions.find(item, conditions.STALLED)
                if stalled and stalled["status"] == "True":
                    raise CloudError(f"the control plane needs help: {message}")
                if cache.broken:
                    # What was said last may be over.
                    message = str(cache.broken.problem)
                if message != said:
                    log(message)
                    said = message
                changed.clear()
                await changed.wait()
    except TimeoutError:
        raise CloudError(f"the control plane is not Ready after {seconds:.0f} s: {said}") from None


def write_clouds_yaml(cloud: Cloud) -> None:
    """The admin's login for tools on this machine, readable by its owner only."""
    secret = json.loads(
        kubectl(cloud, "-n", cloud.namespace, "get", "secret", names.admin_secret("keystone"), "-o", "json")
    )
    text = base64.b64decode(secret["data"]["clouds.yaml"]).decode()
    cloud.state.mkdir(parents=True, exist_ok=True)
    cloud.clouds_yaml.touch(mode=0o600)
    cloud.clouds_yaml.write_text(text)


CONSOLE = "console: "
"""What a line of the first VM's console starts with in the words of ``first_vm``."""

# The external network of the embedded cloud: a range that only exists on this machine's br-ex.
_EXTERNAL = ipaddress.ip_network(addresses.FLOATING_RANGE)
EXTERNAL_NETWORK, EXTERNAL_PREFIX = str(_EXTERNAL.network_address), _EXTERNAL.prefixlen
EXTERNAL_GATEWAY = str(_EXTERNAL[1])
EXTERNAL_FIRST, EXTERNAL_LAST = str(_EXTERNAL[50]), str(_EXTERNAL[249])
"""Floating addresses."""


def endpoints(cloud: Cloud) -> dict[str, str]:
    """Public URL of each service that has one, by the service's name."""
    found = {}
    for service in SERVICES:
        resource = service.kinds[0].resource
        text = kubectl(cloud, "-n", cloud.namespace, "get", resource.full_name, service.name, "-o", "json", check=False)
        url = json.loads(text).get("status", {}).get("publicUrl") if text else None
        if url:
            found[service.name] = str(url)
    return found


@dataclass(frozen=True)
class FirstVM:
    """A VM that answered."""

    address: str
    """Its floating address, or the one on its private network."""
    is_reachable: bool
    """Whether it answered from this machine; else its console said that it is up."""
    console: tuple[str, ...]
    """The last lines of its console."""


def first_vm(cloud: Cloud, image: Path, log: Log) -> FirstVM:
    """Starts a VM on the cloud and waits until it answers.

    Runs in a process of its own, because the OpenStack client library is large and only this stage needs it.
    """
    if not cloud.key.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "openstack-operator", "-f", str(cloud.key)],
            check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "openstack_operator.embedded.first_vm", str(image), f"{cloud.key}.pub",
         *(["floating"] if cloud.external else [])],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=_client_environment(cloud),
    )  # fmt: skip
    assert process.stdout is not None
    last = ""
    said = []
    for line in process.stdout:
        last = line.strip()
        said.append(last)
        log(last)
    if process.wait() != 0:
        raise CloudError("the first VM does not come up: " + " | ".join(said[-8:]))
    console = tuple(line.removeprefix(CONSOLE) for line in said if line.startswith(CONSOLE))
    return FirstVM(last.rpartition(" ")[2], cloud.external, console)


def _client_environment(cloud: Cloud) -> dict[str, str]:
    return os.environ | {"OS_CLIENT_CONFIG_FILE": str(cloud.clouds_yaml), "OS_CLOUD": "openstack"}
