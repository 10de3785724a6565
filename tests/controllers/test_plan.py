"""`openstack-operator plan` followed by `apply` does exactly what the plan says, at a real API server."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from openstack_operator.cli import live, plan, simulation
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import client, errors, kinds
from openstack_operator.runtime.client import Object

Found = dict[tuple[str, str], str]

WRITTEN = (
    ours.CONTROL_PLANE, ours.MEMCACHED, ours.RABBITMQ, ours.MARIADB, ours.KEYSTONE, ours.PLACEMENT, ours.NOVA,
    ours.NOVA_API, ours.NOVA_CELL, ours.NOVA_COMPUTE, ours.NOVA_CONDUCTOR, ours.NOVA_SCHEDULER, ours.NOVA_METADATA,
    ours.NOVA_NOVNCPROXY, kinds.CONFIGMAP, kinds.SECRET, kinds.SERVICE, kinds.DEPLOYMENT, kinds.STATEFULSET,
    kinds.DAEMONSET, kinds.JOB, kinds.CRONJOB, kinds.PDB, kinds.PVC,
)  # fmt: skip


@pytest.fixture(autouse=True)
def logs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan silences the log of its process, which here is the operator's as well."""
    monkeypatch.setattr(plan.logs, "configure", lambda *_: None)


async def snapshot(world: Any) -> dict[tuple[str, str], Object]:
    """Everything that an operator writes, without status and what the server counts."""
    found = {}
    for resource in WRITTEN:
        for item in await world.all(resource):
            if not item["metadata"]["name"].startswith("kube-root-ca"):
                found[resource.kind, item["metadata"]["name"]] = comparable(item)
    return found


def comparable(item: Object) -> Object:
    """What a plan foretells: not addresses, ports and hashes that the server chooses, nor the annotation of kubectl."""
    shown = plan._shown(simulation.essence(item))
    # The revision is counted by a controller of Kubernetes; a Job's selector is made of its uid.
    shown["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    shown["metadata"].get("annotations", {}).pop("deprecated.daemonset.template.generation", None)
    return shown


def verbs(before: dict[tuple[str, str], Object], after: dict[tuple[str, str], Object]) -> Found:
    """What became of each object."""
    found = {}
    for place in before.keys() | after.keys():
        if place not in before:
            found[place] = "create"
        elif place not in after:
            found[place] = "delete"
        elif before[place] != after[place]:
            found[place] = "change"
    return found


def changes(before: Object, after: Object) -> dict[str, Any]:
    return {one.path: (one.before, one.after, one.lines) for one in plan._compared(before, after, "")}


async def planned(world: Any, *documents: Object, services: tuple[str, ...] = ("keystone",)) -> plan.Plan:
    text = yaml.safe_dump_all(documents)
    config = client.Config.from_kubeconfig(world.cluster.kubeconfig)
    return await plan.make(text, config, world.namespace, services)


def document(resource: kinds.Resource, name: str, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}


async def rolled_out(world: Any, operator: Any, spec: Object | None = None) -> None:
    """A Keystone that works, as far as it can be without a real one."""
    for resource, name in ((ours.MARIADB, "mariadb"), (ours.MEMCACHED, "memcached")):
        await world.create(resource, name, {})
    await world.patch(ours.MEMCACHED, "memcached", {"status": {"servers": ["memcached-0:11211"]}}, "status")
    world.cluster.apply(
        document(ours.KEYSTONE, "keystone", spec or {})
        | {"metadata": {"name": "keystone", "namespace": world.namespace}}
    )
    await world.grant(ours.MARIADB, "databases", "mariadb", "keystone")
    await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
    await operator.settle()


CHANGES = {
    "a lifetime": {"token": {"expirationSeconds": 7200}},
    "users' text": {"customServiceConfig": "[token]\nallow_expired_window = 5\n"},
    "an image": {"containerImage": "localhost/another:1"},
    "more pods": {"replicas": 3},
    "a node port": {"publicEndpoint": {"type": "NodePort", "host": "cloud.example", "nodePort": 31997}},
    "where pods run": {"nodeSelector": {"a": "b"}},
    "the schedule": {"fernet": {"rotationHours": 12}},
    "nothing": {},
    "a comment": {"customServiceConfig": "# nothing\n"},
}


@pytest.mark.parametrize("spec", CHANGES.values(), ids=CHANGES)
async def test_what_is_applied_does_what_was_planned(world: Any, spec: Object) -> None:
    async with world.operator("keystone") as operator:
        await rolled_out(world, operator)
        before = await snapshot(world)
        versions = {
            item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in await world.all(ours.KEYSTONE)
        }
        foretold = await planned(world, document(ours.KEYSTONE, "keystone", spec))
        assert {
            item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in await world.all(ours.KEYSTONE)
        } == versions, "a plan changes nothing"
        assert await snapshot(world) == before

        body = document(ours.KEYSTONE, "keystone", spec)
        body["metadata"]["namespace"] = world.namespace
        world.cluster.apply(body)
        await operator.settle()
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
        await operator.settle()
        after = await snapshot(world)
    # Kubernetes rolls a Deployment; its pods are nobody's object here.
    assert {(one.kind, one.name): one.verb for one in foretold.changes} == verbs(before, after)
    for one in foretold.changes:
        place = (one.kind, one.name)
        if one.verb == "change" and one.kind != "Secret":
            said = {each.path: (each.before, each.after, each.lines) for each in one.differences}
            assert said == changes(before[place], after[place]), place


async def test_pods_jobs_and_their_order_are_foretold(world: Any) -> None:
    async with world.operator("keystone") as operator:
        await rolled_out(world, operator)
        foretold = await planned(world, document(ours.KEYSTONE, "keystone", {"containerImage": "localhost/another:1"}))
    told = [(one.wave, one.verb, one.kind, one.pods, one.downtime) for one in foretold.changes if one.pods]
    assert told == [
        (0, "create", "Job", "runs", ""),
        (1, "change", "Deployment", "replaces 1 pod", "none: new pods serve before old ones go"),
    ]
    text = "\n".join(plan._text(foretold))
    assert (
        "Plan: 1 to create, 3 to change, 1 to delete; pods are replaced of keystone-api; 1 Job would run; no downtime."
        in text
    )
    assert foretold.outside == ()


async def test_what_is_done_outside_of_the_cluster_is_told(world: Any) -> None:
    async with world.operator("keystone") as operator:
        await rolled_out(world, operator)
        await world.secret("brought", password="another")
        spec = {"adminPasswordSecretRef": {"name": "brought"}}
        foretold = await planned(world, document(ours.KEYSTONE, "keystone", spec))
        assert foretold.outside == ("Keystone keystone: the project of service users in Keystone",)
        # A Secret in the same file is not there yet.
        spec = {"adminPasswordSecretRef": {"name": "coming"}}
        coming = document(kinds.SECRET, "coming", {}) | {"stringData": {"password": "third"}}
        del coming["spec"]
        foretold = await planned(world, coming, document(ours.KEYSTONE, "keystone", spec))
    assert not any(text.startswith("Keystone") for text in foretold.unready)
    assert ("change", "Secret", "keystone-admin") in {(one.verb, one.kind, one.name) for one in foretold.changes}


async def test_the_check_of_the_text_speaks_and_secrets_do_not(world: Any) -> None:
    async with world.operator("keystone") as operator:
        await rolled_out(world, operator)
        await world.secret("brought", password="so-very-secret")
        spec = {
            "customServiceConfig": "[token]\nexpirationn = 5\n",
            "credentials": {"database": {"name": "brought"}},
        }
        foretold = await planned(world, document(ours.KEYSTONE, "keystone", spec))
    assert any("expirationn" in warning and "did you mean expiration?" in warning for warning in foretold.warnings)
    secret = next(one for one in foretold.changes if one.kind == "Secret" and one.name == "keystone-db")
    assert {(each.before, each.after) for each in secret.differences} == {(live.HIDDEN, live.HIDDEN)}
    for text in (plan._json(foretold), "\n".join(plan._text(foretold))):
        assert "so-very-secret" not in text
        assert "c28tdmVyeS1zZWNyZXQ" not in text


async def test_text_in_secrets_is_planned_by_name_and_never_shown(world: Any) -> None:
    """At the object's own level, and handed down; a Secret that exists, and another content of it in the file."""
    async with world.operator("keystone") as operator:
        await rolled_out(world, operator)
        await world.secret("options", **{"k.conf": "[token]\nexpiration = 414243\n"})
        named = {"name": "options", "key": "k.conf"}
        origin = "spec.customServiceConfig of OpenStackControlPlane cloud"
        own = {"configSecrets": [named]}
        above = {"inheritedConfig": [{"origin": origin, "secrets": [named], "shared": True}]}
        for spec in (own, above):
            body = document(ours.KEYSTONE, "keystone", spec)
            foretold = await planned(world, body)
            told = {(one.kind, one.name): one for one in foretold.changes}
            (difference,) = told["Secret", "keystone-config-secrets"].differences
            assert difference.path.startswith("data.keystone.conf.9")
            assert (difference.before, difference.after) == (None, live.HIDDEN)
            assert told["Deployment", "keystone-api"].pods == "replaces 1 pod"
            nothing_is_shown(foretold, "414243")
        # The operator reads it now, so that another content is planned as well.
        body["metadata"]["namespace"] = world.namespace
        world.cluster.apply(document(ours.KEYSTONE, "keystone", own) | {"metadata": body["metadata"]})
        await operator.settle()
        changed = document(kinds.SECRET, "options", {}) | {"stringData": {"k.conf": "[token]\nexpiration = 515253\n"}}
        del changed["spec"]
        foretold = await planned(world, changed)
        told = {(one.kind, one.name): one for one in foretold.changes}
        assert {(one.before, one.after) for one in told["Secret", "keystone-config-secrets"].differences} == {
            (live.HIDDEN, live.HIDDEN)
        }
        nothing_is_shown(foretold, "414243", "515253")


def nothing_is_shown(foretold: plan.Plan, *values: str) -> None:
    for shown in (plan._json(foretold), "\n".join(plan._text(foretold))):
        for value in values:
            assert value not in shown
            # As it stands in a Secret, wherever a group of three bytes begins.
            assert all(base64.b64encode(value[start:].encode())[:4].decode() not in shown for start in range(3))


def test_all_data_of_a_secret_that_had_none_is_hidden() -> None:
    empty: Object = {"metadata": {"name": "s"}}
    full = {**empty, "data": {"a": "c28="}}
    for before, now in ((empty, full), (full, empty)):
        (difference,) = plan._differences(kinds.SECRET, before, now)
        assert difference.path == "data"
        assert {difference.before, difference.after} == {None, live.HIDDEN}


async def test_what_the_server_refuses_is_refused(world: Any) -> None:
    with pytest.raises(errors.ApiError, match=r"spec\.replicas"):
        await planned(world, document(ours.KEYSTONE, "keystone", {"replicas": -1}))
    with pytest.raises(errors.ApiError, match=r'unknown field "spec\.replicass"'):
        await planned(world, document(ours.KEYSTONE, "keystone", {"replicass": 1}))


async def test_a_new_object_is_planned_as_a_whole(world: Any) -> None:
    foretold = await planned(world, document(ours.MEMCACHED, "cache", {"replicas": 2}), services=("memcached",))
    assert {(one.verb, one.kind, one.name) for one in foretold.changes} >= {
        ("create", "Memcached", "cache"),
        ("create", "StatefulSet", "cache"),
        ("create", "Service", "cache"),
    }
    assert foretold.unready == ()
    assert await world.names(kinds.STATEFULSET) == []


async def test_text_for_one_group_of_computes_changes_nothing_of_the_others(world: Any) -> None:
    """The journey of seed 004 in one step."""
    text = {"customServiceConfig": "[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\n"}
    for resource in (ours.MARIADB, ours.RABBITMQ, ours.MEMCACHED, ours.KEYSTONE, ours.PLACEMENT):
        await world.create(resource, resource.kind.lower(), {})
    await world.patch(ours.MEMCACHED, "memcached", {"status": {"servers": ["memcached-0:11211"]}}, "status")
    urls = {"internalUrl": "http://k.test.svc:5000/v3", "publicUrl": "http://k.test.svc:5000/v3"}
    await world.patch(ours.KEYSTONE, "keystone", {"status": urls}, "status")
    await world.secret("neutron-metadata", secret="shared")
    async with world.operator("nova") as operator:
        body = document(ours.NOVA, "nova", {"cellTemplates": {"cell1": {}}})
        body["metadata"]["namespace"] = world.namespace
        world.cluster.apply(body)
        await world.grant(ours.MARIADB, "databases", "mariadb", "nova_api", "nova_cell0", "nova_cell1")
        await world.grant(ours.RABBITMQ, "vhosts", "rabbitmq", "nova", "nova-cell1")
        await world.until_condition(ours.NOVA_COMPUTE, "nova-cell1-compute", "ConfigReady")
        await operator.settle()
        before = await snapshot(world)
        body["spec"] = {"cellTemplates": {"cell1": {"computes": {"compute": text}}}}
        foretold = await planned(world, body, services=("nova",))
        assert await snapshot(world) == before
        world.cluster.apply(body)
        await operator.settle()
        after = await snapshot(world)
    said = {(one.kind, one.name): one.verb for one in foretold.changes}
    assert said == verbs(before, after)
    assert said == {
        ("Nova", "nova"): "change",
        ("NovaCell", "nova-cell1"): "change",
        ("NovaCompute", "nova-cell1-compute"): "change",
        ("ConfigMap", "nova-cell1-compute-config-data"): "change",
    }


@pytest.mark.parametrize(
    ("last", "wanted", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": None}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, {"a": {"b": None, "c": 2}}),
    ],
)
def test_a_patch_is_that_of_kubectl(last: Object, wanted: Object, patch: Object) -> None:
    assert plan.three_way(last, wanted) == patch


def test_changes_of_two_who_do_not_know_of_each_other_add_up() -> None:
    base = {"spec": {"replicas": 1, "databases": [{"name": "a", "ref": 1}]}}
    one = {"spec": {"replicas": 1, "databases": [{"name": "a", "ref": 1}, {"name": "b", "ref": 2}]}}
    other = {"spec": {"replicas": 3, "databases": [{"name": "a", "ref": 1}, {"name": "c", "ref": 3}]}}
    new = simulation.merged(base, other, simulation.merged(base, one, base))
    assert new["spec"]["replicas"] == 3
    assert [entry["name"] for entry in new["spec"]["databases"]] == ["a", "b", "c"]
