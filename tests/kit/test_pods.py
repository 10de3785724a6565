"""What is told about the pods of a workload: from statuses as kubelets write them, Events, claims and nodes."""

from __future__ import annotations

import base64
import types
from typing import Any

import pytest

from openstack_operator.kit import labels, pods
from openstack_operator.runtime import events, kinds

Object = dict[str, Any]

SELECTOR = labels.selector("svc", "one", "api")
TAGS = labels.pod("svc", "one", "api", "Svc")


class Cache:
    """The part of a scope that is read, with these objects in it."""

    namespace = "ns"

    def __init__(self, *found: Object, **others: list[Object]) -> None:
        self._found = {"Pod": list(found), **others}

    @property
    def manager(self) -> Cache:
        return self

    def items(self, resource: kinds.Resource) -> list[Object]:
        return self._found.get(resource.kind, [])

    def cached_items(self, resource: kinds.Resource, namespace: str | None) -> list[Object]:
        return self.items(resource)

    def cached(self, resource: kinds.Resource, namespace: str | None, name: str) -> Object | None:
        return next((one for one in self.items(resource) if one["metadata"]["name"] == name), None)


def explained(*found: Object, **others: list[Object]) -> str:
    return pods.explain(Cache(*found, **others), SELECTOR)  # type: ignore[arg-type]


def recorded(name: str, spec: Object | None = None, **status: Any) -> Object:
    return {"metadata": {"name": name, "uid": name, "labels": TAGS}, "spec": spec or {}, "status": status}


def state(name: str, ready: bool = False, **kind: Any) -> Object:
    return {"name": name, "ready": ready, "state": kind}


def ended(message: str, code: int = 1, reason: str = "Error") -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def warning(about: str, reason: str, message: str, at: str = "2026-01-01T00:00:10Z", kind: str = "Pod") -> Object:
    """An Event as a cache keeps it."""
    event = {
        "metadata": {"name": f"{about}.1", "namespace": "ns", "resourceVersion": "1", "uid": f"{about}-event"},
        "involvedObject": {"kind": kind, "name": about, "uid": about, "fieldPath": "spec.containers{main}"},
        "reason": reason, "message": message, "lastTimestamp": at, "count": 3, "type": "Warning",
    }  # fmt: skip
    found = events.trimmed(event)
    assert found is not None
    return found


PULLING = recorded(
    "one-1", phase="Pending",
    containerStatuses=[state("main", waiting={"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'})],
)  # fmt: skip
CRASHED = recorded(
    "one-2", phase="Running",
    containerStatuses=[{
        **state("main", waiting={"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}),
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "T\nValueError: bad option\n"}},
    }],
)  # fmt: skip
INIT = recorded(
    "one-3", phase="Pending",
    initContainerStatuses=[state("merge-config", terminated={"exitCode": 2, "reason": "Error", "message": "no space"})],
    containerStatuses=[state("main", waiting={"reason": "PodInitializing"})],
)  # fmt: skip
DATABASE = recorded(
    "one-9", phase="Failed",
    containerStatuses=[state("main", terminated={"exitCode": 1, "reason": "Error", "message":
        "ERROR OperationalError: (1045, \"Access denied\")\nERROR (Background on this error at: https://sqlalche.me/e)\n"})],
)  # fmt: skip
LOGIN = recorded(
    "one-10", phase="Failed",
    containerStatuses=[state("main", terminated={"exitCode": 1, "reason": "Error", "message":
        "ValueError: cannot use 'mysql+pymysql://keystone:%24x@mariadb.ns.svc/keystone' or rabbit://u:p@h:1/"})],
)  # fmt: skip
UNSCHEDULED = recorded(
    "one-4", phase="Pending",
    conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: cpu"}],
)  # fmt: skip
STARTING = recorded(
    "one-5", phase="Pending", containerStatuses=[state("main", waiting={"reason": "ContainerCreating"})],
)  # fmt: skip
SLOW = recorded("one-6", phase="Running", containerStatuses=[state("main", running={"startedAt": "x"})])
FINE = recorded("one-7", phase="Running", containerStatuses=[state("main", True, running={"startedAt": "x"})])
NEW = recorded("one-8")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (PULLING, 'pod one-1: container main: ImagePullBackOff: Back-off pulling image "x"'),
        (CRASHED, "pod one-2: container main: CrashLoopBackOff: exit code 1: ValueError: bad option"),
        (INIT, "pod one-3: container merge-config: exit code 2: no space"),
        (DATABASE, 'pod one-9: container main: exit code 1: ERROR OperationalError: (1045, "Access denied")'),
        (
            LOGIN,
            "pod one-10: container main: exit code 1: ValueError: cannot use "
            "'mysql+pymysql://keystone:***@mariadb.ns.svc/keystone' or rabbit://u:***@h:1/",
        ),
        (UNSCHEDULED, "pod one-4: Unschedulable: 0/1 nodes: cpu"),
        (STARTING, "pod one-5: starting (main)"),
        (SLOW, "pod one-6: container main is not ready yet"),
        (FINE, ""),
        (NEW, "pod one-8: starting (not scheduled yet)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_matter_with_a_pod_is_told_in_one_line(found: dict[str, Any], message: str) -> None:
    """Regression r48."""
    assert explained(found) == message


def test_of_many_pods_the_most_telling_one_is_named_and_those_that_go_are_not() -> None:
    going = {**PULLING, "metadata": {**PULLING["metadata"], "deletionTimestamp": "x"}}
    assert explained(going, FINE, STARTING, SLOW, CRASHED, UNSCHEDULED).startswith("pod one-2: ")


def test_pods_of_others_are_not_told_about() -> None:
    other = labels.selector("svc", "one", "other")
    assert pods.explain(Cache(PULLING), other) == ""  # type: ignore[arg-type]


def test_a_pod_that_only_has_to_end_is_told_with_the_time_that_it_has() -> None:
    going = {**FINE, "metadata": {**FINE["metadata"], "deletionTimestamp": "2026-01-01T00:01:00Z"}}
    assert explained(going) == "pod one-7 has to end by 2026-01-01T00:01:00Z"


OSLO = "2026-11-30 21:33:38.520 353 ERROR nova "


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("a\nValueError: bad option\n", "ValueError: bad option"),
        # MariaDB's reason stands above its farewell.
        (
            "2026 0 [ERROR] InnoDB: The innodb_system data file 'ibdata1' must be writable\n2026 0 [ERROR] Aborting\n",
            "2026 0 [ERROR] InnoDB: The innodb_system data file 'ibdata1' must be writable",
        ),
        # RabbitMQ's above the dump.
        (
            "BOOT FAILED\nfailed_to_start_child,{eaddrinuse}\nCrash dump is being written to: erl_crash.dump...done\n",
            "failed_to_start_child,{eaddrinuse}",
        ),
        ("ERROR: no access\nVACUUM: unix socket removed.\n", "ERROR: no access"),
        # oslo.log's words stand before each line of a traceback; the end of it is empty.
        (
            f"{OSLO}Traceback (most recent call last):\n"
            f'{OSLO}  File "nova/errors.py", line 8, in main\n'
            f"{OSLO}    raise_error()\n"
            f"{OSLO}    ~~~~~~~~~~~^^\n"
            f"{OSLO}nova.exception.InvalidConfiguration: No local node identity found\n"
            f"{OSLO}\n",
            f"{OSLO}nova.exception.InvalidConfiguration: No local node identity found",
        ),
        ("one\ntwo\n\n", "two"),
        ("", ""),
    ],
)
def test_of_a_log_the_line_that_says_what_went_wrong_is_told(log: str, told: str) -> None:
    assert pods.last_words(log) == told


def test_memory_that_ran_out_is_told_although_the_log_knows_nothing_of_it() -> None:
    found = recorded("p", phase="Running", containerStatuses=[
        {**state("main", waiting={"reason": "CrashLoopBackOff"}), "lastState": ended("listening", 137, "OOMKilled")}
    ])  # fmt: skip
    assert explained(found) == "pod p: container main: CrashLoopBackOff: exit code 137 (OOMKilled): listening"


REPORT = "Query (0x7f): INSERT INTO user VALUES ('x')\nCore pattern: core\n\nKernel version: Linux version 6.18\n"


@pytest.mark.parametrize(
    ("words", "code", "reason", "told"),
    [
        ("listening", 137, "Error", "exit code 137 (SIGKILL): listening"),
        ("", 137, "Error", "exit code 137 (SIGKILL)"),
        ("", 137, "OOMKilled", "exit code 137 (OOMKilled)"),
        (REPORT, 139, "Error", "exit code 139 (SIGSEGV)"),
        (f"Assertion `n > 0' failed.\n{REPORT}", 134, "Error", "exit code 134 (SIGABRT): Assertion `n > 0' failed."),
        # What the container has left for its end, in place of the report.
        (
            "the volume is full: 0 MiB are free",
            139,
            "Error",
            "exit code 139 (SIGSEGV): the volume is full: 0 MiB are free",
        ),
        (
            "[ERROR] x\n[Note] write: No space left on device",
            1,
            "Error",
            "exit code 1: [Note] write: No space left on device",
        ),
        ("no such file", 128, "StartError", "exit code 128 (StartError): no such file"),
        ("", 3, "Error", "exit code 3: Error"),
        ("usage: x", 255, "Error", "exit code 255: usage: x"),
    ],
)
def test_how_a_container_ended_is_told_and_no_crash_report(words: str, code: int, reason: str, told: str) -> None:
    found = recorded("p", phase="Running", containerStatuses=[{**state("main"), "state": ended(words, code, reason)}])
    assert explained(found) == f"pod p: container main: {told}"


def test_a_container_that_runs_between_two_crashes_is_told_with_the_last_one() -> None:
    found = recorded("p", phase="Running", containerStatuses=[
        {**state("main", running={"startedAt": "2026-01-01T00:00:00Z"}), "lastState": ended("KeyError: 'x'")}
    ])  # fmt: skip
    assert explained(found) == "pod p: container main is not ready yet: exit code 1: KeyError: 'x'"


def test_a_container_that_crashes_of_a_full_volume_is_told_with_it_at_every_moment() -> None:
    full = "the volume of the database is full: 0 MiB are free; it takes no data until there is more"
    running = state("main", running={"startedAt": "2026-01-01T00:00:00Z"})
    waiting = state("main", waiting={"reason": "CrashLoopBackOff", "message": "back-off 10s"})
    for moment, said in (running, "is not ready yet"), (waiting, "CrashLoopBackOff"):
        last = {**moment, "lastState": ended(f"{full}\n", 139), "started": False}
        message = explained(recorded("p", phase="Running", containerStatuses=[last]))
        assert message.startswith("pod p: container main")
        assert message.endswith(f"{said}: exit code 139 (SIGSEGV): {full}")


def test_a_container_that_has_started_again_is_told_with_what_it_lacks_now() -> None:
    running = {**state("main", running={"startedAt": "2026-01-01T00:00:00Z"}), "lastState": ended(REPORT, 139)}
    told = warning("p", "Unhealthy", "Readiness probe failed: the volume is full")
    for has_started, why in (True, "Readiness probe failed: the volume is full"), (False, "exit code 139 (SIGSEGV)"):
        found = recorded("p", phase="Running", containerStatuses=[{**running, "started": has_started}])
        assert explained(found, Event=[told]) == f"pod p: container main is not ready yet: {why}"


def test_a_probe_that_fails_says_what_it_was_answered_and_old_answers_are_forgotten() -> None:
    found = recorded("p", phase="Running", containerStatuses=[
        state("main", running={"startedAt": "2026-01-01T00:00:05Z"})
    ])  # fmt: skip
    told = warning("p", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
    old = warning("p", "Unhealthy", "Liveness probe failed: gone", at="2026-01-01T00:00:01Z")
    assert explained(found, Event=[old, told]) == (
        "pod p: container main is not ready yet: Readiness probe failed: HTTP probe failed with statuscode: 503"
    )
    assert explained(found, Event=[old]) == "pod p: container main is not ready yet"
    assert explained(found, Event=[warning("q", "Unhealthy", "another's")]) == "pod p: container main is not ready yet"


def test_a_volume_that_cannot_be_mounted_is_told_until_the_pods_sandbox_stands() -> None:
    event = warning("one-5", "FailedMount", 'MountVolume.SetUp failed for volume "x" : secret "y" not found')
    why = 'starting (main): FailedMount: MountVolume.SetUp failed for volume "x" : secret "y" not found'
    assert explained(STARTING, Event=[event]) == f"pod one-5: {why}"
    here = [{"type": "PodReadyToStartContainers", "status": "True"}]
    pulling = {**STARTING, "status": {**STARTING["status"], "conditions": here}}
    assert explained(pulling, Event=[event]) == "pod one-5: starting (main)"


def test_an_evicted_pod_says_why() -> None:
    found = recorded("p", phase="Failed", reason="Evicted", message="The node was low on resource: memory. ")
    assert explained(found) == "pod p: Evicted: The node was low on resource: memory."


def test_pods_on_a_node_that_does_not_answer_are_told_with_the_node() -> None:
    found = recorded("p", {"nodeName": "n1"}, phase="Running",
        conditions=[{"type": "Ready", "status": "False"}],
        containerStatuses=[state("main", True, running={"startedAt": "x"})],
    )  # fmt: skip
    lost = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    node = {"metadata": {"name": "n1"}, "status": {"conditions": [lost]}}
    why = "Node n1 is not Ready since 2026-01-01T00:00:00Z: Kubelet stopped posting node status."
    assert explained(found, Node=[node]) == f"pod p: {why}"
    going = {**found, "metadata": {**found["metadata"], "deletionTimestamp": "2026-01-01T00:05:00Z"}}
    assert explained(going, Node=[node]) == f"pod p has to end by 2026-01-01T00:05:00Z: {why}"
    well = {**node, "status": {"conditions": [{**lost, "status": "True"}]}}
    assert explained(found, Node=[well]) == ""


def test_a_cordoned_node_is_told_by_the_scheduler() -> None:
    message = "0/1 nodes are available: 1 node(s) were unschedulable. preemption: not helpful."
    found = recorded("p", phase="Pending", conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    ])  # fmt: skip
    assert explained(found) == f"pod p: Unschedulable: {message}"


# --- volumes --------------------------------------------------------------------------------------------------------

CLASS = {"metadata": {"name": "fast"}, "provisioner": "example.com/disk", "volumeBindingMode": "Immediate"}
PATIENT = {**CLASS, "volumeBindingMode": "WaitForFirstConsumer"}
ON_VOLUME = recorded(
    "p", {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-p"}}]}, phase="Pending",
    conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."}],
)  # fmt: skip


def claim(name: str | None = "fast", phase: str = "Pending", **annotations: str) -> Object:
    metadata = {"name": "data-p", "namespace": "ns", "uid": "data-p", "annotations": annotations}
    return {
        "metadata": metadata,
        "spec": {"volumeName": "pv-1"} | ({"storageClassName": name} if name else {}),
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("found", "classes", "told"),
    [
        (claim(), [CLASS], "waits for a volume from example.com/disk (StorageClass fast)"),
        (claim(), [], "no StorageClass fast exists"),
        (claim(None), [CLASS], "it names no storage class, and no volume without one fits"),
        (claim(phase="Lost"), [CLASS], "its volume pv-1 is gone"),
        (
            claim(**{"volume.kubernetes.io/selected-node": "n1"}), [PATIENT],
            "waits for a volume from example.com/disk (StorageClass fast)",
        ),
    ],
)  # fmt: skip
def test_a_claim_without_its_volume_is_told_for_the_pod_that_wants_it(
    found: Object, classes: list[Object], told: str
) -> None:
    message = explained(ON_VOLUME, PersistentVolumeClaim=[found], StorageClass=classes)
    assert message == f"pod p: PersistentVolumeClaim ns/data-p: {told}"


@pytest.mark.parametrize(("found", "classes"), [(claim(), [PATIENT]), (claim(phase="Bound"), [CLASS])])
def test_to_wait_for_the_first_consumer_is_no_fault_of_a_claim(found: Object, classes: list[Object]) -> None:
    message = explained(ON_VOLUME, PersistentVolumeClaim=[found], StorageClass=classes)
    assert message.startswith("pod p: Unschedulable: 0/1 nodes are available")


def test_a_provisioner_that_fails_is_quoted() -> None:
    event = warning("data-p", "ProvisioningFailed", "quota of the storage is used up", kind="PersistentVolumeClaim")
    message = explained(ON_VOLUME, PersistentVolumeClaim=[claim()], StorageClass=[CLASS], Event=[event])
    assert message == "pod p: PersistentVolumeClaim ns/data-p: quota of the storage is used up"


# --- secrets --------------------------------------------------------------------------------------------------------


def test_what_stands_in_a_secret_never_stands_in_a_message() -> None:
    data = {
        "user": "keystone",
        "password": "hunter2",
        "hostname": "mariadb.ns.svc",
        "0": "d2h5IGFyZSB5b3UgcmVhZGluZw==",
    }
    secret = {"data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}}
    key = data["0"]
    log = f"ERROR keystone@mariadb.ns.svc said hunter2 with {key} and {key.replace('=', '%3D')}"
    found = recorded("p", phase="Failed", containerStatuses=[state("main", **ended(log))])
    binary = {"data": {"key": base64.b64encode(b"\xff\xfe").decode()}}
    assert explained(found, Secret=[secret, binary]) == (
        "pod p: container main: exit code 1: ERROR keystone@mariadb.ns.svc said *** with *** and ***"
    )


# --- what wakes an object -------------------------------------------------------------------------------------------


def test_pods_wake_the_object_that_they_are_labelled_with() -> None:
    watch = pods.watch("Svc")
    found = {"metadata": {"namespace": "ns", **PULLING["metadata"]}}
    assert list(watch.keys(found, types.SimpleNamespace())) == [("ns", "one")]  # type: ignore[arg-type]
    assert list(pods.watch("Other").keys(found, types.SimpleNamespace())) == []  # type: ignore[arg-type]


def test_events_about_pods_and_workloads_wake_the_object_that_they_belong_to() -> None:
    resource = kinds.Resource("example.com", "v1", "svcs", "Svc")
    owner = {"apiVersion": "example.com/v1", "kind": "Svc", "name": "one", "uid": "o", "controller": True}
    workload = {"metadata": {"name": "w", "namespace": "ns", "ownerReferences": [owner]}}
    cache = Cache({**PULLING, "metadata": {**PULLING["metadata"], "namespace": "ns"}}, StatefulSet=[workload])
    watch = pods.watch_events(resource)

    def woken(event: Object) -> list[Any]:
        return list(watch.keys({**event, "involvedObject": {**event["involvedObject"], "namespace": "ns"}}, cache))  # type: ignore[arg-type]

    assert woken(warning("one-1", "FailedMount", "no")) == [("ns", "one")]
    assert woken(warning("w", "FailedCreate", "exceeded quota", kind="StatefulSet")) == [("ns", "one")]
    assert woken(warning("x", "FailedCreate", "exceeded quota", kind="StatefulSet")) == []
    assert woken(warning("one-1", "Unhealthy", "Startup probe failed: connection refused")) == []
    assert watch.relevant is not None
    told, again = (warning("w", "FailedCreate", "no", at=f"2026-01-01T00:00:{second}Z") for second in (10, 20))
    assert watch.relevant(told) == watch.relevant(again), "a repetition wakes nobody"


def test_of_all_warnings_those_alone_are_kept_that_say_what_no_status_says() -> None:
    event = {"reason": "BackOff", "metadata": {}, "involvedObject": {}, "message": "x"}
    assert events.trimmed(event) is None


STARTED, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def _probed(ready: str, since: str, **container: Any) -> Object:
    status = {"started": True, "state": {"running": {"startedAt": STARTED}}, **container}
    return {
        "metadata": {"name": "one"},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}],
            "containerStatuses": [status],
        },
    }


@pytest.mark.parametrize(
    ("pod", "has_stopped"),
    [
        (_probed("False", LATER), True),
        (_probed("True", LATER), False),
        # On its way up: not ready since before its container began.
        (_probed("False", STARTED), False),
        (_probed("False", LATER, started=False), False),
        (_probed("False", LATER, state={"terminated": {"exitCode": 1}}), False),
        (_probed("False", LATER) | {"metadata": {"name": "one", "deletionTimestamp": LATER}}, False),
        ({"metadata": {"name": "one"}, "status": {}}, False),
    ],
    ids=["probe fails", "ready", "starts", "its start is looked at", "ended", "told to finish", "new"],
)
def test_a_pod_has_stopped_serving_when_its_probe_fails_that_was_well(pod: Object, has_stopped: bool) -> None:
    assert pods.has_stopped_serving(pod) is has_stopped
