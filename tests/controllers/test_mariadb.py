"""MariaDB: the server's objects, and the databases that services ask for up to the seam where the server itself begins
(test_servers.py has a real one)."""

from __future__ import annotations

import base64
from typing import Any

from world import HASH, condition, decoded, states

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds


async def test_a_server_rolls_out_with_a_volume_of_the_asked_size_and_class(world: Any) -> None:
    world.node.hold("mariadb/server")
    spec = {"storageSize": "3Gi", "storageClass": "fast", "storageRetention": "Retain", "bufferPoolMebibytes": 64}
    async with world.operator("mariadb") as operator:
        await world.create(ours.MARIADB, "db", spec)
        item = await world.until_condition(ours.MARIADB, "db", "DeploymentReady", "False", text="pod db-0: ")
        assert states(item) == [
            ("Ready", "False", "RollingOut"),
            ("CredentialsReady", "True", "Ready"),
            ("ConfigReady", "True", "Ready"),
            ("DeploymentReady", "False", "RollingOut"),
            ("DatabasesReady", "Unknown", "Blocked"),
            ("Reconciling", "True", "RollingOut"),
            ("Stalled", "False", "RollingOut"),
        ]
        await world.node.release("mariadb/server")
        await world.until_ready(ours.MARIADB, "db")
        await operator.settle()
    server = (await world.get(kinds.STATEFULSET, "db"))["spec"]
    assert server["serviceName"] == "db-members"
    assert server["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    (claim,) = server["volumeClaimTemplates"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "3Gi"}},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
    }
    assert (await world.get(kinds.SERVICE, "db-members"))["spec"]["clusterIP"] == "None"
    assert (await world.get(kinds.SERVICE, "db"))["spec"]["selector"] == {
        "app.kubernetes.io/name": "mariadb",
        "app.kubernetes.io/instance": "db",
        "app.kubernetes.io/component": "server",
    }
    root = decoded(await world.get(kinds.SECRET, "db-root"))
    assert root["user"] == "root"
    secret = decoded(await world.get(kinds.SECRET, "db-config-secrets"))
    assert f"IDENTIFIED BY '{root['password']}'" in secret["init.sql"]
    data = (await world.get(kinds.CONFIGMAP, "db-config-data"))["data"]
    assert "innodb_buffer_pool_size = 64M" in data["my.cnf"]
    assert root["password"] not in str(data)


async def test_without_a_storage_class_the_clusters_default_one_is_left_to_the_cluster(world: Any) -> None:
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {})
        await world.until_ready(ours.MARIADB, "db")
    (claim,) = (await world.get(kinds.STATEFULSET, "db"))["spec"]["volumeClaimTemplates"]
    assert "storageClassName" not in claim["spec"]


async def test_a_server_that_does_not_answer_is_named_and_stays_unavailable(world: Any) -> None:
    """Regression r39."""
    await world.secret("mine", user="someone", password="x")
    request = {"name": "someone", "secretRef": {"name": "mine"}}
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {"databases": [request]})
        item = await world.until_condition(ours.MARIADB, "db", "DatabasesReady", "False", "DatabaseUnreachable")
    where = f"db.{world.namespace}.svc"
    assert f"MariaDB {where}:3306: " in condition(item, "DatabasesReady")[2]
    assert f"Can't connect to MySQL server on '{where}'" in condition(item, "DatabasesReady")[2]
    assert condition(item, "Stalled")[0] == "False", "it is tried again"
    assert "databases" not in item["status"] or item["status"]["databases"] == []


async def test_a_request_whose_secret_cannot_be_used_is_named(world: Any) -> None:
    """Regression f41."""
    request = {"name": "someone", "secretRef": {"name": "mine"}}
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {"databases": [request]})
        item = await world.until_condition(ours.MARIADB, "db", "DatabasesReady", "False", "SecretInvalid")
        message = f"databases someone: Secret {world.namespace}/mine does not exist"
        assert condition(item, "DatabasesReady")[2] == message
        await world.secret("mine", user="someone")
        await world.until_condition(ours.MARIADB, "db", "DatabasesReady", "False", text="has no key 'password'")
        password = base64.b64encode(b"x").decode()
        await world.patch(kinds.SECRET, "mine", {"data": {"password": password}})
        await world.until_condition(ours.MARIADB, "db", "DatabasesReady", "False", "DatabaseUnreachable")


async def test_a_setting_rolls_the_server_and_a_request_for_a_database_does_not(world: Any) -> None:
    async def template_hash() -> str:
        server = await world.get(kinds.STATEFULSET, "db")
        return str(server["spec"]["template"]["metadata"]["annotations"][HASH])

    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {})
        await world.until_ready(ours.MARIADB, "db")
        first = await template_hash()
        await world.secret("mine", user="someone", password="x")
        request = {"name": "someone", "secretRef": {"name": "mine"}}
        await world.patch(ours.MARIADB, "db", {"spec": {"databases": [request]}})
        await world.until_condition(ours.MARIADB, "db", "DatabasesReady", "False", "DatabaseUnreachable")
        assert await template_hash() == first
        await world.patch(ours.MARIADB, "db", {"spec": {"maxConnections": 77, "databases": []}})
        await world.until_ready(ours.MARIADB, "db")
        assert await template_hash() != first
    data = (await world.get(kinds.CONFIGMAP, "db-config-data"))["data"]
    assert "max_connections = 77\n" in data["my.cnf"]


async def test_zero_replicas_stop_the_server_and_say_so(world: Any) -> None:
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {"replicas": 0})
        item = await world.until_condition(ours.MARIADB, "db", "DeploymentReady", "False", "NoReplicas")
    assert condition(item, "Ready")[2] == "DeploymentReady: spec.replicas is 0: the database is stopped"
    assert (await world.get(kinds.STATEFULSET, "db"))["spec"]["replicas"] == 0


async def test_the_root_password_and_the_cookie_survive_a_restart_of_the_operator(world: Any) -> None:
    async with world.operator("mariadb", "rabbitmq"):
        await world.create(ours.MARIADB, "db", {})
        await world.create(ours.RABBITMQ, "bus", {})
        await world.until_ready(ours.MARIADB, "db")
        await world.until_ready(ours.RABBITMQ, "bus")
    before = [(await world.get(kinds.SECRET, name))["data"] for name in ("db-root", "bus-admin")]
    async with world.operator("mariadb", "rabbitmq") as operator:
        await operator.settle()
    assert [(await world.get(kinds.SECRET, name))["data"] for name in ("db-root", "bus-admin")] == before


async def test_a_storage_class_that_does_not_exist_stalls_before_anything_is_made_of_it(world: Any) -> None:
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {"storageClass": "no-such-class"})
        item = await world.until_condition(ours.MARIADB, "db", "DeploymentReady", "False", text="no-such-class")
        assert condition(item, "DeploymentReady")[1] == "StorageClassMissing"
        assert condition(item, "Stalled")[0] == "True"
        assert await world.find(kinds.STATEFULSET, "db") is None
        await world.patch(ours.MARIADB, "db", {"spec": {"storageClass": "slow"}})
        await world.until_ready(ours.MARIADB, "db")
    (claim,) = (await world.get(kinds.STATEFULSET, "db"))["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "slow"


async def test_a_claim_that_no_volume_came_for_is_made_again_of_another_class(world: Any) -> None:
    """The class existed, and nobody served it; the class alone is corrected."""
    async with world.operator("mariadb") as operator:
        await world.create(ours.MARIADB, "db", {"storageClass": "slow"})
        await world.until_ready(ours.MARIADB, "db")
        before = await world.get(kinds.PVC, "data-db-0")
        for name in ("fast", None):
            await world.patch(ours.MARIADB, "db", {"spec": {"storageClass": name}})

            def is_another(claim: Any, name: str = name or "standard") -> bool:
                return claim is not None and claim["spec"]["storageClassName"] == name

            await world.until(kinds.PVC, is_another, "data-db-0")
            item = await world.until_ready(ours.MARIADB, "db")
            claim = await world.get(kinds.PVC, "data-db-0")
            assert [one["uid"] for one in claim["metadata"]["ownerReferences"]] == [item["metadata"]["uid"]]
            assert claim["metadata"]["uid"] != before["metadata"]["uid"]
            (template,) = (await world.get(kinds.STATEFULSET, "db"))["spec"]["volumeClaimTemplates"]
            assert template["spec"].get("storageClassName") == name
        await operator.settle()


async def test_a_claim_that_has_a_volume_keeps_its_class(world: Any) -> None:
    async with world.operator("mariadb") as operator:
        await world.create(ours.MARIADB, "db", {"storageClass": "slow"})
        await world.until_ready(ours.MARIADB, "db")
        await world.patch(kinds.PVC, "data-db-0", {"spec": {"volumeName": "some-volume"}})
        before = (await world.get(kinds.PVC, "data-db-0"))["metadata"]["uid"]
        await world.patch(ours.MARIADB, "db", {"spec": {"storageClass": "fast"}})
        await world.until_ready(ours.MARIADB, "db")
        await operator.settle()
        claim = await world.get(kinds.PVC, "data-db-0")
        assert (claim["metadata"]["uid"], claim["spec"]["storageClassName"]) == (before, "slow")


async def test_entries_that_others_add_to_a_selector_or_to_configuration_are_taken_out(world: Any) -> None:
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {})
        await world.until_ready(ours.MARIADB, "db")
        selector = (await world.get(kinds.SERVICE, "db"))["spec"]["selector"]
        await world.patch(kinds.SERVICE, "db", {"spec": {"selector": {"added": "by-hand"}}})
        await world.patch(kinds.CONFIGMAP, "db-config-data", {"data": {"my.cnf.99-by-hand": "[mariadbd]\n"}})
        await world.patch(kinds.SECRET, "db-root", {"data": {"added": base64.b64encode(b"x").decode()}})

        await world.until(kinds.SERVICE, lambda item: item["spec"]["selector"] == selector, "db")
        await world.until(kinds.CONFIGMAP, lambda item: set(item["data"]) == {"my.cnf"}, "db-config-data")
        await world.until(kinds.SECRET, lambda item: set(item["data"]) == {"user", "password"}, "db-root")


async def test_a_volume_that_somebody_made_before_is_used_as_it_is(world: Any) -> None:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}
    before = await world.create(kinds.PVC, "data-db-0", asked)
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {})
        item = await world.until_ready(ours.MARIADB, "db")
        claim = await world.get(kinds.PVC, "data-db-0")
    assert claim["metadata"]["uid"] == before["metadata"]["uid"]
    assert claim["spec"]["resources"] == asked["resources"]
    assert [one["uid"] for one in claim["metadata"]["ownerReferences"]] == [item["metadata"]["uid"]]


async def test_volumes_go_with_the_object_and_not_with_a_stateful_set_deleted_by_hand(world: Any) -> None:
    async with world.operator("mariadb"):
        await world.create(ours.MARIADB, "db", {})
        item = await world.until_ready(ours.MARIADB, "db")

        def is_owned(claim: Any) -> bool:
            owners = (claim or {}).get("metadata", {}).get("ownerReferences", [])
            return [(one["kind"], one["uid"]) for one in owners] == [("MariaDB", item["metadata"]["uid"])]

        claim = await world.until(kinds.PVC, is_owned, "data-db-0")
        await world.delete(kinds.STATEFULSET, "db")
        await world.until_ready(ours.MARIADB, "db")
        assert (await world.get(kinds.PVC, "data-db-0"))["metadata"]["uid"] == claim["metadata"]["uid"]
        await world.patch(ours.MARIADB, "db", {"spec": {"storageRetention": "Retain"}})
        await world.until(kinds.PVC, lambda claim: not claim["metadata"].get("ownerReferences"), "data-db-0")
