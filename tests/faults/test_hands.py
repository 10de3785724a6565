"""What people do by hand: objects edited, emptied, scaled, deleted, at moments that nobody would choose. On the whole
cloud; what `e2e/test_repair` does to a small one is not repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import lines
import pytest
from clusters import MANAGED, Object
from scene import QUIET, Scene

pytestmark = pytest.mark.usefixtures("again")

GROUP = "hands"
CUSTOM = {"spec": {"customServiceConfig": "[DEFAULT]\ndebug = true\n"}}
GRACE = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 77}}}}
NOWHERE = {"spec": {"selector": {"added-by-hand": "x"}}}
EMPTY = {"data": None}
NONE = {"spec": {"replicas": 0}}
FINALIZERS = {"metadata": {"finalizers": None}}

# A switch without its own process forwards nothing.
SILENCE = {"ovn-openvswitch": 3.0}

EDITS: list[tuple[str, str, Object]] = [
    ("daemonsets", "ovn-controller", GRACE),
    ("daemonsets", "nova-cell1-compute", GRACE),
    ("deployments", "nova-conductor", GRACE),
    ("statefulsets", "ovn-nb", GRACE),
    ("services", "keystone-api", NOWHERE),
    ("services", "ovn-sb", NOWHERE),
    ("services", "rabbitmq", NOWHERE),
    ("services", "nova-api-public", {"spec": {"type": "ClusterIP"}}),
    ("glances", "glance", CUSTOM),
    ("placements", "placement", CUSTOM),
    ("neutrons", "neutron", CUSTOM),
    ("novas", "nova", CUSTOM),
    ("novacells", "nova-cell1", CUSTOM),
    ("novacomputes", "nova-cell1-compute", CUSTOM),
    ("ovnnetworks", "ovn", {"spec": {"bridgeMappings": {"by-hand": "br-by-hand"}}}),
]
EMPTIED = [
    ("configmaps", "nova-config-data"),
    ("configmaps", "neutron-config-data"),
    ("configmaps", "ovn-scripts"),
    ("configmaps", "nova-cells"),
    ("configmaps", "nova-mapped-hosts"),
    ("configmaps", "mariadb-config-data"),
    ("secrets", "nova-config-secrets"),
    ("secrets", "glance-config-secrets"),
    ("secrets", "rabbitmq-config-secrets"),
]
SCALED = [
    ("deployments", "keystone-api"),
    ("deployments", "nova-scheduler"),
    ("deployments", "neutron-api"),
    ("deployments", "ovn-northd"),
    ("statefulsets", "mariadb"),
    ("statefulsets", "rabbitmq"),
    ("statefulsets", "memcached"),
    ("deployments", "glance-api"),
    ("statefulsets", "ovn-nb"),
    ("statefulsets", "ovn-sb"),
]
DELETED = [
    ("daemonsets", "ovn-controller"),
    ("daemonsets", "ovn-gateway"),
    ("daemonsets", "ovn-openvswitch"),
    ("daemonsets", "neutron-ovn-agent"),
    ("daemonsets", "nova-cell1-compute"),
    ("daemonsets", "nova-cell1-compute-libvirt"),
    ("deployments", "neutron-rpc-server"),
    ("deployments", "nova-api"),
    ("deployments", "placement-api"),
    ("statefulsets", "mariadb"),
    ("statefulsets", "ovn-sb"),
    ("deployments", "glance-api"),
    ("services", "mariadb"),
    ("services", "rabbitmq-members"),
    ("services", "ovn-nb"),
    ("services", "ovn-sb-0"),
    ("services", "keystone-public"),
    ("services", "neutron-public"),
    ("configmaps", "nova-cells"),
    ("configmaps", "nova-mapped-hosts"),
    ("configmaps", "ovn-scripts"),
    ("novaapis", "nova-api"),
    ("novaschedulers", "nova-scheduler"),
    ("novaconductors", "nova-conductor"),
    ("novametadatas", "nova-metadata"),
    ("novanovncproxies", "nova-cell1-novncproxy"),
    # Computes that go alone leave their guests running.
    ("novacomputes", "nova-cell1-compute"),
]
FINALIZED = [
    ("openstackcontrolplanes", "openstack"),
    ("keystones", "keystone"),
    ("glances", "glance"),
    ("neutrons", "neutron"),
    ("novas", "nova"),
    ("novacells", "nova-cell1"),
    ("novacomputes", "nova-cell1-compute"),
]
PASSWORDS = (
    "glance-db",
    "glance-service-user",
    "keystone-admin",
    "keystone-credential-keys",
    "keystone-db",
    "keystone-fernet-keys",
    "mariadb-root",
    "neutron-db",
    "neutron-metadata",
    "neutron-mq",
    "neutron-service-user",
    "nova-api-db",
    "nova-cell0-db",
    "nova-cell1-db",
    "nova-cell1-mq",
    "nova-mq",
    "nova-service-user",
    "placement-db",
    "placement-service-user",
    "rabbitmq-admin",
)
# Written from other Secrets, with nothing of their own.
DERIVED = ("openstackclient",)

Row = tuple[str, ...]


def _ids(rows: list[Any]) -> Callable[[Any], str]:
    return lambda row: f"{row[0]}-{row[1]}"


def _silence(name: str) -> float:
    return SILENCE.get(name, QUIET)


def _until(scene: Scene, resource: str, name: str, is_met: Callable[[Object], bool], what: str) -> None:
    scene.cluster.until(resource, name, scene.namespace, lambda item: item is not None and is_met(item), what, 60)


@pytest.mark.parametrize("row", EDITS, ids=_ids(EDITS))
def test_an_edit_is_taken_back(scene: Scene, row: tuple[str, str, Object]) -> None:
    resource, name, change = row
    before = _asked(scene.cluster.get(resource, name, scene.namespace))
    with scene.fault(f"{resource}/{name} edited", group=GROUP, silence=_silence(name)):
        scene.cluster.patch(resource, name, scene.namespace, change)
        _until(scene, resource, name, lambda item: _asked(item) == before, "as before")


def _asked(item: Object) -> Object:
    """The spec without what the cluster gives: another port of the node is found in the catalogue."""
    spec: Object = json.loads(json.dumps(item["spec"]))
    for port in spec.get("ports", []):
        port.pop("nodePort", None)
    return spec


@pytest.mark.parametrize("row", EMPTIED, ids=_ids(EMPTIED))
def test_what_was_emptied_is_filled_again(scene: Scene, row: Row) -> None:
    resource, name = row
    before = scene.cluster.get(resource, name, scene.namespace).get("data")
    with scene.fault(f"{resource}/{name} emptied", group=GROUP, silence=QUIET):
        scene.cluster.patch(resource, name, scene.namespace, EMPTY)
        _until(scene, resource, name, lambda item: item.get("data") == before, "as before")


@pytest.mark.parametrize("row", SCALED, ids=_ids(SCALED))
def test_what_was_scaled_to_nothing_is_scaled_again(scene: Scene, row: Row) -> None:
    resource, name = row
    with scene.fault(f"{resource}/{name} scaled to 0", group=GROUP, blames=lines.of(name), silence=QUIET):
        scene.cluster.kubectl("scale", f"{resource}/{name}", "-n", scene.namespace, "--replicas=0")
        _until(scene, resource, name, lambda item: item["spec"]["replicas"] > 0, "scaled again")


@pytest.mark.parametrize("row", DELETED, ids=_ids(DELETED))
def test_what_was_deleted_is_made_again(scene: Scene, row: Row) -> None:
    resource, name = row
    is_workload = resource in ("daemonsets", "deployments", "statefulsets")
    found = scene.cluster.get(resource, name, scene.namespace)
    uid = found["metadata"]["uid"]
    # A DaemonSet that is for no node here, as on one that is a gateway, has no pods to name.
    blames = lines.of(name) if is_workload and found["status"].get("desiredNumberScheduled") != 0 else ""
    with scene.fault(f"{resource}/{name} deleted", group=GROUP, blames=blames, silence=_silence(name)):
        _delete(scene, resource, name, uid)


def _delete(scene: Scene, resource: str, name: str, uid: str) -> None:
    scene.cluster.delete(resource, name, scene.namespace)
    _until(scene, resource, name, lambda item: item["metadata"]["uid"] != uid, "made again")


@pytest.mark.parametrize("row", FINALIZED, ids=_ids(FINALIZED))
def test_a_finalizer_that_was_taken_away_is_set_again(scene: Scene, row: Row) -> None:
    resource, name = row
    before = sorted(scene.cluster.get(resource, name, scene.namespace)["metadata"]["finalizers"])
    with scene.fault(f"{resource}/{name}: finalizers removed", group=GROUP, silence=QUIET):
        scene.cluster.patch(resource, name, scene.namespace, FINALIZERS)
        _until(
            scene, resource, name,
            lambda item: sorted(item["metadata"].get("finalizers", [])) == before, "with finalizers",
        )  # fmt: skip


@pytest.mark.parametrize("name", PASSWORDS)
def test_a_generated_secret_may_be_lost(scene: Scene, name: str) -> None:
    """Made anew, and everybody who uses it learns the new one."""
    before = scene.cluster.get("secrets", name, scene.namespace)
    with scene.fault(f"Secret {name} deleted", group=GROUP, silence=QUIET):
        _delete(scene, "secrets", name, before["metadata"]["uid"])
    assert scene.cluster.get("secrets", name, scene.namespace)["data"] != before["data"]


def test_no_generated_secret_is_left_out(scene: Scene) -> None:
    found = scene.cluster.items("secrets", scene.namespace, MANAGED)
    names = {one["metadata"]["name"] for one in found if not one["metadata"]["name"].endswith("-config-secrets")}
    assert names == {*PASSWORDS, *DERIVED}
