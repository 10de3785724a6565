"""Rollouts, changes and ends of services against a real kube-apiserver and its controllers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import Any

import pytest
from cloud import config_hash, publish, rolled_out, surroundings, writes
from world import condition, decoded

from openstack_operator.kit import kinds as ours
from openstack_operator.kit import labels
from openstack_operator.runtime import conditions, errors, kinds, metrics

GLANCE_API = (kinds.DEPLOYMENT, "glance-api")
PLACEMENT_API = (kinds.DEPLOYMENT, "placement-api")


# --- configuration --------------------------------------------------------------------------------------------------


async def test_an_override_that_is_taken_back_is_gone_and_rolls_once_each_way(world: Any) -> None:
    """Case 19. Regression f82."""
    async with world.operator("glance"):
        await surroundings(world)
        await rolled_out(world, ours.GLANCE)
        plain = await config_hash(world, *GLANCE_API)
        await world.patch(ours.GLANCE, "glance", {"spec": {"customServiceConfig": "[DEFAULT]\ndebug = true\n"}})
        await world.until_condition(ours.GLANCE, "glance", "DeploymentReady")
        assert await config_hash(world, *GLANCE_API) != plain
        await world.patch(ours.GLANCE, "glance", {"spec": {"customServiceConfig": None}})
        await world.until_condition(ours.GLANCE, "glance", "DeploymentReady")
    assert await config_hash(world, *GLANCE_API) == plain
    data = (await world.get(kinds.CONFIGMAP, "glance-config-data"))["data"]
    assert sorted(data) == ["glance-api.conf.10-generated", "uwsgi.ini"]


async def test_many_passes_a_restart_and_another_order_of_keys_write_nothing(world: Any) -> None:
    """Case 20, case 120. Regression r34."""
    spec = {
        "resources": {"requests": {"cpu": "1000m", "memory": "512Mi"}, "limits": {"cpu": "1.0", "memory": "0.8Gi"}},
        "nodeSelector": {"a": "1", "b": "2"},
        "publicEndpoint": {"type": "NodePort", "host": "192.0.2.1"},
    }
    async with world.operator("glance", "placement") as operator:
        await surroundings(world)
        await rolled_out(world, ours.PLACEMENT, **spec)
        await operator.settle()
        before = world.cluster.audit_size()
        runners = [runner for runner in operator.manager.runners if runner.controller.kind.resource == ours.PLACEMENT]
        for _ in range(50):
            runners[0].enqueue((world.namespace, "placement"))
            await operator.settle()
    async with world.operator("glance", "placement") as operator:
        await operator.settle()
        assert await writes(world, before) == []
        turned = {"nodeSelector": {"b": "2", "a": "1"}}
        await world.patch(ours.PLACEMENT, "placement", {"spec": turned})
        await operator.settle()
    assert await writes(world, before) == []


async def test_patches_of_others_in_the_middle_of_an_installation_lose_nothing_and_double_nothing(world: Any) -> None:
    """Case 121. Regression f22: somebody patches the object and what it owns all the time, until it is gone again. Each
    100 ms would be three times here, where nothing but decisions takes time."""
    failed = metrics.RECONCILES.labels(ours.GLANCE.kind, "error")._value
    before, number = failed.get(), 0

    async def patching() -> None:
        nonlocal number
        while True:
            number += 1
            for resource, name, patch in (
                (ours.GLANCE, "glance", {"metadata": {"annotations": {"note": str(number)}}}),
                (kinds.CONFIGMAP, "glance-config-data", {"data": {f"foreign-{number % 2}": "x"}}),
                (kinds.SECRET, "glance-db", {"metadata": {"annotations": {"note": str(number)}}}),
                (*GLANCE_API, {"metadata": {"annotations": {"note": str(number)}}}),
            ):
                with contextlib.suppress(errors.ApiError):
                    await world.patch(resource, name, patch)
            await asyncio.sleep(0.01)

    async with world.operator("glance") as operator:
        await surroundings(world)
        tasks = [asyncio.ensure_future(one) for one in (patching(), world.play_servers())]
        await rolled_out(world, ours.GLANCE)
        jobs, deployments = await world.names(kinds.JOB), await world.names(kinds.DEPLOYMENT)
        await world.delete(ours.GLANCE, "glance")
        await world.until_gone(ours.GLANCE, "glance")
        for task in tasks:
            task.cancel()
        await operator.settle()
    assert number > 5
    assert failed.get() == before
    assert deployments == ["glance-api"]
    assert [name.rpartition("-")[0] for name in jobs] == ["glance-db-sync"]


async def test_a_change_of_an_unrelated_key_of_a_shared_secret_rolls_nothing(world: Any) -> None:
    """Case 26."""
    await world.secret("shared", glance="one", placement="two", heat="three")
    async with world.operator("glance", "placement") as operator:
        await surroundings(world)
        for resource in (ours.GLANCE, ours.PLACEMENT):
            reference = {"serviceUser": {"name": "shared", "key": resource.kind.lower()}}
            await rolled_out(world, resource, credentials=reference)
        await operator.settle()
        hashes = [await config_hash(world, *which) for which in (GLANCE_API, PLACEMENT_API)]
        changes: list[dict[str, Any]] = [
            {"data": {"heat": base64.b64encode(b"changed").decode()}},
            {"data": {"added": base64.b64encode(b"key").decode()}},
            {"metadata": {"annotations": {"note": "changed"}}},
        ]
        before = world.cluster.audit_size()
        for change in changes:
            await world.patch(kinds.SECRET, "shared", change)
            await operator.settle()
        assert await writes(world, before) == []

        await world.patch(kinds.SECRET, "shared", {"data": {"glance": base64.b64encode(b"changed").decode()}})
        await world.until(
            kinds.DEPLOYMENT,
            lambda item: item["spec"]["template"]["metadata"]["annotations"].popitem()[1] != hashes[0],
            "glance-api",
        )
        await operator.settle()
    assert await config_hash(world, *PLACEMENT_API) == hashes[1]


async def test_another_url_of_keystone_rolls_the_services_that_hold_it(world: Any) -> None:
    """Case 42, case 43. Regression f19."""
    async with world.operator("glance") as operator:
        await surroundings(world)
        await rolled_out(world, ours.GLANCE)
        await operator.settle()
        first = await config_hash(world, *GLANCE_API)
        await publish(world, "https://keystone-internal.ns.svc:5000/v3", "https://identity.example.org/v3")
        await world.until(
            kinds.DEPLOYMENT,
            lambda item: item["spec"]["template"]["metadata"]["annotations"].popitem()[1] != first,
            "glance-api",
        )
    text = (await world.get(kinds.CONFIGMAP, "glance-config-data"))["data"]["glance-api.conf.10-generated"]
    assert "auth_url = https://keystone-internal.ns.svc:5000/v3" in text.splitlines()
    assert "www_authenticate_uri = https://identity.example.org/v3" in text.splitlines()


async def test_pods_that_are_not_ready_do_not_change_the_published_url(world: Any) -> None:
    """Case 43: a URL is never replaced because of readiness."""
    async with world.operator("placement") as operator:
        await surroundings(world)
        item = await rolled_out(world, ours.PLACEMENT, publicEndpoint={"type": "NodePort", "host": "cloud.example.org"})
        url = item["status"]["publicUrl"]
        assert url.startswith("http://cloud.example.org:")
        (pod,) = [one for one in await world.all(kinds.POD) if "placement-api" in one["metadata"]["name"]]
        not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await world.patch(kinds.POD, pod["metadata"]["name"], not_ready, "status")
        item = await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady", "False", "RollingOut")
        await operator.settle()
    assert (item["status"]["publicUrl"], condition(item, "EndpointsReady")[0]) == (url, "True")


async def test_the_stateful_set_of_an_earlier_version_goes_when_the_deployment_serves_and_its_claim_stays(
    world: Any,
) -> None:
    tags = labels.common("glance", "glance", "api")
    spec = {
        "serviceName": "glance-members",
        "replicas": 0,
        "selector": {"matchLabels": tags},
        "template": {
            "metadata": {"labels": tags},
            "spec": {"containers": [{"name": "glance-api", "image": "image"}]},
        },
    }
    head = {"name": "glance-api", "namespace": world.namespace, "labels": tags}
    await world.create(kinds.STATEFULSET, "glance-api", spec, metadata=head)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}
    first = await world.create(kinds.PVC, "images-glance-api-0", claim)
    async with world.operator("glance") as operator:
        await surroundings(world)
        await rolled_out(world, ours.GLANCE)
        await operator.settle()
    assert await world.find(kinds.STATEFULSET, "glance-api") is None
    kept = await world.get(kinds.PVC, "images-glance-api-0")
    assert kept["metadata"]["uid"] == first["metadata"]["uid"]
    assert kept["spec"]["resources"] == claim["resources"]
    # Its volume goes with the Glance, as spec.storageRetention says by default.
    assert [one["kind"] for one in kept["metadata"]["ownerReferences"]] == ["Glance"]
    (volume,) = [
        one
        for one in (await world.get(*GLANCE_API))["spec"]["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in one
    ]
    assert volume["persistentVolumeClaim"] == {"claimName": "images-glance-api-0"}


# --- credentials ----------------------------------------------------------------------------------------------------


async def test_a_new_password_is_valid_in_the_server_before_any_pod_uses_it(world: Any) -> None:
    """Case 32. Regression h11."""
    await world.secret("mine", password="old-$%@/#")
    async with world.operator("glance") as operator:
        await surroundings(world)
        await rolled_out(world, ours.GLANCE, credentials={"database": {"name": "mine"}})
        await operator.settle()
        first = await config_hash(world, *GLANCE_API)
        new = base64.b64encode(b"new+'\"").decode()
        await world.patch(kinds.SECRET, "mine", {"data": {"password": new}})
        await world.until_condition(ours.GLANCE, "glance", "DatabaseReady", "False", "NotGranted")
        await operator.settle()
        assert decoded(await world.get(kinds.SECRET, "glance-db"))["password"] == "new+'\""
        assert await config_hash(world, *GLANCE_API) == first, "pods keep the old one until MariaDB knows the new one"

        await world.grant(ours.MARIADB, "databases", "mariadb", "glance")
        await world.until_condition(ours.GLANCE, "glance", "DeploymentReady")
    assert await config_hash(world, *GLANCE_API) != first
    secret = decoded(await world.get(kinds.SECRET, "glance-config-secrets"))["glance-api.conf.20-secret"]
    assert "connection = mysql+pymysql://glance:new%2B%27%22@mariadb." in secret


async def test_passwords_of_users_stand_in_secrets_and_nowhere_else(world: Any) -> None:
    """Case 128. Regression r16."""
    password = "leak-me-123"
    await world.secret("mine", password=password)
    reference = {"name": "mine"}
    async with world.operator("glance", "placement") as operator:
        await surroundings(world)
        for resource in (ours.GLANCE, ours.PLACEMENT):
            await rolled_out(world, resource, credentials={"database": reference, "serviceUser": reference})
        await operator.settle()
    shown = (
        kinds.CONFIGMAP, kinds.SERVICE, kinds.DEPLOYMENT, kinds.STATEFULSET, kinds.JOB, kinds.POD, kinds.EVENT,
        ours.GLANCE, ours.PLACEMENT, ours.MARIADB,
    )  # fmt: skip
    for resource in shown:
        text = str(await world.all(resource))
        assert password not in text, resource
        assert base64.b64encode(password.encode()).decode() not in text, resource


# --- order and Jobs -------------------------------------------------------------------------------------------------


async def test_what_is_deleted_before_its_database_ever_was_there_goes_at_once(world: Any) -> None:
    """Case 36, case 103 (d)."""
    async with world.operator("glance") as operator:
        await world.create(ours.GLANCE, "glance", {})
        await world.until_condition(ours.GLANCE, "glance", "DatabaseReady", "False", "NotFound")
        await operator.settle()
        await world.delete(ours.GLANCE, "glance")
        await world.until_gone(ours.GLANCE, "glance")


async def test_migrations_run_once_for_an_image_and_a_configuration(world: Any) -> None:
    """Case 37: an operator that starts anew runs nothing again; a Job deleted by hand runs again alone.
    Regression f1, f80, f81."""
    async with world.operator("placement") as operator:
        await surroundings(world)
        await rolled_out(world, ours.PLACEMENT)
        await operator.settle()
    (job,) = await world.all(kinds.JOB)
    async with world.operator("placement") as operator:
        await operator.settle()
        assert [one["metadata"]["uid"] for one in await world.all(kinds.JOB)] == [job["metadata"]["uid"]]
        deployment = await world.get(*PLACEMENT_API)
        await world.delete(kinds.JOB, job["metadata"]["name"])
        await world.until(
            kinds.JOB,
            lambda item: (
                item is not None
                and item["metadata"]["uid"] != job["metadata"]["uid"]
                and item.get("status", {}).get("succeeded")
            ),
            job["metadata"]["name"],
        )
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")
    assert len(await world.all(kinds.JOB)) == 1
    assert (await world.get(*PLACEMENT_API))["spec"] == deployment["spec"], "pods stay as they are"


async def test_an_image_that_changes_during_its_migration_gets_a_job_of_its_own(world: Any) -> None:
    """Case 38."""
    world.node.hold("placement/db-sync")
    async with world.operator("placement") as operator:
        await surroundings(world)
        await world.create(ours.PLACEMENT, "placement", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", "placement")
        await world.until_condition(ours.PLACEMENT, "placement", "DatabaseSyncReady", "False", "JobRunning")
        (old,) = await world.all(kinds.JOB)
        await world.patch(ours.PLACEMENT, "placement", {"spec": {"images": {"tag": "other"}}})
        await world.until_gone(kinds.JOB, old["metadata"]["name"])
        await operator.settle()
        (new,) = await world.all(kinds.JOB)
        assert new["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":other")
        await world.node.release("placement/db-sync")
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")


# --- services, replicas ---------------------------------------------------------------------------------------------


async def test_a_service_deleted_by_hand_comes_back_and_what_the_server_set_in_it_stays(world: Any) -> None:
    """Case 39."""
    async with world.operator("placement") as operator:
        await surroundings(world)
        await rolled_out(world, ours.PLACEMENT, publicEndpoint={"type": "NodePort", "host": "192.0.2.1"})
        await operator.settle()
        public = await world.get(kinds.SERVICE, "placement-public")
        uid = (await world.get(kinds.SERVICE, "placement-api"))["metadata"]["uid"]
        await world.delete(kinds.SERVICE, "placement-api")
        await world.until(kinds.SERVICE, lambda one: one is not None and one["metadata"]["uid"] != uid, "placement-api")
        await operator.settle()
    assert (await world.get(kinds.SERVICE, "placement-public"))["spec"] == public["spec"]


@pytest.mark.parametrize("resource", [ours.GLANCE, ours.PLACEMENT], ids=lambda resource: resource.kind)
async def test_zero_replicas_are_what_was_asked_for(world: Any, resource: kinds.Resource) -> None:
    """Case 56: Ready, and 0 does not become 1 by a default. Regression f14."""
    async with world.operator("glance", "placement"):
        await surroundings(world)
        item = await rolled_out(world, resource, replicas=0)
    assert (item["spec"]["replicas"], item["status"]["replicas"]) == (0, 0)
    which = GLANCE_API if resource == ours.GLANCE else PLACEMENT_API
    assert (await world.get(*which))["spec"]["replicas"] == 0


async def test_a_quantity_written_in_another_way_is_the_same_quantity(world: Any) -> None:
    """Case 106, case 61 (5120Mi is 5Gi)."""
    async with world.operator("placement") as operator:
        await surroundings(world)
        await rolled_out(world, ours.PLACEMENT, resources={"requests": {"cpu": "1000m", "memory": "5120Mi"}})
        await operator.settle()
        generation = (await world.get(*PLACEMENT_API))["metadata"]["generation"]
        await world.patch(
            ours.PLACEMENT, "placement", {"spec": {"resources": {"requests": {"cpu": "1.0", "memory": "5Gi"}}}}
        )
        await operator.settle()
    deployment = await world.get(*PLACEMENT_API)
    pods = [one for one in await world.all(kinds.POD) if "placement-api" in one["metadata"]["name"]]
    assert (deployment["metadata"]["generation"], len(pods)) == (generation, 1)


# --- status ---------------------------------------------------------------------------------------------------------


async def test_observed_generation_moves_with_and_without_an_effect_and_never_before_ready(world: Any) -> None:
    """Case 118. Regression f16."""
    async with world.operator("memcached") as operator:
        await world.create(ours.MEMCACHED, "cache", {"containerImage": "registry.example/memcached:1"})
        await world.until_ready(ours.MEMCACHED, "cache")
        await operator.settle()
        item = await world.get(ours.MEMCACHED, "cache")
        times = {one["type"]: one["lastTransitionTime"] for one in item["status"]["conditions"]}
        # The image of the container is given, so this changes nothing below.
        await world.patch(ours.MEMCACHED, "cache", {"spec": {"images": {"tag": "unused"}}})
        item = await world.until_ready(ours.MEMCACHED, "cache")
        assert item["status"]["observedGeneration"] == item["metadata"]["generation"] == 2
        assert {one["type"]: one["lastTransitionTime"] for one in item["status"]["conditions"]} == times

        world.node.hold("memcached/server")
        await world.patch(ours.MEMCACHED, "cache", {"spec": {"maxConnections": 77}})
        item = await world.until_condition(ours.MEMCACHED, "cache", "Ready", "False")
        assert item["status"]["observedGeneration"] == item["metadata"]["generation"] == 3
        await world.node.release("memcached/server")
        await world.until_ready(ours.MEMCACHED, "cache")


# --- the end --------------------------------------------------------------------------------------------------------


async def test_one_of_two_services_on_a_server_goes_and_the_other_keeps_what_it_has(world: Any) -> None:
    """Case 68. Regression f46."""
    async with world.operator("glance", "placement") as operator:
        await surroundings(world)
        await rolled_out(world, ours.GLANCE)
        await rolled_out(world, ours.PLACEMENT)
        await operator.settle()
        first = await config_hash(world, *PLACEMENT_API)
        await world.delete(ours.GLANCE, "glance")
        await world.until(
            ours.MARIADB,
            lambda item: [one["name"] for one in item["spec"]["databases"]] == ["placement"],
            "mariadb",
        )
        # Its finalizer waits until MariaDB has dropped the database.
        item = await world.until(
            ours.GLANCE,
            lambda item: (conditions.find(item, conditions.READY) or {}).get("reason") == conditions.REASON_DELETING,
            "glance",
        )
        message = condition(item, "Ready")[2]
        assert f"MariaDB {world.namespace}/mariadb has not dropped databases glance yet" in message
        await world.grant(ours.MARIADB, "databases", "mariadb", "placement")
        await world.until_gone(ours.GLANCE, "glance")
        await operator.settle()
    assert await config_hash(world, *PLACEMENT_API) == first


async def test_what_was_deleted_while_the_operator_was_away_goes_when_it_is_back(world: Any) -> None:
    """Case 103 (a, c): the Secret with the password may be gone already."""
    async with world.operator("glance") as operator:
        await surroundings(world)
        await rolled_out(world, ours.GLANCE)
        await operator.settle()
    await world.delete(ours.GLANCE, "glance")
    await world.delete(kinds.SECRET, "glance-db")
    async with world.operator("glance"):
        await world.until(ours.MARIADB, lambda item: not item["spec"].get("databases"), "mariadb")
        await world.patch(ours.MARIADB, "mariadb", {"status": {"databases": []}}, "status")
        await world.until_gone(ours.GLANCE, "glance")


async def test_what_waits_for_servers_that_never_answer_says_why_and_a_person_may_let_it_go(world: Any) -> None:
    """Case 103 (b): who takes the finalizer away loses nothing that the servers would still do, and MariaDB is asked
    for nothing whose Secret has gone; Keystone's silence does not come before that."""
    async with world.operator("glance", "placement") as operator:
        await surroundings(world)
        for resource in (ours.GLANCE, ours.PLACEMENT):
            await rolled_out(world, resource)
        await world.secret("keystone-admin", user="admin", password="x", project="admin")
        await world.patch(
            kinds.SECRET, "keystone-admin", {"metadata": {"labels": labels.common("keystone", "keystone")}}
        )
        await has_served(world)
        await world.set_ready(ours.MARIADB, "mariadb", "False", "NotServing", "Pod mariadb-0: does not answer")
        await operator.settle()
        await world.delete(ours.PLACEMENT, "placement")
        item = await world.until_condition(ours.PLACEMENT, "placement", "Ready", "False", "Deleting")
        assert condition(item, "Ready")[2].startswith("KeystoneUnreachable: ")
        await world.until(
            ours.MARIADB, lambda item: [one["name"] for one in item["spec"]["databases"]] == ["glance"], "mariadb"
        )
        await world.delete(ours.KEYSTONE, "keystone")
        where = f"MariaDB {world.namespace}/mariadb"
        message = f"NotDropped: {where} has not dropped databases placement yet (Pod mariadb-0: does not answer)"
        await world.until(ours.PLACEMENT, lambda item: condition(item, "Ready")[2] == message, "placement")
        await operator.settle()

        await world.patch(ours.PLACEMENT, "placement", {"metadata": {"finalizers": None}})
        await world.until_gone(ours.PLACEMENT, "placement")
        for resource, name in (PLACEMENT_API, (kinds.SECRET, "placement-db")):
            await world.until_gone(resource, name)
        await operator.settle()
        server = await world.get(ours.MARIADB, "mariadb")
        # What it has to drop when it answers again.
        assert [one["name"] for one in server["spec"]["databases"]] == ["glance"]
        assert [one["name"] for one in server["status"]["databases"]] == ["glance", "placement"]


async def has_served(world: Any) -> None:
    """Says that the API of the Keystone has run once."""
    item = await world.get(ours.KEYSTONE, "keystone")
    ready = {"type": "DeploymentReady", "status": "True", "reason": "Ready", "message": ""}
    ready |= {"observedGeneration": item["metadata"]["generation"], "lastTransitionTime": conditions.now()}
    await world.patch(ours.KEYSTONE, "keystone", {"status": {"conditions": [ready]}}, "status")


async def test_a_namespace_that_is_deleted_ends_without_a_person(world: Any) -> None:
    """Case 102: nobody waits for a server that goes too, and nothing is made anew. Regression f26, f27, f89."""
    async with world.operator("glance", "placement", "mariadb", "memcached") as operator:
        await surroundings(world)
        for resource in (ours.GLANCE, ours.PLACEMENT):
            await world.create(resource, resource.kind.lower(), {})
        await world.until_condition(ours.MARIADB, "mariadb", "DatabasesReady", "False")
        await operator.settle()
        await world.api.delete(kinds.NAMESPACE, world.namespace, None)
        for resource, name in ((ours.GLANCE, "glance"), (ours.PLACEMENT, "placement"), (ours.MARIADB, "mariadb")):
            await world.until_gone(resource, name)


async def test_of_two_control_planes_in_a_namespace_the_older_one_stays(world: Any) -> None:
    """Case 113. Regression r84."""
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "first", {})
        await world.until_condition(ours.CONTROL_PLANE, "first", "Accepted")
        await operator.settle()
        await world.create(ours.CONTROL_PLANE, "second", {"region": "other"})
        item = await world.until_condition(ours.CONTROL_PLANE, "second", "Accepted", "False", "NamespaceTaken")
        assert condition(item, "Stalled")[0] == "True"
        await operator.settle()
        assert condition(await world.get(ours.CONTROL_PLANE, "first"), "Accepted")[0] == "True"
        assert (await world.get(ours.KEYSTONE, "keystone"))["spec"]["region"] == "RegionOne"


async def test_a_service_that_is_disabled_goes_and_comes_back(world: Any) -> None:
    """Case 110. Regression f59."""
    async with world.operator("openstackcontrolplane") as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", {})
        await world.until(ours.GLANCE, lambda item: item is not None, "glance")
        await operator.settle()
        await world.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"glance": {"enabled": False}}})
        await world.until_gone(ours.GLANCE, "glance")
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "GlanceReady")
        assert await world.find(ours.PLACEMENT, "placement") is not None
        await world.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"glance": {"enabled": True}}})
        await world.until(ours.GLANCE, lambda item: item is not None, "glance")


async def test_a_schema_of_another_service_is_not_taken_over_though_the_names_begin_alike(world: Any) -> None:
    """`glance2-db` is no Secret of `glance`, though it begins like one."""
    entry = {"name": "glance", "secretRef": {"name": "glance2-db"}}
    async with world.operator("glance", "placement") as operator:
        await surroundings(world)
        await world.create(ours.PLACEMENT, "glance2", {})
        await world.until(kinds.SECRET, lambda item: item is not None, "glance2-db")
        await world.patch(ours.MARIADB, "mariadb", {"spec": {"databases": [entry]}})
        await operator.settle()
        await world.create(ours.GLANCE, "glance", {})
        item = await world.until_condition(ours.GLANCE, "glance", "DatabaseReady", "False", "NameInUse")
        message = "MariaDB mariadb: spec.databases 'glance' belongs to Placement glance2: rename one of the two"
        assert condition(item, "DatabaseReady")[2] == message
        assert entry in (await world.get(ours.MARIADB, "mariadb"))["spec"]["databases"]
        await world.patch(ours.MARIADB, "mariadb", {"spec": {"databases": []}})
        await world.until_condition(ours.GLANCE, "glance", "DatabaseReady", "False", "NotGranted")
