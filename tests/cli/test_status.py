"""`openstack-operator status`: the answer in its first line, the tree below it, and the exit code."""

from __future__ import annotations

import datetime
import gc
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from openstack_operator import controlplane
from openstack_operator.cli import status, tree
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import kinds
from openstack_operator.runtime import errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.kinds import Resource

Object = dict[str, Any]

OWN = [kind.resource for service in controlplane.EVERYTHING for kind in service.kinds]
SINCE = "2026-01-01T00:00:00Z"
NOW = datetime.datetime(2026, 1, 1, 0, 5, tzinfo=datetime.UTC)


def recorded(name: str) -> tree.Picture:
    """Objects of a real cloud, as the API server gave them."""
    content = json.loads((Path(__file__).parent / "recorded" / f"{name}.json").read_text())
    return tree.build(OWN, {one: content.get(one.full_name, []) for one in (*OWN, *tree.BUILT_IN)})


def condition(name: str, state: str, message: str = "", reason: str = "Waiting") -> Object:
    return {
        "type": name,
        "status": state,
        "reason": reason,
        "message": message,
        "lastTransitionTime": SINCE,
        "observedGeneration": 1,
    }


def owned(resource: Resource, name: str, owner: str | None, status: Object) -> Object:
    metadata: Object = {"name": name, "namespace": "openstack", "uid": name, "generation": 1}
    metadata["creationTimestamp"] = SINCE
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    return {"kind": resource.kind, "metadata": metadata, "spec": {}, "status": status}


def of_ours(resource: Resource, name: str, message: str | None = None, *, stalled: bool = False) -> Object:
    """An object of ours; with a message it is not Ready."""
    conditions = [condition("Ready", "True" if message is None else "False", message or "")]
    conditions.append(condition("Stalled", "True" if stalled else "False"))
    owner = None if resource == kinds.CONTROL_PLANE else "cloud"
    return owned(resource, name, owner, {"conditions": conditions})


def cloud(**services: Object) -> tree.Picture:
    """A control plane called cloud that is not Ready, with these objects of services."""
    objects: dict[Resource, list[Object]] = {one: [] for one in (*OWN, *tree.BUILT_IN)}
    objects[kinds.CONTROL_PLANE] = [of_ours(kinds.CONTROL_PLANE, "cloud", "something is missing")]
    for resource in OWN:
        objects[resource] += [one for one in services.values() if one["kind"] == resource.kind]
    return tree.build(OWN, objects)


def test_a_pod_that_waits_for_its_claim_says_what_the_claim_waits_for() -> None:
    server = owned(built_in.STATEFULSET, "mariadb", "db", {})
    pod = owned(built_in.POD, "mariadb-0", "mariadb", {"phase": "Pending"})
    pod["spec"] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-mariadb-0"}}]}
    claim = owned(built_in.PVC, "data-mariadb-0", None, {"phase": "Pending"})
    claim["spec"] = {"storageClassName": "slow"}
    storage = {"metadata": {"name": "slow", "uid": "slow"}, "provisioner": "example.com/none"}
    objects: dict[Resource, list[Object]] = {one: [] for one in (*OWN, *tree.BUILT_IN)}
    objects |= {
        kinds.CONTROL_PLANE: [of_ours(kinds.CONTROL_PLANE, "cloud", "something is missing")],
        kinds.MARIADB: [of_ours(kinds.MARIADB, "db", "it starts")],
        built_in.STATEFULSET: [server],
        built_in.POD: [pod],
        built_in.PVC: [claim],
        built_in.STORAGECLASS: [storage],
    }
    (found,) = status.blockers(tree.build(OWN, objects))
    assert (found.label, found.message) == (
        "Pod openstack/mariadb-0",
        "PersistentVolumeClaim openstack/data-mariadb-0: waits for a volume from example.com/none (StorageClass slow)",
    )
    # Who may not see storage classes is not told that there are none.
    (found,) = status.blockers(tree.build(OWN, objects | {built_in.STORAGECLASS: []}))
    assert found.message == "starting (not scheduled yet)"


def answer(picture: tree.Picture) -> str:
    return tree.blocking(picture, picture.roots[0]).label


def drawn(picture: tree.Picture | None, *, everything: bool = False, **options: Any) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=80, highlight=False, **options)
    status.show(console, picture, NOW, everything=everything)
    return stream.getvalue()


# --- what everything waits for --------------------------------------------------------------------------------------


def test_an_image_that_does_not_exist_is_named_with_the_pod_that_wants_it() -> None:
    picture = recorded("image-missing")
    blocking = tree.blocking(picture, picture.roots[0])
    assert blocking.label == "Pod openstack/mariadb-0"
    assert blocking.summary == "ImagePullBackOff"
    assert blocking.message.startswith("container merge-config: ImagePullBackOff: Back-off pulling image")


def test_what_only_a_person_can_mend_comes_before_what_goes_on_by_itself() -> None:
    picture = cloud(
        db=of_ours(kinds.MARIADB, "mariadb", "starting"),
        keystone=of_ours(kinds.KEYSTONE, "keystone", "Secret openstack/mine does not exist", stalled=True),
    )
    assert answer(picture) == "Keystone openstack/keystone"


def test_of_two_that_wait_for_nothing_the_one_that_holds_up_more_is_named() -> None:
    picture = cloud(
        db=of_ours(kinds.MARIADB, "mariadb", "starting"),
        cache=of_ours(kinds.MEMCACHED, "memcached", "starting"),
        keystone=of_ours(kinds.KEYSTONE, "keystone", "Memcached openstack/memcached has no servers"),
    )
    assert answer(picture) == "Memcached openstack/memcached"


def test_objects_that_name_each_other_do_not_hang_the_search() -> None:
    picture = cloud(
        db=of_ours(kinds.MARIADB, "mariadb", "Keystone openstack/keystone is not ready"),
        keystone=of_ours(kinds.KEYSTONE, "keystone", "MariaDB openstack/mariadb is not ready"),
    )
    assert answer(picture) == "OpenStackControlPlane openstack/cloud"


def test_an_object_that_the_operator_has_not_seen_waits_for_the_operators_pod() -> None:
    objects: dict[Resource, list[Object]] = {kinds.CONTROL_PLANE: [owned(kinds.CONTROL_PLANE, "cloud", None, {})]}
    operator = owned(built_in.DEPLOYMENT, "openstack-operator", None, {"observedGeneration": 1})
    operator["metadata"]["labels"] = {"app.kubernetes.io/name": "openstack-operator"}
    replica_set = owned(tree.REPLICASET, "openstack-operator-1", "openstack-operator", {})
    pod = owned(built_in.POD, "openstack-operator-1-a", "openstack-operator-1", {"phase": "Pending"})
    objects |= {built_in.DEPLOYMENT: [operator], tree.REPLICASET: [replica_set], built_in.POD: [pod]}
    picture = tree.build(OWN, objects)
    assert answer(picture) == "Pod openstack/openstack-operator-1-a"


def test_an_object_that_the_operator_has_not_seen_waits_for_an_operator_that_was_scaled_to_nothing() -> None:
    """Its Deployment is available, as it was asked to be."""
    objects: dict[Resource, list[Object]] = {kinds.CONTROL_PLANE: [owned(kinds.CONTROL_PLANE, "cloud", None, {})]}
    operator = owned(built_in.DEPLOYMENT, "openstack-operator", None, {"observedGeneration": 1})
    operator["metadata"]["labels"] = {"app.kubernetes.io/name": "openstack-operator"}
    operator["spec"] = {"replicas": 0}
    picture = tree.build(OWN, objects | {built_in.DEPLOYMENT: [operator]})
    assert answer(picture) == "Deployment openstack/openstack-operator"
    assert picture.operator is not None
    assert picture.operator.message == "0/1 pods ready"


def dns(*ready: bool, deployment: Object | None = None, pod: Object | None = None) -> tree.Picture:
    """A cloud that is Ready, in a cluster whose DNS has these endpoints."""
    slices = owned(built_in.ENDPOINTSLICE, "kube-dns-a", None, {})
    slices["endpoints"] = [{"conditions": {"ready": one}} for one in ready] or None
    objects: dict[Resource, list[Object]] = {kinds.CONTROL_PLANE: [of_ours(kinds.CONTROL_PLANE, "cloud")]}
    objects[built_in.ENDPOINTSLICE] = [slices]
    if deployment is not None:
        deployment["metadata"]["namespace"] = "kube-system"
        objects[built_in.DEPLOYMENT] = [deployment]
        objects[tree.REPLICASET] = [owned(tree.REPLICASET, "coredns-1", "coredns", {})]
        objects[built_in.POD] = [pod] if pod is not None else []
    return tree.build(OWN, objects)


@pytest.mark.parametrize("ready", [(True,), (True, False)])
def test_dns_of_which_one_pod_answers_is_nothing_to_tell(ready: tuple[bool, ...]) -> None:
    picture = dns(*ready, deployment=owned(built_in.DEPLOYMENT, "coredns", None, {"observedGeneration": 1}))
    assert picture.is_ready
    assert status.blockers(picture) == []
    assert drawn(picture).splitlines()[0] == "Ready: OpenStackControlPlane openstack/cloud, for 5 min"


@pytest.mark.parametrize("ready", [(), (False, False)])
def test_dns_that_nobody_answers_for_is_named_where_all_objects_are_ready(ready: tuple[bool, ...]) -> None:
    """Scaled to nothing, deleted, or served by what is no Deployment: the Service tells."""
    picture = dns(*ready)
    text = drawn(picture).splitlines()
    assert text[0].startswith("Waits for Service kube-system/kube-dns: no pod of the cluster's DNS is ready: names are")
    assert any("Service kube-system/kube-dns" in line for line in text[1:])
    told = status.plain(picture)
    assert (told["ready"], [one["name"] for one in told["waitsFor"]]) == (False, ["kube-dns"])


def test_dns_whose_pod_does_not_start_is_told_of_with_the_reason_of_the_pod() -> None:
    deployment = owned(built_in.DEPLOYMENT, "coredns", None, {"observedGeneration": 1})
    state = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    pod_status = {"phase": "Pending", "containerStatuses": [{"name": "coredns", "state": state}]}
    pod = owned(built_in.POD, "coredns-1-a", "coredns-1", pod_status)
    pod["metadata"]["namespace"] = "kube-system"
    (found,) = status.blockers(dns(deployment=deployment, pod=pod))
    assert (found.label, found.message) == (
        "Pod kube-system/coredns-1-a",
        "container coredns: ErrImagePull: no such image",
    )


def test_a_cluster_whose_dns_is_elsewhere_is_not_said_to_have_none() -> None:
    picture = tree.build(OWN, {kinds.CONTROL_PLANE: [of_ours(kinds.CONTROL_PLANE, "cloud")]})
    assert picture.dns is None
    assert picture.is_ready


def test_a_spec_that_was_changed_after_the_last_look_is_not_ready() -> None:
    item = of_ours(kinds.CONTROL_PLANE, "cloud")
    item["metadata"]["generation"] = 2
    picture = tree.build(OWN, {kinds.CONTROL_PLANE: [item]})
    assert not picture.is_ready
    assert picture.roots[0].message == "the operator has not looked at it yet"


def test_an_object_that_is_going_is_not_ready() -> None:
    item = of_ours(kinds.CONTROL_PLANE, "cloud")
    item["metadata"]["deletionTimestamp"] = SINCE
    assert tree.build(OWN, {kinds.CONTROL_PLANE: [item]}).roots[0].state == "deleting"


# --- what is shown --------------------------------------------------------------------------------------------------


def test_the_first_line_is_the_answer_and_the_tree_fits_eighty_columns() -> None:
    text = drawn(
        cloud(
            db=of_ours(kinds.MARIADB, "mariadb", "starting"),
            cache=of_ours(kinds.MEMCACHED, "memcached"),
            keystone=of_ours(kinds.KEYSTONE, "keystone", "MariaDB openstack/mariadb has no database for it yet"),
        )
    )
    assert [line.rstrip() for line in text.splitlines()] == [
        "Waits for MariaDB openstack/mariadb: starting (for 5 min)",
        "",
        "… OpenStackControlPlane openstack/cloud  Waiting              5 min",
        "├─ … MariaDB mariadb                     Waiting              5 min",
        "├─ ✓ Memcached memcached                 Ready                5 min",
        "└─ … Keystone keystone                   Waiting              5 min",
        "       waits for MariaDB mariadb",
    ]


def test_no_line_of_a_real_clouds_tree_is_longer_than_the_screen() -> None:
    text = drawn(recorded("image-missing"), everything=True, force_terminal=True, color_system=None)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


def test_somebody_who_must_act_is_told_so() -> None:
    stalled = of_ours(kinds.KEYSTONE, "keystone", "Secret openstack/mine does not exist", stalled=True)
    assert drawn(cloud(keystone=stalled)).splitlines()[0] == (
        "Needs you: Keystone openstack/keystone: Secret openstack/mine does not exist (for 5 min)"
    )


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = cloud(db=of_ours(kinds.MARIADB, "mariadb", "starting"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in drawn(picture, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in drawn(picture, force_terminal=True, color_system="standard")


def test_json_names_what_is_waited_for_and_holds_the_whole_tree() -> None:
    content = status.plain(recorded("image-missing"))
    assert content["ready"] is False
    assert [(one["kind"], one["name"]) for one in content["waitsFor"]] == [("Pod", "mariadb-0")]
    assert content["clouds"][0]["children"][0]["children"][0]["children"][0]["name"] == "mariadb-0"
    json.dumps(content)


@pytest.mark.parametrize(
    ("seconds", "said"), [(5, "5 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 d")]
)
def test_ages_are_told_in_the_largest_unit_that_tells_enough(seconds: int, said: str) -> None:
    assert status.age(SINCE, datetime.datetime.fromisoformat(SINCE) + datetime.timedelta(seconds=seconds)) == said


# --- with a real API server -----------------------------------------------------------------------------------------


def test_the_exit_code_follows_an_installation_from_nothing_to_ready(
    own_apiserver: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*, as_json: bool = False) -> tuple[int, str]:
        code = status.run(str(own_apiserver.kubeconfig), None, as_json=as_json, everything=False)
        return code, capsys.readouterr().out

    assert run() == (3, NOT_INSTALLED)
    for service in controlplane.EVERYTHING:
        for kind in service.kinds:
            own_apiserver.apply(built_in.crd(kind))
    own_apiserver.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    code, text = run()
    assert (code, text.splitlines()[0]) == (3, "There is no OpenStackControlPlane in this cluster.")

    own_apiserver.apply({**HEAD, "metadata": {"name": "cloud", "namespace": "default"}})
    code, text = run()
    assert code == 3
    assert text.startswith("Waits for OpenStackControlPlane default/cloud: the operator has not looked at it yet")

    ready = condition("Ready", "True", reason="Ready")
    path = kinds.CONTROL_PLANE.path("default", "cloud", "status")
    own_apiserver.request("PUT", path, _with_status(own_apiserver, {"conditions": [ready]}))
    code, text = run()
    assert (code, text.startswith("Ready: OpenStackControlPlane default/cloud")) == (0, True)
    code, text = run(as_json=True)
    assert (code, json.loads(text)["ready"]) == (0, True)

    # The API server takes slices for what it is told: nobody but their controller looks whether there is a Service.
    own_apiserver.apply(_slice(ready=False))
    code, text = run()
    assert (code, text.startswith("Waits for Service kube-system/kube-dns: no pod of the cluster's DNS")) == (3, True)
    own_apiserver.apply(_slice(ready=True))
    assert run()[0] == 0


def _slice(*, ready: bool) -> Object:
    return {
        "apiVersion": built_in.ENDPOINTSLICE.api_version,
        "kind": built_in.ENDPOINTSLICE.kind,
        "metadata": {
            "name": "kube-dns-a",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.244.1.2"], "conditions": {"ready": ready}}],
    }


def test_a_cluster_that_does_not_answer_is_an_error_and_not_a_missing_cloud(own_apiserver: ControlPlane) -> None:
    own_apiserver.kill("kube-apiserver")
    with pytest.raises(errors.ApiUnreachableError, match=r"^no answer from the API server https://\S+: GET /\S+: "):
        status.run(str(own_apiserver.kubeconfig), None, as_json=False, everything=False)


def test_a_cluster_without_its_store_says_so_before_requests_time_out(
    own_apiserver: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    own_apiserver.kill("etcd")
    with pytest.raises(errors.ApiUnreachableError, match=r"^the API server https://\S+ is not ready: (\S+, )?etcd"):
        status.run(str(own_apiserver.kubeconfig), None, as_json=False, everything=False)
    gc.collect()
    assert caplog.text == "", "nothing of what was given up is told"


HEAD = {"apiVersion": kinds.CONTROL_PLANE.api_version, "kind": kinds.CONTROL_PLANE.kind}
NOT_INSTALLED = (
    "The operator is not installed: this cluster knows no OpenStackControlPlane.\n"
    "Install it with: kubectl apply --server-side -f deploy/install.yaml\n"
)


def _with_status(apiserver: ControlPlane, content: Object) -> Object:
    item: Object = apiserver.request("GET", kinds.CONTROL_PLANE.path("default", "cloud"))
    return {**item, "status": content}
