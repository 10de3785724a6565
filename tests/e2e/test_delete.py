"""The end of a service and of a whole control plane: nothing of it stays, and it may come again (acceptance 3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clouds import API_VERSION, CONTROL_PLANE, Cloud, remove_namespace, small
from clusters import MANAGED, Cluster, Object, condition
from machine import Start
from recorder import Recorder

from openstack_operator import controlplane
from openstack_operator.kit import kinds

NOWHERE = {"openstack.k8s.io/nowhere": "true"}
"""Nodes that there are not: the machine's one is the other cloud's."""
GONE_SECONDS = 120
LEFT = "pods,services,configmaps,secrets,deployments,statefulsets,daemonsets,jobs,cronjobs,serviceaccounts,roles"


@pytest.fixture
def fresh(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """A small cloud of the test's own, not applied yet."""
    name = f"e2e-{request.node.name.removeprefix('test_').replace('_', '-')}"[:40].rstrip("-")
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Cloud(cluster, name, "small")
    remove_namespace(cluster, name)


def _leftovers(cloud: Cloud) -> list[str]:
    """Everything of ours in the namespace, volumes excepted."""
    found = cloud.cluster.items(f"{LEFT},rolebindings,poddisruptionbudgets", cloud.namespace, MANAGED)
    return [f"{item['kind']} {item['metadata']['name']}" for item in [*found, *cloud.cluster.ours(cloud.namespace)]]


def _until_nothing_is_left(cloud: Cloud, *kept: str) -> None:
    """``kept`` are names of Secrets that stay."""
    cluster, namespace = cloud.cluster, cloud.namespace
    cluster.until_gone(CONTROL_PLANE, cloud.name, namespace, GONE_SECONDS)
    # The garbage collector takes the rest, after its owners.
    for item in cluster.items(f"{LEFT},rolebindings", namespace, MANAGED):
        kind, name = item["kind"].lower() + "s", item["metadata"]["name"]
        if kind != "secrets" or name not in kept:
            cluster.until_gone(kind, name, namespace, GONE_SECONDS)
    assert _leftovers(cloud) == [f"Secret {name}" for name in kept]


def _volumes(cloud: Cloud) -> set[str]:
    return {item["metadata"]["name"] for item in cloud.cluster.items("persistentvolumeclaims", cloud.namespace)}


def _bus_users(cloud: Cloud) -> list[str]:
    return [line.split()[0] for line in cloud.rabbitmqctl("list_users")]


def test_a_service_that_is_switched_off_leaves_nothing_behind(small_cloud: Cloud) -> None:
    """Database, users, virtual host and catalogue entries go, while the servers stay."""
    cluster, namespace = small_cloud.cluster, small_cloud.namespace
    small_cloud.until_ready()
    pods = small_cloud.pods()
    small_cloud.set(
        placement={"enabled": True},
        neutron={"enabled": True, "nodeSelector": NOWHERE},
        ovn={"enabled": True, "nodeSelector": NOWHERE, "gatewayNodeSelector": NOWHERE},
    )
    try:
        cluster.until_ready("placements", "placement", namespace, 180)

        # How far Neutron gets with a network that has no node does not matter here.
        def has_its_own(item: Object | None) -> bool:
            return all(condition(item, name)["status"] == "True" for name in ("DatabaseReady", "MessagingReady"))

        cluster.until("neutrons", "neutron", namespace, has_its_own, "served by MariaDB and RabbitMQ", 120)
        assert {"keystone", "placement", "neutron"} <= set(small_cloud.mariadb("SHOW DATABASES"))
        assert {"placement", "neutron"} <= set(small_cloud.mariadb("SELECT User FROM mysql.user"))
        assert "neutron" in small_cloud.rabbitmqctl("list_vhosts", "name")
        assert "neutron" in _bus_users(small_cloud)
        identity = small_cloud.connection.identity
        assert identity.find_service("placement") is not None
    finally:
        small_cloud.set(placement={"enabled": False}, neutron={"enabled": False}, ovn={"enabled": False})
    cluster.until_gone("placements", "placement", namespace, GONE_SECONDS)
    cluster.until_gone("neutrons", "neutron", namespace, GONE_SECONDS)
    cluster.until_gone("ovnnetworks", "ovn", namespace, GONE_SECONDS)
    small_cloud.until_ready()
    assert not {"placement", "neutron"} & set(small_cloud.mariadb("SHOW DATABASES"))
    assert not {"placement", "neutron"} & set(small_cloud.mariadb("SELECT User FROM mysql.user"))
    assert "neutron" not in small_cloud.rabbitmqctl("list_vhosts", "name")
    assert "neutron" not in _bus_users(small_cloud)
    identity = small_cloud.connection.identity
    assert identity.find_service("placement") is None
    assert identity.find_user("placement") is None
    assert [one for one in identity.endpoints() if "placement" in one.url] == []
    assert [name for name in pods if name not in small_cloud.pods()] == []


def test_a_deleted_control_plane_leaves_nothing_and_comes_again(fresh: Cloud, tmp_path: Path) -> None:
    """Volumes go by policy: MariaDB's are kept here, RabbitMQ's are not. The kept data is used by the next one, with
    the keys that it is encrypted with. Regression r55."""
    cluster, namespace = fresh.cluster, fresh.namespace
    objects = small(cluster, namespace, mariadb={"storageRetention": "Retain"}, rabbitmq={"storageRetention": "Delete"})
    cluster.apply(*objects)
    fresh.until_ready()
    fresh.log_in(tmp_path)
    user = fresh.connection.identity.create_user(name="kept", password="of-no-use-to-anybody")
    secret = {"type": "cert", "blob": "stored encrypted", "user_id": user.id}
    stored = fresh.connection.identity.create_credential(**secret)
    assert _volumes(fresh) == {"data-mariadb-0", "data-rabbitmq-0"}

    cluster.delete(CONTROL_PLANE, fresh.name, namespace)
    _until_nothing_is_left(fresh, "keystone-credential-keys")
    cluster.until_gone("persistentvolumeclaims", "data-rabbitmq-0", namespace)
    assert _volumes(fresh) == {"data-mariadb-0"}

    cluster.apply(*objects)
    fresh.until_ready()
    fresh.log_in(tmp_path)
    assert fresh.token()
    assert fresh.connection.identity.find_user("kept") is not None
    assert fresh.connection.identity.get_credential(stored.id).blob == secret["blob"]


@pytest.mark.parametrize("moment", ["MariaDBReady", "KeystoneReady"])
def test_a_control_plane_deleted_half_way_is_gone_too(fresh: Cloud, moment: str) -> None:
    """As soon as the first server is being made, and while the identity service is being set up."""
    cluster, namespace = fresh.cluster, fresh.namespace
    cluster.apply(*small(cluster, namespace))
    if moment == "MariaDBReady":
        cluster.until("pods", "mariadb-0", namespace, lambda pod: pod is not None, "made", 60)
    else:
        cluster.until(
            CONTROL_PLANE, fresh.name, namespace,
            lambda item: condition(item, "MariaDBReady")["status"] == "True", "at its identity service", 120,
        )  # fmt: skip
    assert condition(fresh.object, "Ready")["status"] != "True"
    cluster.delete(CONTROL_PLANE, fresh.name, namespace)
    _until_nothing_is_left(fresh)
    for name in ("data-mariadb-0", "data-rabbitmq-0"):
        cluster.until_gone("persistentvolumeclaims", name, namespace)


ALL_KINDS = tuple(kind.resource for service in controlplane.EVERYTHING for kind in service.kinds)


def test_a_whole_cloud_comes_back_with_its_data_and_goes_forward_only(
    cloud: Cloud, start: Start, tmp_path: Path
) -> None:
    """Its database was kept, and what ran on its nodes was not: they are the hosts that Nova knows. Regression r14."""
    if not start.may_go:
        pytest.skip("the cloud was up before the tests")
    cluster, namespace = cloud.cluster, cloud.namespace
    cloud.set(mariadb={"storageRetention": "Retain"})
    cloud.until_ready()
    hosts = {one.name: one.id for one in cloud.connection.compute.hypervisors(details=True)}
    user = cloud.connection.identity.create_user(name="kept", password="of-no-use-to-anybody")
    cloud.connection.identity.create_credential(user_id=user.id, type="cert", blob="readable by this cloud alone")
    spec = cloud.object["spec"]

    cluster.delete(CONTROL_PLANE, cloud.name, namespace)
    _until_nothing_is_left(cloud, "keystone-credential-keys")
    cluster.kubectl("delete", "--raw", f"/api/v1/namespaces/{namespace}/events")

    recorder = Recorder(cluster, namespace, ALL_KINDS)
    with recorder.running():
        cluster.apply({
            "apiVersion": API_VERSION, "kind": kinds.CONTROL_PLANE.kind,
            "metadata": {"name": cloud.name, "namespace": namespace}, "spec": spec,
        })  # fmt: skip
        cloud.until_ready()
        cloud.until_all_is_told()
    cloud.log_in(tmp_path)
    found = list(cloud.connection.compute.hypervisors(details=True))
    assert {one.name: one.id for one in found} == hosts
    assert {one.state for one in found} == {"up"}
    assert [one.blob for one in cloud.connection.identity.credentials()] == ["readable by this cloud alone"]

    assert {kind for kind, _, _ in recorder.seen.states} == {one.kind for one in ALL_KINDS}
    assert recorder.seen.flaps() == {}
    assert recorder.seen.unfinished() == []
    assert recorder.seen.nameless() == {}
    assert recorder.events == recorder.seen.steps()
