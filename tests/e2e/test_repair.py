"""What is broken by hand is repaired, and only that; the operator may be killed at any moment (acceptance 4). On the
small cloud, whose pods may be restarted; on the cloud of `./up` only where nothing restarts.
"""

from __future__ import annotations

import copy
import shlex
from typing import Any

import pytest
from clouds import CONTROL_PLANE, Cloud
from clusters import MANAGED, OPERATOR_NAMESPACE, Cluster, ClusterError, Object, condition, is_ready, owner, writes

OPERATOR_USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:openstack-operator"

QUIET_SECONDS = 12
EMPTY: tuple[Any, ...] = (None, [], {})
REPAIR_SECONDS = 20
# A third of the time that MariaDB has to finish.
FINISH_SECONDS = 40

# A change for each kind that somebody could make with `kubectl edit`, and that the operator must take back before it
# does harm.
EDITS: dict[str, Object] = {
    "ConfigMap": {"data": {"*": "[DEFAULT]\n"}},
    "Secret": {"data": {"*": "W0RFRkFVTFRdCg=="}},
    "Service": {"spec": {"selector": {"added-by-hand": "x"}}},
    "Deployment": {"spec": {"replicas": 3}},
    "StatefulSet": {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 77}}}},
    "NetworkPolicy": {"spec": {"ingress": [{}]}},
    "CronJob": {"spec": {"schedule": "1 1 1 1 *"}},
    "Role": {"rules": []},
    "RoleBinding": {"subjects": []},
    "ServiceAccount": {"automountServiceAccountToken": True},
    "Keystone": {"spec": {"fernet": {"rotationHours": 48}}},
    "MariaDB": {"spec": {"maxConnections": 333}},
    "RabbitMQ": {"spec": {"storageRetention": "Retain"}},
    "Memcached": {"spec": {"cacheMebibytes": 77}},
}
# Changing a Job's template is refused by Kubernetes, and so is changing what a Deployment selects.
LABEL = {"metadata": {"labels": {"app.kubernetes.io/part-of": "edited-by-hand"}}}
KINDS = (*EDITS, "Job")


def _resource(kind: str) -> str:
    return kind.lower().removesuffix("y") + ("ies" if kind.endswith("y") else "s")


def _first(cloud: Cloud, kind: str) -> Object:
    found = [item for item in cloud.children() if item["kind"] == kind]
    if not found:
        pytest.skip(f"the cloud has no {kind}")
    return min(found, key=lambda item: str(item["metadata"]["name"]))


# Where the first by name is not the one that the change is for.
EDITED = {"ConfigMap": "keystone-config-data", "Secret": "keystone-config-secrets"}


def _edited(cloud: Cloud, kind: str) -> Object:
    if kind in EDITED:
        return cloud.cluster.get(_resource(kind), EDITED[kind], cloud.namespace)
    return _first(cloud, kind)


def _versions(cloud: Cloud) -> dict[tuple[str, str], tuple[str, str]]:
    """uid and resourceVersion of every child."""
    return {
        (item["kind"], item["metadata"]["name"]): (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
        for item in cloud.children()
    }


def _meaning(item: Object) -> Object:
    """The object without what the server counts and observes."""
    out = copy.deepcopy(item)
    out.pop("status", None)
    for field in ("resourceVersion", "generation", "managedFields", "uid", "creationTimestamp"):
        out["metadata"].pop(field, None)
    # Kept by the Deployment's own controller.
    out["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    return out


def _differences(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Paths of fields that are not the same, each with both values. Of a list whose last entry an apply takes away the
    server leaves nothing, and [] of one that was applied empty: both say the same."""
    if wanted == found or (wanted in EMPTY and found in EMPTY):
        return []
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = sorted({*wanted, *found})
        return [line for key in keys for line in _differences(wanted.get(key), found.get(key), f"{path}.{key}")]
    return [f"{path}: {wanted!r} is now {found!r}"]


def _until_as_before(cloud: Cloud, item: Object) -> Object:
    kind, name = item["kind"], item["metadata"]["name"]
    wanted, left = _meaning(item), ["nothing was seen"]

    def is_met(found: Object | None) -> bool:
        left[:] = _differences(wanted, _meaning(found)) if found is not None else ["it does not exist"]
        return not left

    try:
        repaired = cloud.cluster.until(
            _resource(kind), name, cloud.namespace, is_met, "as it was before", REPAIR_SECONDS
        )
    except ClusterError as problem:
        problem.add_note("\n".join(left))
        raise
    assert repaired is not None
    return repaired


@pytest.mark.parametrize("kind", [*EDITS, "DaemonSet", "Nova", "NovaCell", "NovaCompute", "Neutron", "OVNNetwork"])
def test_a_label_changed_by_hand_is_repaired_and_nothing_else_is_touched(cloud: Cloud, kind: str) -> None:
    """On the whole cloud: nothing restarts for it."""
    cloud.until_all_is_told()
    item, before = _first(cloud, kind), _versions(cloud)
    cloud.cluster.patch(_resource(kind), item["metadata"]["name"], cloud.namespace, LABEL)
    _until_as_before(cloud, item)
    after = _versions(cloud)
    assert [key for key in before if before[key] != after.get(key)] == [(kind, item["metadata"]["name"])]
    assert set(after) == set(before)
    assert is_ready(cloud.object)


@pytest.mark.parametrize("kind", EDITS)
def test_a_child_edited_by_hand_is_repaired(small_cloud: Cloud, kind: str) -> None:
    small_cloud.until_ready()
    item, before = _edited(small_cloud, kind), _versions(small_cloud)
    change = EDITS[kind]
    if "data" in change:
        # Every value that there is.
        change = {"data": dict.fromkeys(item["data"], change["data"]["*"])}
    small_cloud.cluster.patch(_resource(kind), item["metadata"]["name"], small_cloud.namespace, change)
    _until_as_before(small_cloud, item)
    small_cloud.until_ready()
    after = _versions(small_cloud)
    # A Job whose inputs were others for a moment has run for these, and again.
    kept, found = ({key: uid for key, (uid, _) in all_.items() if key[0] != "Job"} for all_ in (before, after))
    assert found == kept
    assert small_cloud.token()


def test_a_part_added_by_hand_to_a_configuration_is_taken_out(small_cloud: Cloud) -> None:
    """The next pod would merge it, and nobody would know where the option comes from."""
    small_cloud.until_ready()
    cluster, namespace = small_cloud.cluster, small_cloud.namespace
    item = cluster.get("configmaps", "keystone-config-data", namespace)
    change = {"data": {"keystone.conf.95-by-hand": "[DEFAULT]\ndebug = true\n"}}
    try:
        cluster.patch("configmaps", "keystone-config-data", namespace, change)
        _until_as_before(small_cloud, item)
    finally:
        cluster.patch("configmaps", "keystone-config-data", namespace, {"data": {"keystone.conf.95-by-hand": None}})


def _family(cloud: Cloud, kind: str, name: str) -> set[tuple[str, str]]:
    """What an object owns."""
    return {(child["kind"], child["metadata"]["name"]) for child in cloud.children() if owner(child) == (kind, name)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_deleted_by_hand_is_made_again(small_cloud: Cloud, kind: str) -> None:
    small_cloud.until_ready()
    cluster, namespace = small_cloud.cluster, small_cloud.namespace
    # Of Secrets one without generated values; see the next test for those.
    item, before = _edited(small_cloud, kind), _versions(small_cloud)
    name, uid = item["metadata"]["name"], item["metadata"]["uid"]
    family = _family(small_cloud, kind, name)
    cluster.delete(_resource(kind), name, namespace)
    cluster.until(
        _resource(kind), name, namespace,
        lambda found: found is not None and found["metadata"]["uid"] != uid, "made again", 120,
    )  # fmt: skip
    small_cloud.until_ready()
    after = _versions(small_cloud)
    changed = {key for key, (old, _) in before.items() if after.get(key, ("", ""))[0] != old}
    if kind != "Job":
        # Another database, other inputs: what fills it has run again.
        changed = {key for key in changed if key[0] != "Job"}
    # What a custom resource owned goes and comes with it.
    assert changed - family == {(kind, name)}
    assert small_cloud.token()


def test_every_generated_secret_may_be_lost(small_cloud: Cloud) -> None:
    """Passwords and keys are made anew, and everybody who uses them learns the new ones."""
    small_cloud.until_ready()
    cluster, namespace = small_cloud.cluster, small_cloud.namespace
    secrets = [item for item in small_cloud.children() if item["kind"] == "Secret"]
    assert len(secrets) > 5
    for item in secrets:
        cluster.delete("secrets", item["metadata"]["name"], namespace)
    for item in secrets:
        uid = item["metadata"]["uid"]
        cluster.until(
            "secrets", item["metadata"]["name"], namespace,
            lambda found, uid=uid: found is not None and found["metadata"]["uid"] != uid, "made again", 120,
        )  # fmt: skip
    for name in ("mariadb", "rabbitmq"):
        cluster.until_available("statefulsets", name, namespace)
    cluster.until_available("deployments", "keystone-api", namespace)
    small_cloud.until_ready()
    assert small_cloud.token()


# --- the operator itself ----------------------------------------------------------------------------------------------


def _end(cloud: Cloud) -> dict[tuple[str, str], Any]:
    """What a rollout ends in: every child but the Jobs' pods, without names made of random letters."""
    return {
        (item["kind"], item["metadata"]["name"]): _meaning(item)
        for item in cloud.children()
        if item["kind"] in ("ConfigMap", "Deployment", "StatefulSet", "Service", "Keystone", "MariaDB", "CronJob")
    }


@pytest.mark.parametrize("moment", ["at once", "when the configuration is written", "when pods are rolling"])
def test_an_operator_killed_during_an_update_ends_the_same(small_cloud: Cloud, moment: str) -> None:
    cluster, namespace = small_cloud.cluster, small_cloud.namespace
    small_cloud.until_ready()
    before = _end(small_cloud)
    text = f"[DEFAULT]\n# {moment}\nmax_request_body_size = {114688 + len(moment)}\n"
    try:
        small_cloud.set(keystone={"customServiceConfig": text})
        if moment == "when the configuration is written":
            cluster.until(
                "configmaps", "keystone-config-data", namespace, lambda item: moment in str(item), "written", 30
            )
        if moment == "when pods are rolling":
            cluster.until(
                "deployments", "keystone-api", namespace,
                lambda item: (item or {}).get("status", {}).get("unavailableReplicas", 0) > 0, "rolling", 60,
            )  # fmt: skip
        cluster.kill_operator()
        cluster.until_operator_runs()
        small_cloud.until_ready()
        assert text in str(
            cluster.get("configmaps", "keystone-config-data", namespace)["data"]["keystone.conf.90-custom"]
        )
        assert small_cloud.token()
    finally:
        small_cloud.set(keystone={"customServiceConfig": ""})
    small_cloud.until_ready()
    assert _end(small_cloud) == before


def test_a_restart_of_the_operator_writes_nothing_and_restarts_no_pod(cloud: Cloud, small_cloud: Cloud) -> None:
    """One LIST for each kind, then watches. Regression f51."""
    cluster = cloud.cluster
    small_cloud.until_ready()
    pods = {name: one.pods() for name, one in (("cloud", cloud), ("small", small_cloud))}
    # Before it is killed: the next one may have begun when the deletion of its pod is through.
    since = cluster.audit_position()
    cluster.kill_operator()
    cluster.until_operator_runs()
    # It is ready when its caches are; its first passes follow. No write for a while after that is what is asked for.
    with cluster.watch("pods,jobs", "-A", "-l", MANAGED, "--watch-only", seconds=QUIET_SECONDS) as events:
        assert [item["metadata"]["name"] for _, item in events] == []
    entries = cluster.audited(since)
    assert writes(entries, OPERATOR_USER) == []
    lists: dict[str, int] = {}
    for entry in entries:
        if entry["user"]["username"] == OPERATOR_USER and entry["verb"] == "list":
            resource = f"{entry['objectRef']['resource']}.{entry['objectRef'].get('apiGroup', '')}"
            # Further pages of one LIST are no further LISTs; a Secret of the user's is watched alone, by its name.
            is_further = "continue=" in entry["requestURI"] or "fieldSelector=metadata.name" in entry["requestURI"]
            lists[resource] = lists.get(resource, 0) + (not is_further)
    assert lists
    assert {resource: count for resource, count in lists.items() if count > 1} == {}
    assert {name: one.pods() for name, one in (("cloud", cloud), ("small", small_cloud))} == pods


def test_a_change_rolls_the_pods_that_read_it_and_no_others(small_cloud: Cloud) -> None:
    small_cloud.until_ready()
    before = small_cloud.pods()
    small_cloud.set(keystone={"token": {"expirationSeconds": 7200}})
    try:
        small_cloud.until_ready()
        after = small_cloud.pods()
        assert {name for name in before if name not in after} == {name for name in before if "keystone-api" in name}
        assert small_cloud.token()
    finally:
        small_cloud.set(keystone={"token": {"expirationSeconds": 3600}})
    small_cloud.until_ready()


def test_a_killed_pod_comes_back(small_cloud: Cloud) -> None:
    """MariaDB, RabbitMQ and Memcached at once: the data is there, and nothing needs a person. Regression f33."""
    small_cloud.until_ready()
    cluster, namespace = small_cloud.cluster, small_cloud.namespace
    assert small_cloud.token()
    user = small_cloud.connection.identity.create_user(name="kept", password="of-no-use-to-anybody")
    names = ("mariadb-0", "rabbitmq-0", "memcached-0")
    uids = {name: cluster.get("pods", name, namespace)["metadata"]["uid"] for name in names}
    for name in names:
        cluster.kubectl("delete", "pod", name, "-n", namespace, "--grace-period=0", "--force")
    for name in names:
        cluster.until(
            "pods", name, namespace,
            lambda pod, uid=uids[name]: pod is not None and pod["metadata"]["uid"] != uid
            and condition(pod, "Ready")["status"] == "True",
            "back", 120,
        )  # fmt: skip
    cluster.until_ready(CONTROL_PLANE, small_cloud.name, namespace)
    assert small_cloud.token()
    assert small_cloud.connection.identity.get_user(user.id).name == "kept"


def test_a_pod_that_is_told_to_finish_while_it_starts_does(cluster: Cluster, namespace: str) -> None:
    """And does not go on until its time is over, while the pod that takes its place waits for that. Here in the first
    moment of a MariaDB, when a script makes its files."""
    metadata = {"name": "mariadb", "namespace": namespace}
    with cluster.watch("pods", "-n", namespace, seconds=FINISH_SECONDS) as events:
        cluster.apply({"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "MariaDB", "metadata": metadata, "spec": {}})
        begun = next(pod["metadata"]["uid"] for _, pod in events if pod["status"]["phase"] == "Running")
        cluster.delete("pods", "mariadb-0", namespace)
        assert any(change == "DELETED" and pod["metadata"]["uid"] == begun for change, pod in events), "it went on"


def _tell_a_second_server(
    cluster: Cluster, workload: Object, *, prepared: str, server: str, instead: tuple[str, str], moments: str
) -> None:
    """In a pod of the workload, which has one, starts another server and tells it to finish so many seconds later,
    after what the pod waits for before that. ``instead``: what stands for the pod's own server there, and what for the
    other one. Raises ClusterError where it goes on."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    wait = shlex.join(container["lifecycle"]["preStop"]["exec"]["command"])
    assert instead[0] in wait
    script = f"""
        set -e
        rm -rf /tmp/second
        mkdir /tmp/second
        cd /tmp/second
        {prepared}
        for moment in {moments}; do
          {server} > log 2>&1 &
          server=$!
          sleep $moment
          {wait.replace(*instead)}
          kill $server
          for _ in $(seq 100); do kill -0 $server 2> /dev/null || continue 2; sleep 0.1; done
          tail -n 3 log >&2
          echo >&2 "goes on when it is told to finish after $moment s"
          kill -9 $server
          exit 1
        done
    """
    metadata = workload["metadata"]
    name = f"{workload['kind'].lower()}/{metadata['name']}"
    cluster.kubectl("exec", name, "-n", metadata["namespace"], "--", "bash", "-c", script, seconds=120)


def test_an_api_that_is_told_to_finish_while_it_loads_does(small_cloud: Cloud) -> None:
    """Here with an application that takes six seconds."""
    small_cloud.until_ready()
    _tell_a_second_server(
        small_cloud.cluster,
        small_cloud.cluster.get("deployments", "keystone-api", small_cloud.namespace),
        prepared="""
        echo 'import time; time.sleep(6); application = print' > slow.py
        sed -e 's/^module = .*/module = slow:application/' -e 's/^http-socket = .*/http-socket = :5999/' \\
            -e 's!/tmp/serving!/tmp/second/serving!' /var/lib/config-data/merged/uwsgi.ini > uwsgi.ini""",
        server="uwsgi --ini uwsgi.ini --pythonpath /tmp/second",
        instead=("/tmp/serving", "/tmp/second/serving"),
        moments="1",
    )


def test_a_mariadb_that_is_told_to_finish_at_any_moment_of_its_start_does(cluster: Cluster, namespace: str) -> None:
    metadata = {"name": "mariadb", "namespace": namespace}
    cluster.apply({"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "MariaDB", "metadata": metadata, "spec": {}})
    cluster.until_ready("mariadbs", "mariadb", namespace)
    _tell_a_second_server(
        cluster,
        cluster.get("statefulsets", "mariadb", namespace),
        prepared="mariadb-install-db --no-defaults --datadir=/tmp/second/data --skip-test-db --tmpdir=/tmp > /dev/null",
        server="mariadbd --no-defaults --datadir=/tmp/second/data --socket=/tmp/second/sock --port=3307",
        instead=("/3306 ", "/3307 "),
        moments="0 0.04 0.08 0.12 0.16 0.2 0.3",
    )
