"""Builders of pods and workloads, and the waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.kit import config, labels, probes, workloads
from openstack_operator.kit.types import PodSettings, ResourceList, Resources, Storage
from openstack_operator.runtime import errors, kinds

SOURCES = config.Sources("one-config-data", "one-config-secrets", "one-scripts", "digest")
MAIN = workloads.Container("main", ("run",), ports={"api": 80}, probe=probes.tcp(80), memory="1Gi")


def pod(**changes: Any) -> workloads.Pod:
    base: dict[str, Any] = {
        "service": "svc",
        "instance": "one",
        "component": "api",
        "owner_kind": "Svc",
        "image": "localhost/svc:1",
        "user": 42,
        "containers": (MAIN,),
        "sources": SOURCES,
    }
    return workloads.Pod(**{**base, **changes})


# --- pods -----------------------------------------------------------------------------------------------------------


def test_a_pod_is_as_restricted_as_the_pod_security_standard_asks() -> None:
    spec = workloads.template(pod(init=(workloads.Container("first", ("true",)),)))["spec"]
    assert spec["securityContext"] == {
        "runAsUser": 42,
        "runAsGroup": 42,
        "fsGroup": 42,
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    assert spec["automountServiceAccountToken"] is False
    assert [one["name"] for one in spec["initContainers"]] == ["merge-config", "first"]
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_what_is_told_to_finish_while_it_starts_hears_that() -> None:
    """A first process of a PID namespace would not: nothing of a pod is one, be the others the pod's or the node's."""
    assert workloads.template(pod())["spec"]["shareProcessNamespace"] is True
    spec = workloads.template(pod(host_pid=True))["spec"]
    assert spec["hostPID"] is True
    assert "shareProcessNamespace" not in spec, "Kubernetes refuses both"


def test_a_main_container_sees_the_merged_configuration_and_scripts_only() -> None:
    (container,) = workloads.template(pod())["spec"]["containers"]
    assert container["volumeMounts"] == [
        {"name": "scripts", "mountPath": "/usr/local/bin/container-scripts", "readOnly": True},
        {"name": "config-data-merged", "mountPath": "/var/lib/config-data/merged", "readOnly": True},
        {"name": "scratch-0", "mountPath": "/tmp"},
    ]
    volumes = {one["name"]: one for one in workloads.template(pod())["spec"]["volumes"]}
    assert volumes["config-data-merged"]["emptyDir"]["medium"] == "Memory", "secrets are not written to a disk"


@pytest.mark.parametrize(("probe", "startup"), [(probes.tcp(80), (0, 1, 300)), (probes.command("true"), (2, 8, 38))])
def test_a_new_pod_has_five_minutes_and_commands_in_it_are_run_less_often(
    probe: dict[str, Any], startup: tuple[int, int, int]
) -> None:
    container = workloads.Container("main", ("run",), probe=probe)
    (found,) = workloads.template(pod(containers=(container,)))["spec"]["containers"]
    first, later = found["startupProbe"], found["readinessProbe"]
    assert (first.get("initialDelaySeconds", 0), first["periodSeconds"], first["failureThreshold"]) == startup
    assert (later["periodSeconds"], later["failureThreshold"]) == (10, 3)


def test_a_server_that_must_answer_is_asked_twice_and_its_start_is_only_connected_to() -> None:
    look = probes.greeting(80)
    container = workloads.Container("main", ("run",), probe=probes.tcp(80), readiness=look, liveness=look)
    (found,) = workloads.template(pod(containers=(container,)))["spec"]["containers"]
    assert found["startupProbe"]["tcpSocket"] == {"port": 80}
    assert (found["readinessProbe"]["exec"], found["livenessProbe"]["exec"]) == (look["exec"], look["exec"])
    assert (found["readinessProbe"]["periodSeconds"], found["readinessProbe"]["failureThreshold"]) == (10, 2)
    assert found["livenessProbe"]["terminationGracePeriodSeconds"] == 30, "what hangs does not end when it is asked to"


def test_settings_of_the_user_reach_the_pod_and_resources_the_first_container() -> None:
    settings = PodSettings(
        node_selector={"disk": "fast"},
        tolerations=({"key": "x", "operator": "Exists"},),
        topology_spread_constraints=({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},),
        resources=Resources(requests=ResourceList(cpu="2"), limits=ResourceList(memory="4Gi")),
    )
    spec = workloads.template(pod(settings=settings, containers=(MAIN, workloads.Container("side", ("x",)))))["spec"]
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["tolerations"] == [{"key": "x", "operator": "Exists"}]
    assert spec["topologySpreadConstraints"][0]["topologyKey"] == "zone"
    main, side = spec["containers"]
    assert main["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "4Gi"}}
    assert side["resources"] == {"requests": {"cpu": "10m", "memory": "128Mi"}}


def test_other_configuration_is_another_template_and_the_selector_never_changes() -> None:
    one, other = pod(), pod(sources=config.Sources("a", "b", "c", "another"), image="x:2")
    annotation = "openstack.k8s.io/config-hash"
    assert workloads.template(one)["metadata"]["annotations"] == {annotation: "digest"}
    assert workloads.template(other)["metadata"]["annotations"] == {annotation: "another"}
    assert workloads.selector(one) == workloads.selector(other)
    assert workloads.template(pod(hash_extra="more"))["metadata"]["annotations"] == {annotation: "digest.more"}


def test_labels_of_pods_contain_the_selector_and_say_whose_they_are() -> None:
    tags = workloads.template(pod())["metadata"]["labels"]
    assert tags == {
        "app.kubernetes.io/name": "svc",
        "app.kubernetes.io/instance": "one",
        "app.kubernetes.io/component": "api",
        "app.kubernetes.io/managed-by": "openstack-operator",
        "app.kubernetes.io/part-of": "openstack",
        "openstack.k8s.io/owner-kind": "Svc",
        "openstack.k8s.io/owner-name": "one",
    }
    assert labels.matches(tags, workloads.selector(pod()))
    assert not labels.matches(tags, workloads.selector(pod(component="other")))


def test_every_kind_that_the_operator_makes_is_cached_by_label_and_nodes_are_not() -> None:
    assert labels.selector_for(kinds.SECRET) == "app.kubernetes.io/managed-by=openstack-operator"
    assert labels.selector_for(kinds.NODE) is None


# --- workloads ------------------------------------------------------------------------------------------------------


def test_an_api_with_one_replica_has_no_gap_when_it_rolls() -> None:
    strategy = workloads.deployment(pod(), "one-api", 1)["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


@pytest.mark.parametrize("storage_class", [None, "fast"])
def test_a_volume_claim_names_a_class_only_if_the_user_does(storage_class: str | None) -> None:
    storage = Storage(storage_size="3Gi", storage_class=storage_class, storage_retention="Delete")
    spec = workloads.stateful_set(pod(), "one", 1, volume=storage)["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["spec"].get("storageClassName") == storage_class
    assert claim["spec"]["resources"] == {"requests": {"storage": "3Gi"}}
    # Whatever the user wants for the end of the whole object: a StatefulSet deleted by hand takes no data with it.
    assert spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"


def test_members_are_published_before_they_are_ready() -> None:
    assert workloads.service(pod(), "one", {"x": 1}, headless=True)["spec"] == {
        "type": "ClusterIP",
        "selector": workloads.selector(pod()),
        "ports": [{"name": "x", "port": 1, "targetPort": 1, "protocol": "TCP"}],
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
    }


# --- waits ----------------------------------------------------------------------------------------------------------


class Cache:
    """The part of a scope that waits read, where there is nothing in it but pods."""

    namespace = "ns"

    def __init__(self, *pods: dict[str, Any]) -> None:
        self._pods = list(pods)

    @property
    def manager(self) -> Cache:
        return self

    def items(self, resource: kinds.Resource) -> list[dict[str, Any]]:
        return self._pods if resource == kinds.POD else []

    def cached(self, resource: kinds.Resource, namespace: str | None, name: str) -> None:
        return None

    def cached_items(self, resource: kinds.Resource, namespace: str | None) -> list[dict[str, Any]]:
        return []


def item(replicas: int = 2, generation: int = 3, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "one", "namespace": "ns", "uid": "u", "generation": generation},
        "spec": {"replicas": replicas, "selector": {"matchLabels": workloads.selector(pod())}},
        "status": status,
    }


def serving(name: str) -> dict[str, Any]:
    """A pod of the workload that is ready."""
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": workloads.selector(pod())},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


DONE = {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
STATEFUL = {"observedGeneration": 3, "replicas": 2, "currentReplicas": 2, "availableReplicas": 2,
    "currentRevision": "a", "updateRevision": "a"}  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "status"), [(kinds.DEPLOYMENT, DONE), (kinds.STATEFULSET, DONE), (kinds.STATEFULSET, STATEFUL)]
)
def test_a_workload_that_runs_what_it_should_is_not_waited_for(
    resource: kinds.Resource, status: dict[str, Any]
) -> None:
    workloads.wait(Cache(serving("one-0"), serving("one-1")), resource, item(**status))  # type: ignore[arg-type]


@pytest.mark.parametrize("gone", ["away", "on its way out", "not ready"])
@pytest.mark.parametrize("status", [DONE, STATEFUL])
def test_a_server_is_waited_for_before_its_workload_counts_that_a_pod_is_gone(
    status: dict[str, Any], gone: str
) -> None:
    other = serving("one-1")
    if gone == "on its way out":
        other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    elif gone == "not ready":
        other["status"]["conditions"][0]["status"] = "False"
    cache = Cache(serving("one-0"), *(() if gone == "away" else (other,)))
    with pytest.raises(errors.Waiting, match="StatefulSet ns/one: 1 of 2 pods ready"):
        workloads.wait(cache, kinds.STATEFULSET, item(**status))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"observedGeneration": 2},
        {"updatedReplicas": 1},
        {"availableReplicas": 1},
        {"replicas": 3},
    ],
    ids=str,
)
def test_a_workload_with_anything_old_missing_or_left_over_is_waited_for(change: dict[str, Any]) -> None:
    """Regression f79."""
    with pytest.raises(errors.Waiting) as raised:
        workloads.wait(Cache(), kinds.DEPLOYMENT, item(**{**DONE, **change}))  # type: ignore[arg-type]
    assert raised.value.message.startswith("Deployment ns/one: ")


def test_zero_replicas_are_reached_without_a_pod() -> None:
    workloads.wait(Cache(), kinds.DEPLOYMENT, item(0, observedGeneration=3))  # type: ignore[arg-type]


def test_a_daemon_set_on_no_node_is_complete() -> None:
    body = item(observedGeneration=3, desiredNumberScheduled=0)
    workloads.wait(Cache(), kinds.DAEMONSET, body)  # type: ignore[arg-type]
