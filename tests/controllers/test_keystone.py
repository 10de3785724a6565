"""Keystone from its requests to others up to the API's pods. MariaDB's and Memcached's part is played by the test, as
by operators of their own (seed 003); what needs Keystone's real API is in test_servers.py."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path
from typing import Any

import kubelet
import pytest
from world import HASH, condition, decoded, states

from openstack_operator.cli import run
from openstack_operator.kit import credentials, ini, labels
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import conditions, errors, kinds
from openstack_operator.services.keystone import config as files
from openstack_operator.services.keystone import resources

API = "keystone-api"


async def infrastructure(world: Any) -> None:
    """A MariaDB and a Memcached whose operators run elsewhere."""
    await world.create(ours.MARIADB, "mariadb", {})
    await world.create(ours.MEMCACHED, "memcached", {})
    servers = {"status": {"servers": [f"memcached-0.memcached.{world.namespace}.svc:11211"]}}
    await world.patch(ours.MEMCACHED, "memcached", servers, "status")


async def rolled_out(world: Any, **spec: Any) -> Any:
    """A Keystone whose API pods run; returns it."""
    await infrastructure(world)
    await world.create(ours.KEYSTONE, "keystone", spec)
    await world.grant(ours.MARIADB, "databases", "mariadb", "keystone")
    return await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")


async def template_hash(world: Any) -> str:
    deployment = await world.get(kinds.DEPLOYMENT, API)
    return str(deployment["spec"]["template"]["metadata"]["annotations"][HASH])


# --- the rollout ----------------------------------------------------------------------------------------------------


async def test_conditions_stand_in_the_order_of_the_rollout_and_say_what_each_waits_for(world: Any) -> None:
    world.node.hold("keystone/bootstrap", "keystone/api")
    async with world.operator("keystone"):
        await world.create(ours.KEYSTONE, "keystone", {})
        item = await world.until_condition(ours.KEYSTONE, "keystone", "CredentialsReady")
        assert states(item) == [
            ("Ready", "False", "NotFound"),
            ("ConfigValid", "True", "Ready"),
            ("EndpointsReady", "True", "Ready"),
            ("CredentialsReady", "True", "Ready"),
            ("DatabaseReady", "False", "NotFound"),
            ("CacheReady", "False", "NotFound"),
            ("ConfigReady", "Unknown", "Blocked"),
            ("BootstrapReady", "Unknown", "Blocked"),
            ("DeploymentReady", "Unknown", "Blocked"),
            ("RotationReady", "Unknown", "Blocked"),
            ("CatalogReady", "Unknown", "Blocked"),
            ("Reconciling", "True", "NotFound"),
            ("Stalled", "False", "NotFound"),
        ]
        assert condition(item, "DatabaseReady")[2] == f"MariaDB {world.namespace}/mariadb does not exist"
        assert condition(item, "CacheReady")[2] == f"Memcached {world.namespace}/memcached does not exist"
        assert condition(item, "ConfigReady")[2] == "waits for DatabaseReady, CacheReady"

        # The URLs are known long before anything serves: others can be configured with them.
        url = f"http://keystone-api.{world.namespace}.svc:5000/v3"
        assert (item["status"]["internalUrl"], item["status"]["publicUrl"]) == (url, url)

        await infrastructure(world)
        item = await world.until_condition(ours.KEYSTONE, "keystone", "DatabaseReady", "False", "NotGranted")
        where = f"MariaDB {world.namespace}/mariadb"
        assert condition(item, "DatabaseReady")[2] == f"{where} has not set up databases keystone yet"

        await world.grant(ours.MARIADB, "databases", "mariadb", "keystone")
        item = await world.until_condition(
            ours.KEYSTONE,
            "keystone",
            "BootstrapReady",
            "False",
            "JobRunning",
            text="is running: pod keystone-bootstrap",
        )
        assert condition(item, "DeploymentReady")[1:] == ("Blocked", "waits for BootstrapReady")
        assert condition(item, "RotationReady")[0] == "True", "it needs no running Keystone"
        assert await world.find(kinds.DEPLOYMENT, API) is None

        await world.node.release("keystone/bootstrap")
        item = await world.until_condition(
            ours.KEYSTONE, "keystone", "DeploymentReady", "False", "RollingOut", text="pod keystone-api-"
        )
        message = condition(item, "DeploymentReady")[2]
        assert message.startswith(f"Deployment {world.namespace}/keystone-api: 0 of 1 pods ready: pod keystone-api-")

        await world.node.release("keystone/api")
        item = await world.until_condition(
            ours.KEYSTONE, "keystone", "CatalogReady", "False", "KeystoneUnreachable", text=f"Keystone {url}:"
        )
        assert (item["status"]["replicas"], item["status"]["readyReplicas"]) == (1, 1)


async def test_the_objects_of_a_keystone_are_the_ones_documented(world: Any) -> None:
    async with world.operator("keystone") as operator:
        await rolled_out(world)
        await operator.settle()
    assert await world.names(kinds.CONFIGMAP) == ["keystone-config-data", "keystone-scripts"]
    assert await world.names(kinds.SECRET) == [
        "keystone-admin",
        "keystone-config-secrets",
        "keystone-credential-keys",
        "keystone-db",
        "keystone-fernet-keys",
    ]
    assert await world.names(kinds.SERVICE) == ["keystone-api"]
    assert await world.names(kinds.CRONJOB) == ["keystone-fernet-rotate"]
    scripts = (await world.get(kinds.CONFIGMAP, "keystone-scripts"))["data"]
    assert sorted(scripts) == [
        *("bootstrap.sh", "commands.py", "first_sync.py", "flush.py", "merge.sh", "rotate.py", "start.sh")
    ]
    data = (await world.get(kinds.CONFIGMAP, "keystone-config-data"))["data"]
    assert sorted(data) == ["keystone.conf.10-generated", "uwsgi.ini"]

    deployment = await world.get(kinds.DEPLOYMENT, API)
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert [one["name"] for one in container["volumeMounts"]] == [
        "scripts",
        "config-data-merged",
        "scratch-0",
        "fernet-keys",
        "credential-keys",
    ], "of the configuration a main container sees the scripts and the merged files only"
    (owner,) = deployment["metadata"]["ownerReferences"]
    keystone = await world.get(ours.KEYSTONE, "keystone")
    assert owner == {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "Keystone",
        "name": "keystone",
        "uid": keystone["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }

    # The request for a database is an entry in another object that only its asker owns.
    item = await world.get(ours.MARIADB, "mariadb")
    assert item["spec"]["databases"] == [{"name": "keystone", "secretRef": {"name": "keystone-db"}}]
    managers = [one["manager"] for one in item["metadata"]["managedFields"] if "f:databases" in str(one["fieldsV1"])]
    assert "Keystone.keystone.databases.keystone" in managers
    secret = decoded(await world.get(kinds.SECRET, "keystone-db"))
    password = secret.pop("password")
    assert len(password) == 32
    assert password.isalnum()
    assert secret == {
        "user": "keystone",
        "database": "keystone",
        "hostname": f"mariadb.{world.namespace}.svc",
        "port": "3306",
    }


async def test_no_secret_value_stands_anywhere_but_in_secrets(world: Any) -> None:
    """Case 128."""
    password = "$%@/#+\"':-p{w}"
    await world.secret("mine", password=password)
    reference = {"name": "mine"}
    async with world.operator("keystone") as operator:
        await rolled_out(world, adminPasswordSecretRef=reference, credentials={"database": reference})
        await operator.settle()
    secret_values: set[str] = {password}
    for secret in await world.all(kinds.SECRET):
        data = decoded(secret)
        secret_values |= {data[key] for key in data if key == "password"}
        if secret["metadata"]["name"].endswith("-keys"):
            secret_values |= set(data.values())
    assert len(secret_values) >= 5
    where = (
        kinds.CONFIGMAP, kinds.SERVICE, kinds.DEPLOYMENT, kinds.JOB, kinds.CRONJOB, kinds.POD, kinds.EVENT, kinds.ROLE,
        ours.KEYSTONE, ours.MARIADB,
    )  # fmt: skip
    for resource in where:
        text = str(await world.all(resource))
        for value in secret_values:
            assert value not in text, resource


async def test_a_no_op_pass_and_a_restart_of_the_operator_write_nothing(world: Any) -> None:
    async with world.operator("keystone") as operator:
        await rolled_out(world)
        await operator.settle()
    before = world.cluster.audit_size()
    deployment = await world.get(kinds.DEPLOYMENT, API)
    async with world.operator("keystone") as operator:
        await operator.settle()
    requests = world.requests(before)
    assert [request for request in requests if request[0] not in ("list", "get")] == []
    lists = [resource for verb, resource, _, _ in requests if verb == "list"]
    assert len(lists) == len(set(lists)), "one LIST of each kind"
    assert (await world.get(kinds.DEPLOYMENT, API))["metadata"]["generation"] == deployment["metadata"]["generation"]


CHILDREN = [
    (kinds.CONFIGMAP, "keystone-config-data"),
    (kinds.SECRET, "keystone-config-secrets"),
    (kinds.SERVICE, "keystone-api"),
    (kinds.DEPLOYMENT, "keystone-api"),
    (kinds.CRONJOB, "keystone-fernet-rotate"),
    (kinds.ROLE, "keystone-fernet-rotate"),
]


async def test_a_child_deleted_or_edited_by_hand_is_repaired_alone(world: Any) -> None:
    async with world.operator("keystone") as operator:
        await rolled_out(world)
        for resource, name in CHILDREN:
            await operator.settle()
            uid = (await world.get(resource, name))["metadata"]["uid"]
            before = world.cluster.audit_size()
            await world.delete(resource, name)
            await world.until(resource, lambda item, uid=uid: item and item["metadata"]["uid"] != uid, name)
            await operator.settle()
            assert written(world, before) == {(resource.plural, name)}
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
        await operator.settle()
        before = world.cluster.audit_size()
        edit = {"spec": {"template": {"spec": {"securityContext": {"runAsUser": 1}}}}}
        await world.patch(kinds.DEPLOYMENT, API, edit)
        await world.until(
            kinds.DEPLOYMENT,
            lambda item: item["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == resources.UID,
            API,
        )
        await operator.settle()
        assert written(world, before) == {("deployments", API)}


def written(world: Any, since: int) -> set[tuple[str, str]]:
    """What was written, but for the object's own status."""
    reads = ("list", "get", "watch")
    found = {(resource, name) for verb, resource, name, _ in world.requests(since) if verb not in reads}
    return found - {("keystones/status", "keystone")}


# --- configuration --------------------------------------------------------------------------------------------------


async def test_users_text_wins_and_rolls_the_api_alone(world: Any) -> None:
    """Case 2."""
    async with world.operator("keystone", "memcached") as operator:
        await rolled_out(world)
        await world.until_ready(ours.MEMCACHED, "memcached")
        await operator.settle()
        cache = await world.get(kinds.STATEFULSET, "memcached")
        first = await template_hash(world)
        custom = "[token]\nexpiration = 7200\n"
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"customServiceConfig": custom}})
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
        data = (await world.get(kinds.CONFIGMAP, "keystone-config-data"))["data"]
        assert data["keystone.conf.90-custom"] == f"# spec.customServiceConfig\n{custom}"
        assert sorted(data) == ["keystone.conf.10-generated", "keystone.conf.90-custom", "uwsgi.ini"]
        second = await template_hash(world)
        assert second != first
        assert (await world.get(kinds.STATEFULSET, "memcached"))["spec"] == cache["spec"]

        # Comments, blank lines and blanks at the end are read by nobody.
        commented = "# a reason\n\n[token]\n; another\nexpiration = 7200   \n\n"
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"customServiceConfig": commented}})
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
        text = (await world.get(kinds.CONFIGMAP, "keystone-config-data"))["data"]["keystone.conf.90-custom"]
        assert text.endswith(commented), "verbatim all the same"
        assert await template_hash(world) == second

        # Nor does the process see an order, an empty section, or a value that a later one replaces.
        for same in (
            "[identity]\n[token]\nexpiration = 60\nexpiration: '7200'\n",
            "[DEFAULT]\n[Token]\nexpiration=7200\n",
        ):
            await world.patch(ours.KEYSTONE, "keystone", {"spec": {"customServiceConfig": same}})
            await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
            assert await template_hash(world) == second
        jobs = await world.names(kinds.JOB)
        for nothing in ("# nothing\n", "", None):
            await world.patch(ours.KEYSTONE, "keystone", {"spec": {"customServiceConfig": nothing}})
            await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
            assert await template_hash(world) == first
        assert await world.names(kinds.JOB) != jobs, "the bootstrap reads the file too"


UNPARSABLE = [
    ("[token]\nexpiration 7200\n", "line 2: No ':' or '=' found in assignment: 'expiration 7200'"),
    ("debug = true\n", "line 1: no [section] before this option: 'debug = true'"),
    ("[token\nexpiration = 1\n", "line 1: Invalid section (must end with ]): '[token'"),
    ("[token]\n\n= 1\n", "line 3: Key cannot be empty: '= 1'"),
    ("  [token]\nexpiration = 1\n", "line 1: Unexpected continuation line: '[token]'"),
    ("[]\nx = 1\n", "line 1: Empty section name: '[]'"),
    ("[token]\nexpiration = 1h\n", "line 2: [token] expiration must be a whole number of at least 0: '1h'"),
]


async def test_text_that_oslo_config_cannot_parse_stalls_with_field_and_line_and_changes_nothing(world: Any) -> None:
    """Regression r57."""

    async def footprint() -> list[Any]:
        data = (await world.get(kinds.CONFIGMAP, "keystone-config-data"))["data"]
        deployment = await world.get(kinds.DEPLOYMENT, API)
        pods = [pod["metadata"]["uid"] for pod in await world.all(kinds.POD)]
        return [data, deployment["metadata"]["generation"], sorted(pods), await world.names(kinds.JOB)]

    async with world.operator("keystone") as operator:
        await rolled_out(world)
        await operator.settle()
        before = await footprint()
        for text, problem in UNPARSABLE:
            await world.patch(ours.KEYSTONE, "keystone", {"spec": {"customServiceConfig": text}})
            item = await world.until_condition(ours.KEYSTONE, "keystone", "Ready", "False", "InvalidConfig")
            message = f"ConfigValid: spec.customServiceConfig: {problem}"
            assert condition(item, "Stalled") == ("True", "InvalidConfig", message)
        await operator.settle()
        assert operator.manager.runners[0].queue.soon(3600) == 0, "nothing is tried again by itself"
        assert await footprint() == before
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"customServiceConfig": "[token]\nexpiration = 60\n"}})
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")


async def test_misspelt_and_overridden_options_are_taken_and_called_out_once(world: Any) -> None:
    text = "[token]\nexpiraton = 60\n[fernet_tokens]\nmax_active_keys = 9\n"
    async with world.operator("keystone") as operator:
        await rolled_out(world)
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"customServiceConfig": text}})
        expected = (
            "spec.customServiceConfig: line 2: [token] expiraton does not exist in keystone 2026.1 "
            "(did you mean expiration?); spec.customServiceConfig: line 4: [fernet_tokens] max_active_keys overrides "
            "spec.token, spec.fernet.rotationHours, which has no effect any more"
        )
        await world.until(
            ours.KEYSTONE, lambda item: item and condition(item, "ConfigValid")[2] == expected, "keystone"
        )
        await operator.settle()
        item = await world.get(ours.KEYSTONE, "keystone")
        assert condition(item, "ConfigValid") == ("True", "Ready", expected)
        assert condition(item, "ConfigReady")[0] == "True"
        data = (await world.get(kinds.CONFIGMAP, "keystone-config-data"))["data"]
        assert data["keystone.conf.90-custom"].endswith(text)
        told = [event for event in await world.all(kinds.EVENT) if event["reason"] == "ConfigWarnings"]
        assert [(event["type"], event.get("count", 1)) for event in told] == [("Warning", 1)]


FIELDS = [
    ({"token": {"expirationSeconds": 1800}}, "token", "expiration", "1800"),
    ({"token": {"allowExpiredWindowSeconds": 0}}, "token", "allow_expired_window", "0"),
    ({"token": {"expirationSeconds": 172800}}, "fernet_tokens", "max_active_keys", "6"),
    ({"token": {"allowExpiredWindowSeconds": 0}}, "fernet_tokens", "max_active_keys", "3"),
    ({"fernet": {"rotationHours": 1}}, "fernet_tokens", "max_active_keys", "51"),
]


@pytest.mark.parametrize(("spec", "section", "option", "value"), FIELDS)
def test_a_field_sets_its_option(spec: dict[str, Any], section: str, option: str, value: str) -> None:
    facts = {"database.file_url": "mysql+pymysql://x", "cache.servers": "c:11211"}

    def read(fields: dict[str, Any]) -> str:
        rendered = ini.render(files.ROWS, files.KeystoneSpec.model_validate(fields), facts).public
        (section_text,) = [part for part in rendered.split("\n\n") if part.startswith(f"[{section}]\n")]
        (line,) = [line for line in section_text.splitlines() if line.startswith(f"{option} = ")]
        return line.removeprefix(f"{option} = ")

    assert read(spec) == value
    assert read({}) != value


# --- credentials ----------------------------------------------------------------------------------------------------

SECRETS = [
    ({}, "SecretKeyMissing", "has no key 'password'; it has: nothing"),
    ({"pasword": "x"}, "SecretKeyMissing", "has no key 'password'; it has: pasword"),
    ({"password": ""}, "SecretEmpty", "key 'password' is empty"),
    ({"password": "\n"}, "SecretEmpty", "key 'password' is empty"),
    ({"password": b"\xff\xfe"}, "SecretNotText", "key 'password' is not UTF-8 text"),
    ({"password": "a\tb"}, "SecretInvalid", "key 'password' holds a control character"),
    ({"password": "two\nlines"}, "SecretInvalid", "key 'password' holds a control character"),
    ({"password": "x" * 100}, "SecretInvalid", "key 'password' holds 100 bytes; 72 are the most"),
    ({"password": "ä" * 37}, "SecretInvalid", "key 'password' holds 74 bytes; 72 are the most"),
]


@pytest.mark.parametrize(("values", "reason", "problem"), SECRETS)
async def test_a_secret_of_the_user_that_cannot_be_used_is_named_and_mending_it_is_enough(
    world: Any, values: dict[str, Any], reason: str, problem: str
) -> None:
    """Case 31, case 34: missing, empty, no text, longer than what Keystone looks at."""
    await infrastructure(world)
    await world.secret("mine", **values)
    spec = {"adminPasswordSecretRef": {"name": "mine"}}
    async with world.operator("keystone"):
        await world.create(ours.KEYSTONE, "keystone", spec)
        item = await world.until_condition(ours.KEYSTONE, "keystone", "CredentialsReady", "False", reason)
        message = condition(item, "CredentialsReady")[2]
        assert problem in message
        assert "mine" in message
        assert condition(item, "Stalled")[:2] == ("True", reason)
        assert await world.find(kinds.SECRET, "keystone-admin") is None
        good = "$%@/#+\"':- ä"
        await world.patch(kinds.SECRET, "mine", {"data": credentials.encode({"password": f"{good}\n"})})
        await world.until_condition(ours.KEYSTONE, "keystone", "CredentialsReady")
    assert decoded(await world.get(kinds.SECRET, "keystone-admin"))["password"] == good


async def test_a_long_password_that_is_in_use_stays_so_and_no_other_takes_its_place(world: Any) -> None:
    """Case 34: Keystone takes the first 72 bytes, and said nothing of it to whoever brought more."""
    await infrastructure(world)
    await world.secret("mine", password="x" * 100)
    await world.secret("keystone-admin", password="x" * 100)
    # As an operator that did not count left it.
    await world.patch(kinds.SECRET, "keystone-admin", {"metadata": {"labels": labels.common("keystone", "keystone")}})
    async with world.operator("keystone"):
        await world.create(ours.KEYSTONE, "keystone", {"adminPasswordSecretRef": {"name": "mine"}})
        await world.until_condition(ours.KEYSTONE, "keystone", "CredentialsReady")
        await world.patch(kinds.SECRET, "mine", {"data": credentials.encode({"password": "y" * 73})})
        await world.until_condition(ours.KEYSTONE, "keystone", "CredentialsReady", "False", "SecretInvalid")
        assert decoded(await world.get(kinds.SECRET, "keystone-admin"))["password"] == "x" * 100
        await world.patch(kinds.SECRET, "mine", {"data": credentials.encode({"password": "y" * 72})})
        await world.until_condition(ours.KEYSTONE, "keystone", "CredentialsReady")
    assert decoded(await world.get(kinds.SECRET, "keystone-admin"))["password"] == "y" * 72


async def test_a_secret_of_the_user_that_is_missing_is_waited_for_by_a_watch(world: Any) -> None:
    """Case 31."""
    spec = {"adminPasswordSecretRef": {"name": "mine", "key": "admin"}}
    async with world.operator("keystone"):
        await world.create(ours.KEYSTONE, "keystone", spec)
        item = await world.until_condition(ours.KEYSTONE, "keystone", "CredentialsReady", "False", "SecretMissing")
        assert condition(item, "CredentialsReady")[2] == f"Secret {world.namespace}/mine does not exist"
        await world.secret("mine", admin="-leading")
        await world.until_condition(ours.KEYSTONE, "keystone", "CredentialsReady")
    assert decoded(await world.get(kinds.SECRET, "keystone-admin"))["password"] == "-leading"


async def test_a_database_password_that_clients_could_not_send_is_refused(world: Any) -> None:
    await infrastructure(world)
    await world.secret("mine", password="ä")
    async with world.operator("keystone"):
        await world.create(ours.KEYSTONE, "keystone", {"credentials": {"database": {"name": "mine"}}})
        item = await world.until_condition(ours.KEYSTONE, "keystone", "DatabaseReady", "False", "SecretInvalid")
    message = "spec.credentials.database: Secret mine: key 'password' holds a character that is not ASCII"
    assert condition(item, "DatabaseReady")[2] == message


async def test_another_admin_password_runs_the_bootstrap_again(world: Any) -> None:
    await world.secret("mine", password="first")
    async with world.operator("keystone") as operator:
        await rolled_out(world, adminPasswordSecretRef={"name": "mine"})
        (first,) = await world.names(kinds.JOB)
        await world.patch(kinds.SECRET, "mine", {"data": credentials.encode({"password": "second"})})
        await world.until_gone(kinds.JOB, first)
        await world.until_condition(ours.KEYSTONE, "keystone", "BootstrapReady")
        await operator.settle()
        (second,) = await world.names(kinds.JOB)
    assert second != first
    assert decoded(await world.get(kinds.SECRET, "keystone-admin"))["password"] == "second"


async def test_rotated_keys_are_never_written_over(world: Any) -> None:
    """Case 45. Regression r1, r55."""
    async with world.operator("keystone") as operator:
        await rolled_out(world)
        first = decoded(await world.get(kinds.SECRET, "keystone-fernet-keys"))
        assert sorted(first) == ["0", "1"]
        # What the CronJob does: the staged key becomes the primary one, a new one is staged.
        rotated = {"0": "new", "1": first["1"], "2": first["0"]}
        before = world.cluster.audit_size()
        await world.patch(kinds.SECRET, "keystone-fernet-keys", {"data": credentials.encode(rotated)})
        await operator.settle()
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"fernet": {"rotationHours": 12}}})
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
    async with world.operator("keystone") as operator:
        await operator.settle()
    assert decoded(await world.get(kinds.SECRET, "keystone-fernet-keys")) == rotated
    names = [name for verb, kind, name, _ in world.requests(before) if kind == "secrets" and verb == "patch"]
    assert "keystone-fernet-keys" not in names


async def test_keys_that_something_may_be_encrypted_with_are_never_written_over(world: Any) -> None:
    """Regression r55: those of credentials belong to the database, and an older operator gave them an owner."""
    name = "keystone-credential-keys"
    async with world.operator("keystone") as operator:
        await rolled_out(world)
        first = await world.get(kinds.SECRET, name)
        assert sorted(first["data"]) == ["0", "1"]
        assert "ownerReferences" not in first["metadata"]
    keystone = await world.get(ours.KEYSTONE, "keystone")
    owner = {"apiVersion": keystone["apiVersion"], "kind": "Keystone", "name": "keystone", "controller": True}
    head = {key: first["metadata"][key] for key in ("name", "namespace", "labels")}
    head["annotations"] = {"openstack.k8s.io/applied": "before"}
    head["ownerReferences"] = [{**owner, "uid": keystone["metadata"]["uid"], "blockOwnerDeletion": True}]
    body = {"metadata": head, "type": "Opaque", "data": first["data"]}
    item = await world.api.apply(kinds.SECRET, body, manager=run.FIELD_MANAGER)
    assert "ownerReferences" in item["metadata"]
    async with world.operator("keystone") as operator:
        await world.until(kinds.SECRET, lambda item: "ownerReferences" not in item["metadata"], name)
        # By hand: the primary key is a new one, and somebody takes the staged one away.
        left = {"1": first["data"]["1"], "2": first["data"]["0"]}
        await world.patch(kinds.SECRET, name, {"data": {"0": None, **left}})
        await world.until(kinds.SECRET, lambda item: "0" in item["data"], name)
        await operator.settle()
        item = await world.get(kinds.SECRET, name)
        assert {key: value for key, value in item["data"].items() if key != "0"} == left
        # Nothing owns it, and it is missed all the same.
        await world.delete(kinds.SECRET, name)
        await world.until(kinds.SECRET, lambda item: item and sorted(item["data"]) == ["0", "1"], name)


async def test_rotation_runs_with_rights_on_one_secret(world: Any) -> None:
    """Regression h8."""
    async with world.operator("keystone") as operator:
        await rolled_out(world, fernet={"rotationHours": 6})
        await operator.settle()
    name = "keystone-fernet-rotate"
    assert (await world.get(kinds.ROLE, name))["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["keystone-fernet-keys"],
            "verbs": ["get", "patch"],
        }
    ]
    cron = await world.get(kinds.CRONJOB, name)
    assert (cron["spec"]["schedule"], cron["spec"]["concurrencyPolicy"]) == ("7 */6 * * *", "Forbid")
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (name, True)
    assert pod["containers"][0]["command"][-1] == "120", "seconds between two rotations: longer than a kubelet takes"
    binding = await world.get(kinds.ROLEBINDING, name)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": world.namespace}
    assert [{**one, "namespace": world.namespace} for one in binding["subjects"]] == [subject]


async def test_rotation_stages_a_new_key_with_the_rights_that_it_has_and_drops_the_oldest(
    world: Any, tmp_path: Path
) -> None:
    """Case 45. Regression r1."""
    async with world.operator("keystone") as operator:
        await rolled_out(world)
        await operator.settle()
    account = tmp_path / "account"
    account.mkdir()
    path = kinds.SERVICEACCOUNT.path(world.namespace, "keystone-fernet-rotate", "token")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await world.api.request("POST", path, body=request))["status"]["token"]
    files = {"token": token, "namespace": world.namespace, "ca.crt": (world.cluster.cluster.pki / "ca.crt").read_text()}
    for name, text in files.items():
        (account / name).write_text(text)
    script = (await world.get(kinds.CONFIGMAP, "keystone-scripts"))["data"]["rotate.py"]
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert place in script
    address = urllib.parse.urlsplit(world.cluster.url)
    environment = {"KUBERNETES_SERVICE_HOST": address.hostname or "", "KUBERNETES_SERVICE_PORT": str(address.port)}

    async def rotate(secret: str, apart: int = 0) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script.replace(place, str(account)), secret, "3", str(apart),
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
        return process.returncode or 0, output.decode()

    async def keys() -> dict[str, str]:
        return decoded(await world.get(kinds.SECRET, "keystone-fernet-keys"))

    first = await keys()
    assert await rotate("keystone-fernet-keys") == (0, "primary key 2, 3 keys\n")
    second = await keys()
    assert second == {"0": second["0"], "1": first["1"], "2": first["0"]}, "the staged key became the primary one"
    assert second["0"] not in first.values()
    assert await rotate("keystone-fernet-keys") == (0, "primary key 3, 3 keys\n")
    third = await keys()
    assert third == {"0": third["0"], "2": second["2"], "3": second["0"]}, "the oldest went"
    # A pod that has not seen the last rotation yet knows the key that signs since: not the one of a next rotation.
    before = time.monotonic()
    code, output = await rotate("keystone-fernet-keys", apart=3)
    assert (code, output.splitlines()[-1]) == (0, "primary key 4, 3 keys")
    assert output.startswith("rotated less than 3 s ago, which not every pod may have seen: waits ")
    assert time.monotonic() - before >= 1, "times of the API server are whole seconds"
    code, output = await rotate("keystone-admin")
    assert code != 0
    assert "403" in output


# --- workloads ------------------------------------------------------------------------------------------------------


async def test_a_failed_bootstrap_says_what_it_said_and_is_tried_again(world: Any) -> None:
    """Regression h6."""
    text = 'starting\npymysql.err.OperationalError: (2003, "Can\'t connect to MySQL server")'
    world.node.statuses["keystone/bootstrap"] = kubelet.failed(text)
    async with world.operator("keystone"):
        await infrastructure(world)
        await world.create(ours.KEYSTONE, "keystone", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", "keystone")
        await world.until_condition(
            ours.KEYSTONE, "keystone", "BootstrapReady", "False", text="Can't connect to MySQL server"
        )
        await world.node.release("keystone/bootstrap")
        await world.until_condition(ours.KEYSTONE, "keystone", "BootstrapReady")


async def test_an_image_that_does_not_exist_is_named_and_mending_it_makes_it_go_on(world: Any) -> None:
    why = 'failed to pull and unpack image "localhost/nowhere/keystone:1": not found'
    async with world.operator("keystone"):
        await rolled_out(world)
        (old,) = [pod for pod in await world.all(kinds.POD) if kubelet.component(pod) == "keystone/api"]
        world.node.statuses["keystone/bootstrap"] = kubelet.waiting("ErrImagePull", why)
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"containerImage": "localhost/nowhere/keystone:1"}})
        item = await world.until_condition(
            ours.KEYSTONE, "keystone", "BootstrapReady", "False", "JobRunning", text="ErrImagePull"
        )
        assert condition(item, "BootstrapReady")[2].endswith(f"container bootstrap: ErrImagePull: {why}")
        assert await world.find(kinds.POD, old["metadata"]["name"]) is not None, "what runs goes on"
        world.node.statuses.clear()
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"containerImage": None}})
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")


async def test_a_release_chooses_the_images_and_stays(world: Any) -> None:
    async with world.operator("keystone"):
        await rolled_out(world, openstackRelease="2025.2")
    (container,) = (await world.get(kinds.DEPLOYMENT, API))["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(":2025.2")
    with pytest.raises(errors.ApiError, match="the release cannot be changed after creation"):
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"openstackRelease": "2026.1"}})


async def test_zero_replicas_stop_the_api_and_keep_everything_else(world: Any) -> None:
    async with world.operator("keystone") as operator:
        await rolled_out(world)
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"replicas": 0}})
        await world.until(kinds.DEPLOYMENT, lambda item: item and item["status"].get("replicas", 0) == 0, API)
        await operator.settle()
        item = await world.get(ours.KEYSTONE, "keystone")
        assert (item["spec"]["replicas"], item["status"]["replicas"]) == (0, 0)
        assert "keystone-db" in await world.names(kinds.SECRET)


async def test_more_replicas_get_a_disruption_budget_and_one_has_none(world: Any) -> None:
    """Case 63. Regression h13."""
    async with world.operator("keystone"):
        await rolled_out(world, replicas=2)
        item = await world.get(ours.KEYSTONE, "keystone")
        assert (item["status"]["replicas"], item["status"]["readyReplicas"]) == (2, 2)
        assert await world.names(kinds.PDB) == [API]
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"replicas": 1}})
        await world.until_gone(kinds.PDB, API)


async def test_pods_that_a_quota_forbids_are_told_in_status(world: Any) -> None:
    quota = kinds.Resource("", "v1", "resourcequotas", "ResourceQuota")
    async with world.operator("keystone"):
        await rolled_out(world)
        # Full already, so that Kubernetes refuses every further pod.
        await world.create(quota, "small", {"hard": {"pods": "1"}})
        await world.until(quota, lambda item: item and item.get("status", {}).get("used"), "small")
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"replicas": 3}})
        item = await world.until_condition(
            ours.KEYSTONE, "keystone", "DeploymentReady", "False", "RollingOut", text="exceeded quota: small"
        )
    assert "is forbidden: exceeded quota: small" in conditions.find(item, "Ready")["message"]


async def test_a_name_that_another_object_holds_is_told_and_taken_when_it_is_free(world: Any) -> None:
    async with world.operator("keystone"):
        first = await rolled_out(world)
        # The child of another: `keystone-api` would be the Service of both.
        owner = {
            "apiVersion": "openstack.k8s.io/v1alpha1",
            "kind": "Keystone",
            "name": "keystone",
            "uid": first["metadata"]["uid"],
            "controller": True,
        }
        metadata = {
            "name": "other-api",
            "namespace": world.namespace,
            "ownerReferences": [owner],
            "labels": {"app.kubernetes.io/managed-by": "openstack-operator"},
        }
        service = {"metadata": metadata, "spec": {"ports": [{"port": 1}]}}
        await world.api.create(kinds.SERVICE, service)
        await world.create(ours.KEYSTONE, "other", {})
        item = await world.until_condition(ours.KEYSTONE, "other", "EndpointsReady", "False", "NameInUse")
        message = f"Service {world.namespace}/other-api belongs to Keystone keystone: rename one of the two"
        assert condition(item, "EndpointsReady")[2] == message
        await world.delete(kinds.SERVICE, "other-api")
        await world.until_condition(ours.KEYSTONE, "other", "EndpointsReady")


# --- endpoints ------------------------------------------------------------------------------------------------------


async def test_a_node_port_is_published_with_the_first_nodes_address(world: Any) -> None:
    async with world.operator("keystone"):
        await world.create(ours.KEYSTONE, "keystone", {"publicEndpoint": {"type": "NodePort"}})
        item = await world.until_condition(ours.KEYSTONE, "keystone", "EndpointsReady", "False", "NoNode")
        message = "no node has an internal address; set spec.publicEndpoint.host"
        assert condition(item, "EndpointsReady")[2] == message
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"publicEndpoint": {"host": "2001:db8::1"}}})
        item = await world.until_condition(ours.KEYSTONE, "keystone", "EndpointsReady")
    service = await world.get(kinds.SERVICE, "keystone-public")
    assert service["spec"]["type"] == "NodePort"
    port = service["spec"]["ports"][0]["nodePort"]
    assert item["status"]["publicUrl"] == f"http://[2001:db8::1]:{port}/v3"
    assert item["status"]["internalUrl"] == f"http://keystone-api.{world.namespace}.svc:5000/v3"


async def test_a_node_that_comes_is_looked_at_by_what_waits_for_its_address(world: Any) -> None:
    name = f"first.{world.namespace}"
    async with world.operator("keystone"):
        await world.create(ours.KEYSTONE, "keystone", {"publicEndpoint": {"type": "NodePort"}})
        await world.until_condition(ours.KEYSTONE, "keystone", "EndpointsReady", "False", "NoNode")
        await world.api.create(kinds.NODE, {"metadata": {"name": name}})
        try:
            addresses = [{"type": "Hostname", "address": "first"}, {"type": "InternalIP", "address": "192.0.2.9"}]
            await world.patch(kinds.NODE, name, {"status": {"addresses": addresses}}, "status")
            item = await world.until_condition(ours.KEYSTONE, "keystone", "EndpointsReady")
        finally:
            await world.api.delete(kinds.NODE, name, None)
    port = (await world.get(kinds.SERVICE, "keystone-public"))["spec"]["ports"][0]["nodePort"]
    assert item["status"]["publicUrl"] == f"http://192.0.2.9:{port}/v3"


async def test_a_load_balancer_is_waited_for_and_the_urls_follow_a_change_of_type(world: Any) -> None:
    async with world.operator("keystone"):
        await world.create(ours.KEYSTONE, "keystone", {"publicEndpoint": {"type": "LoadBalancer"}})
        item = await world.until_condition(ours.KEYSTONE, "keystone", "EndpointsReady", "False", "NoLoadBalancer")
        message = f"Service {world.namespace}/keystone-public has no load balancer address yet"
        assert condition(item, "EndpointsReady")[2] == message
        status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}
        await world.patch(kinds.SERVICE, "keystone-public", status, "status")
        item = await world.until_condition(ours.KEYSTONE, "keystone", "EndpointsReady")
        assert item["status"]["publicUrl"] == "http://192.0.2.7:5000/v3"
        secret = decoded(await world.get(kinds.SECRET, "keystone-admin"))
        assert "auth_url: http://192.0.2.7:5000/v3" in secret["clouds.yaml"]

        change = {"spec": {"publicEndpoint": {"type": "ClusterIP", "host": "cloud.example"}}}
        await world.patch(ours.KEYSTONE, "keystone", change)
        item = await world.until_condition(ours.KEYSTONE, "keystone", "EndpointsReady")
        assert item["status"]["publicUrl"] == "http://cloud.example:5000/v3"
        await world.until_gone(kinds.SERVICE, "keystone-public")


async def test_a_fixed_node_port_that_is_taken_is_told(world: Any) -> None:
    taken = {"type": "NodePort", "ports": [{"port": 1, "nodePort": 30999}]}
    await world.create(kinds.SERVICE, "first", taken)
    async with world.operator("keystone"):
        spec = {"publicEndpoint": {"type": "NodePort", "nodePort": 30999, "host": "192.0.2.1"}}
        await world.create(ours.KEYSTONE, "keystone", spec)
        item = await world.until_condition(ours.KEYSTONE, "keystone", "EndpointsReady", "False", "ApiError")
        assert "provided port is already allocated" in condition(item, "EndpointsReady")[2]
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"publicEndpoint": {"nodePort": 30998}}})
        item = await world.until_condition(ours.KEYSTONE, "keystone", "EndpointsReady")
    assert item["status"]["publicUrl"] == "http://192.0.2.1:30998/v3"


# --- the end --------------------------------------------------------------------------------------------------------


async def volume(world: Any, owner: Any = None) -> None:
    """The claim of the MariaDB, as its controller makes it: of its own when it is retained, else the server's."""
    metadata: dict[str, Any] = {
        "name": "data-mariadb-0",
        "namespace": world.namespace,
        "labels": labels.common("mariadb", "mariadb", "server"),
    }
    if owner is not None:
        head = {key: owner[key] for key in ("apiVersion", "kind")} | {
            key: owner["metadata"][key] for key in ("name", "uid")
        }
        metadata["ownerReferences"] = [{**head, "controller": True}]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await world.create(kinds.PVC, "data-mariadb-0", spec, metadata=metadata)


async def test_a_deleted_keystone_gives_its_database_back_and_leaves_nothing(world: Any) -> None:
    """Also where the volume is retained: the database that was in there is none any more."""
    async with world.operator("keystone"):
        await rolled_out(world)
        await volume(world)
        await world.delete(ours.KEYSTONE, "keystone")
        item = await world.until_condition(ours.KEYSTONE, "keystone", "Ready", "False", "Deleting")
        message = f"NotDropped: MariaDB {world.namespace}/mariadb has not dropped databases keystone yet"
        assert condition(item, "Ready")[2] == message
        assert (
            "databases" not in (await world.get(ours.MARIADB, "mariadb"))["spec"]
            or not (await world.get(ours.MARIADB, "mariadb"))["spec"]["databases"]
        )
        await world.patch(ours.MARIADB, "mariadb", {"status": {"databases": []}}, "status")
        await world.until_gone(ours.KEYSTONE, "keystone")
        for resource, name in (
            (kinds.DEPLOYMENT, API), (kinds.SECRET, "keystone-fernet-keys"), (kinds.CONFIGMAP, "keystone-scripts"),
            (kinds.SECRET, "keystone-credential-keys"),
        ):  # fmt: skip
            await world.until_gone(resource, name)


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_keys_of_a_database_that_is_kept_are_kept_for_the_next_keystone(world: Any, policy: str) -> None:
    """Regression r55."""
    async with world.operator("keystone") as operator:
        await rolled_out(world)
        await volume(world)
        first = await world.get(kinds.SECRET, "keystone-credential-keys")
        await world.delete(ours.MARIADB, "mariadb")
        await world.until_gone(ours.MARIADB, "mariadb")
        place = ours.KEYSTONE.path(world.namespace, "keystone")
        await world.api.request("DELETE", place, body={"propagationPolicy": policy})
        await world.until_gone(ours.KEYSTONE, "keystone")
        # Tokens end with the Keystone that issued them.
        await world.until_gone(kinds.SECRET, "keystone-fernet-keys")
        await operator.settle()
        assert (await world.get(kinds.SECRET, "keystone-credential-keys"))["data"] == first["data"]

        # A server that has not come up over the old volume, and has granted nothing, tells nothing of what is in there.
        await world.create(ours.MARIADB, "mariadb", {})
        await world.create(ours.KEYSTONE, "keystone", {})
        await world.until_condition(ours.KEYSTONE, "keystone", "DatabaseReady", "False", "NotGranted")
        await world.delete(ours.KEYSTONE, "keystone")
        await world.until_gone(ours.KEYSTONE, "keystone")
        await world.until_gone(kinds.SECRET, "keystone-db")

        await world.create(ours.KEYSTONE, "keystone", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", "keystone")
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
    assert (await world.get(kinds.SECRET, "keystone-credential-keys"))["data"] == first["data"]


@pytest.mark.parametrize("is_there", [True, False])
async def test_keys_go_with_a_database_that_goes_for_good(world: Any, is_there: bool) -> None:
    async with world.operator("keystone"):
        await rolled_out(world)
        if is_there:
            await volume(world, owner=await world.get(ours.MARIADB, "mariadb"))
        await world.delete(ours.MARIADB, "mariadb")
        await world.delete(ours.KEYSTONE, "keystone")
        await world.until_gone(ours.KEYSTONE, "keystone")
        await world.until_gone(kinds.SECRET, "keystone-credential-keys")


async def test_a_keystone_deleted_half_way_goes_too(world: Any) -> None:
    world.node.hold("keystone/bootstrap")
    async with world.operator("keystone"):
        await infrastructure(world)
        await world.create(ours.KEYSTONE, "keystone", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", "keystone")
        await world.until_condition(ours.KEYSTONE, "keystone", "BootstrapReady", "False", "JobRunning")
        await world.delete(ours.KEYSTONE, "keystone")
        # The whole database server goes as well: nobody waits for what it would drop.
        await world.delete(ours.MARIADB, "mariadb")
        await world.until_gone(ours.KEYSTONE, "keystone")
