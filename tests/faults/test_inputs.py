"""What a cloud is given: images, configuration, quotas, nodes, volumes, names. What is wrong is named, what runs goes
on, and mending the input alone is enough.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import lines
import pytest
import requests
from clusters import Cluster, ClusterError, Object
from scene import QUIET, Scene
from small_scene import SmallScene
from test_moments import quota

pytestmark = pytest.mark.usefixtures("again")

GROUP = "inputs"
NOWHERE = "localhost/no-such-prefix/keystone:none"
# Good text, and no process starts with it: there is no such file.
BAD = "[DEFAULT]\nlog_config_append = /no/such/file\n"
DNS = ("deployment/coredns", "-n", "kube-system")
DNS_SECONDS = 45
# Of each service, out of 180 that a client has time for: twice the most that was seen (10).
MOST_WITHOUT_DNS = 20
# Whose pods a new cloud begins with.
FIRST = ("mariadb", "rabbitmq", "memcached")
VOLUME_MEBIBYTES = 420
CLASS = "faults-full"


def test_an_image_that_cannot_be_pulled_is_named_and_mended(fresh: SmallScene) -> None:
    blames = lines.of("keystone-bootstrap", says=f"(ErrImagePull|ImagePullBackOff): .*{NOWHERE}")
    with fresh.rollout("image that cannot be pulled, then mended", group=GROUP, blames=blames) as fault:
        fresh.make(keystone={"containerImage": NOWHERE})
        fault.begin()
        fault.until_blamed(120)
        fault.mend()
        fresh.cloud.set(keystone={"containerImage": None})


def test_bad_configuration_leaves_running_pods_alone(small: SmallScene) -> None:
    """Of a service that runs: its pods are the same ones, and serve, until the text is mended and after that."""
    before = small.cloud.pods()
    name = "configuration that no process starts with, then mended"
    blames = lines.of("keystone-bootstrap", "keystone-api", says="exit code 1: .*LogConfigError: .*/no/such/file")
    with small.fault(name, group=GROUP, blames=blames) as fault:
        small.cloud.set(keystone={"customServiceConfig": BAD})
        try:
            fault.until_blamed()
            time.sleep(30)
            assert before.items() <= small.cloud.pods().items()
            assert small.api.failed(fault.began, time.monotonic()) == []
        finally:
            fault.mend()
            small.cloud.set(keystone={"customServiceConfig": ""})
    assert {name: pod for name, pod in before.items() if "bootstrap" not in name}.items() <= small.cloud.pods().items()


@pytest.mark.parametrize("pods", [0, 2])
def test_a_quota_that_forbids_pods_is_named(fresh: SmallScene, pods: int) -> None:
    blames = lines.of(*FIRST, says="exceeded quota: few-pods")
    with fresh.rollout(f"quota of {pods} pods, then lifted", group=GROUP, blames=blames) as fault:
        fresh.cluster.apply(quota(fresh.namespace, pods))
        fresh.make()
        fault.begin()
        fault.until_blamed()
        fault.mend()
        fresh.cluster.delete("resourcequotas", "few-pods", fresh.namespace)


def test_a_node_that_takes_no_pods_is_named(fresh: SmallScene) -> None:
    nodes = [one["metadata"]["name"] for one in fresh.cluster.items("nodes")]
    blames = lines.of(*FIRST, says="Unschedulable: .*unschedulable")
    with fresh.rollout("node cordoned, then uncordoned", group=GROUP, blames=blames) as fault:
        fresh.cluster.kubectl("cordon", *nodes)
        try:
            fresh.make()
            fault.begin()
            fault.until_blamed()
        finally:
            fault.mend()
            fresh.cluster.kubectl("uncordon", *nodes)


def _class(name: str, provisioner: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def test_a_claim_that_nobody_binds_is_named_and_mended(fresh: SmallScene) -> None:
    """Its class exists, and nobody serves it; the class is corrected in the control plane."""
    fresh.cluster.apply(_class("faults-nobody", "example.com/nobody"))
    name = "claim of a class that nobody provisions, then of another class"
    try:
        blames = lines.of("mariadb", says=r"PersistentVolumeClaim \S+/data-mariadb-0: .*faults-nobody")
        with fresh.rollout(name, group=GROUP, blames=blames) as fault:
            fresh.make(mariadb={"storageClass": "faults-nobody"})
            fault.begin()
            fault.until_blamed()
            fault.mend()
            fresh.cloud.set(mariadb={"storageClass": None})
    finally:
        fresh.cluster.kubectl("delete", "storageclass", "faults-nobody")


def test_dns_may_be_away(scene: Scene) -> None:
    """Most requests go on: what is connected stays so. Some fail, since every service gives up connections to its
    database that are ten seconds old (`connection_recycle_time`), and finds the other services by name."""
    with scene.fault("DNS of the cluster away", group=GROUP, blames=lines.DNS, silence=QUIET) as fault:
        scene.cluster.kubectl("scale", *DNS, "--replicas=0")
        try:
            fault.until_blamed()
            time.sleep(DNS_SECONDS)
            failed = {name: len(found) for name, found in scene.apis.failed(fault.began, time.monotonic()).items()}
        finally:
            fault.mend()
            scene.cluster.kubectl("scale", *DNS, "--replicas=1")
            scene.cluster.kubectl("rollout", "status", *DNS, "--timeout=120s")
        assert {name: count for name, count in failed.items() if count > MOST_WITHOUT_DNS} == {}


# --- a volume that is full --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _volume(cluster: Cluster, directory: Path) -> Iterator[None]:
    """A small volume of a class of its own."""
    directory.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={VOLUME_MEBIBYTES}m,mode=0777", "tmpfs", str(directory)], check=True
    )
    node = cluster.items("nodes")[0]["metadata"]["name"]
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    cluster.apply(
        _class(CLASS, "kubernetes.io/no-provisioner"),
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": CLASS},
            "spec": {
                "capacity": {"storage": "100Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": CLASS,
                "local": {"path": str(directory)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
        },
    )
    try:
        yield
    finally:
        with contextlib.suppress(ClusterError):
            cluster.kubectl("delete", "persistentvolume", CLASS, "--wait=false")
            cluster.kubectl("delete", "storageclass", CLASS)
        # Whoever uses it still keeps it, and nobody else sees it.
        subprocess.run(["umount", "-l", str(directory)], check=True)


def _fill(path: Path) -> None:
    """Until nothing more fits."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(65536))


def test_a_full_volume_of_the_database_is_named(fresh: SmallScene, tmp_path: Path) -> None:
    """Nobody can write, and `status` says why; when there is room again everybody can."""
    directory = tmp_path / "volume"
    with _volume(fresh.cluster, directory):
        fresh.make(mariadb={"storageClass": CLASS})
        fresh.until_whole(time.monotonic())
        # That the server crashed of it says less.
        full = "the volume of the database is full"
        blames = f"^MariaDB [^ ]+/mariadb: .*{full}|{lines.of('mariadb', says=full)}"
        with fresh.fault("volume of MariaDB full, then freed", group=GROUP, blames=blames) as fault:
            filler = directory / "filler"
            _fill(filler)
            fault.begin()
            try:
                _write_until_refused(fresh)
                fault.until_blamed(120)
            finally:
                fault.mend()
                filler.unlink()
        assert _can_write(fresh)
        fresh.cluster.kubectl("delete", "namespace", fresh.namespace, "--timeout=200s", seconds=220)


def _write_until_refused(scene: SmallScene, most: int = 200) -> None:
    """Projects, until the database takes no more."""
    for _ in range(most):
        if not _can_write(scene, size=60_000):
            return
    raise AssertionError(f"{most} writes to a full volume were taken")


def _can_write(scene: SmallScene, size: int = 1) -> bool:
    """Whether Keystone can store something, and take it away again."""
    login = scene.cloud.connect().session
    url = login.get_endpoint(service_type="identity", interface="public").rstrip("/").removesuffix("/v3")
    headers = {"X-Auth-Token": login.get_token()}
    body = {"project": {"name": f"full-{os.urandom(6).hex()}", "description": "x" * size}}
    try:
        answer = requests.post(f"{url}/v3/projects", json=body, headers=headers, timeout=20)
    except requests.RequestException:
        return False
    if answer.status_code != 201:
        return False
    if size == 1:
        requests.delete(f"{url}/v3/projects/{answer.json()['project']['id']}", headers=headers, timeout=20)
    return True
