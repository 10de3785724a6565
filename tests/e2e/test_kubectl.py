"""What a cluster admin sees with kubectl: columns, waits, conditions in rollout order, Events on transitions only
(acceptance 2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import pytest
import requests
from clouds import CONTROL_PLANE, Cloud
from clusters import Cluster, Object, writes

from openstack_operator import controlplane
from openstack_operator.embedded import addresses
from openstack_operator.runtime.controller import Controller

OPERATOR_USER = "system:serviceaccount:openstack-operator-system:openstack-operator"
IDLE_SECONDS = 20

CONTROLLERS: Mapping[str, Controller] = {
    controller.kind.resource.kind: controller
    for service in controlplane.EVERYTHING
    for controller in service.controllers
}


def _example(cloud: Cloud, kind: str) -> Object:
    return next(item for item in cloud.cluster.ours(cloud.namespace) if item["kind"] == kind)


@pytest.mark.parametrize("kind", CONTROLLERS)
def test_get_shows_columns_that_tell_something(cloud: Cloud, kind: str) -> None:
    """Regression h15."""
    resource = CONTROLLERS[kind].kind.resource
    lines = cloud.cluster.kubectl("get", f"{resource.plural}.{resource.group}", "-n", cloud.namespace).splitlines()
    header = lines[0].split()
    assert header[:2] == ["NAME", "READY"]
    assert {"AGE", "MESSAGE"} <= set(header)
    assert len(header) > 4, "nothing but what every kind has"
    rows = [dict(zip(header, line.split(), strict=False)) for line in lines[1:]]
    assert rows
    assert {row["READY"] for row in rows} == {"True"}


def test_wait_knows_when_the_control_plane_is_ready(cloud: Cloud) -> None:
    said = cloud.cluster.kubectl(
        "wait", "--for=condition=Ready", f"openstackcontrolplane/{cloud.name}", "-n", cloud.namespace, "--timeout=10s"
    )
    assert "condition met" in said


@pytest.mark.parametrize("kind", CONTROLLERS)
def test_describe_shows_conditions_in_rollout_order(cloud: Cloud, kind: str) -> None:
    controller, item = CONTROLLERS[kind], _example(cloud, kind)
    resource = controller.kind.resource
    table = ["Ready", *(step.condition for step in controller.steps), "Reconciling", "Stalled"]
    assert [condition["type"] for condition in item["status"]["conditions"]] == table
    name = item["metadata"]["name"]
    said = cloud.cluster.kubectl("describe", f"{resource.plural}.{resource.group}", name, "-n", cloud.namespace)
    block = said.partition("  Conditions:\n")[2].partition("\nEvents:")[0]
    assert [one for one in re.findall(r"^    Type: +(\w+)$", block, re.MULTILINE) if one in table] == table


@pytest.mark.parametrize("kind", CONTROLLERS)
def test_every_condition_is_of_the_present_generation(cloud: Cloud, kind: str) -> None:
    item = _example(cloud, kind)
    generations = {condition["observedGeneration"] for condition in item["status"]["conditions"]}
    assert generations == {item["metadata"]["generation"]} == {item["status"]["observedGeneration"]}


def test_the_tree_of_status_says_ready(cloud: Cloud) -> None:
    message = cloud.object["status"]["conditions"][0]
    assert (message["status"], message["message"], cloud.object["status"]["phase"]) == ("True", "", "Ready")


def _ours(event: Object) -> bool:
    return "openstack-operator" in str(event.get("reportingComponent") or event.get("source", {}).get("component"))


def test_an_idle_cloud_gets_no_events_and_no_writes(cloud: Cloud) -> None:
    cluster, since = cloud.cluster, cloud.cluster.audit_position()
    with cluster.watch("events", "-n", cloud.namespace, "--watch-only", seconds=IDLE_SECONDS) as events:
        # Events are made anew or counted up: both are seen here.
        seen = [
            (event["involvedObject"]["kind"], event["involvedObject"]["name"], event["reason"], event["message"])
            for kind, event in events
            if kind != "DELETED" and _ours(event)
        ]
    assert seen == []
    assert writes(cluster.audited(since), OPERATOR_USER) == []


def test_a_pass_that_changes_nothing_writes_nothing(cloud: Cloud) -> None:
    """An annotation of the user's wakes the operator; nothing follows from it."""
    cluster, since = cloud.cluster, cloud.cluster.audit_position()
    items = cluster.ours(cloud.namespace)
    try:
        for item in items:
            change = {"metadata": {"annotations": {"example.org/looked-at": "now"}}}
            cluster.patch(_resource(item), item["metadata"]["name"], cloud.namespace, change)
        with cluster.watch("events", "-n", cloud.namespace, "--watch-only", seconds=5) as events:
            assert [event["message"] for kind, event in events if kind != "DELETED" and _ours(event)] == []
    finally:
        for item in items:
            change = {"metadata": {"annotations": {"example.org/looked-at": None}}}
            cluster.patch(_resource(item), item["metadata"]["name"], cloud.namespace, change)
    assert writes(cluster.audited(since), OPERATOR_USER) == []


def _resource(item: Object) -> str:
    resource = CONTROLLERS[item["kind"]].kind.resource
    return f"{resource.plural}.{resource.group}"


def test_an_event_tells_each_transition_once(cloud: Cloud) -> None:
    """Every condition of the control plane that is True became so, which one Event of its name says; none says twice
    in one second what it said before."""
    item = cloud.object
    events = [
        event
        for event in cloud.cluster.items("events", cloud.namespace)
        if event["involvedObject"].get("uid") == item["metadata"]["uid"] and _ours(event)
    ]
    said = [(event["lastTimestamp"], event["reason"], event["message"]) for event in events]
    assert len(said) == len(set(said))


def test_a_scale_subresource_where_there_are_replicas(cloud: Cloud) -> None:
    for kind, controller in CONTROLLERS.items():
        if controller.kind.scale:
            resource = controller.kind.resource
            name = _example(cloud, kind)["metadata"]["name"]
            path = f"{resource.path(cloud.namespace, name)}/scale"
            assert '"kind":"Scale"' in cloud.cluster.kubectl("get", "--raw", path)


def test_short_names_work(cluster: Cluster) -> None:
    assert cluster.kubectl("get", "oscp", "-A", "-o", "name").startswith(CONTROL_PLANE.removesuffix("s"))


def test_what_the_node_was_told_is_what_it_does(cluster: Cluster) -> None:
    """Each value that kubelet and kube-proxy are given is in force: to some, a zero means their own default."""
    written = {name: json.loads((cluster.state / f"{name}.json").read_text()) for name in ("kubelet", "kube-proxy")}
    proxy = f"http://{written['kube-proxy']['metricsBindAddress']}/configz"
    said = {
        "kubelet": cluster.kubectl("get", "--raw", f"/api/v1/nodes/{addresses.NODE_NAME}/proxy/configz"),
        "kube-proxy": requests.get(proxy, timeout=10).text,
    }
    for program, text in said.items():
        (in_force,) = json.loads(text).values()
        assert list(_not_in_force(written[program], in_force)) == [], program


def _not_in_force(written: Object, in_force: Object, path: str = "") -> Iterator[str]:
    for name, value in written.items():
        found = in_force.get(name)
        if isinstance(value, dict):
            yield from _not_in_force(value, found or {}, f"{path}{name}.")
        # Neither tells of itself what it is, nor of lists that are empty.
        elif name not in ("apiVersion", "kind") and value not in ([], found):
            yield f"{path}{name}: {value!r} was written, {found!r} holds"


@pytest.mark.parametrize(
    ("resource", "is_allowed"), [("persistentvolumeclaims", True), ("persistentvolumes", True), ("secrets", False)]
)
def test_a_node_may_read_a_claim_before_it_is_known_to_be_its_own(
    cluster: Cluster, resource: str, is_allowed: bool
) -> None:
    """A kubelet that hears of a pod sooner than the Node authorizer does starts it ten seconds later otherwise."""
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:node:{addresses.NODE_NAME}",
            "groups": ["system:nodes", "system:authenticated"],
            "resourceAttributes": {"namespace": "default", "verb": "get", "resource": resource, "name": "of-nobody"},
        },
    }
    answer = json.loads(cluster.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(asked)))
    assert answer["status"]["allowed"] is is_allowed
