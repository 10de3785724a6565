"""Changes that other operators did not survive, against a real kube-apiserver and its controllers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import kubelet
from cloud import rolled_out, surroundings, writes
from world import condition, decoded

from openstack_operator.cli import run
from openstack_operator.kit import credentials
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import errors, kinds

PLACEMENT_API = (kinds.DEPLOYMENT, "placement-api")
POLICY, BINDING = (
    kinds.Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
    for plural, kind in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    )
)


# --- Jobs -----------------------------------------------------------------------------------------------------------


async def test_a_job_that_failed_runs_again_with_what_the_user_mended(world: Any) -> None:
    """Regression r81: the failed Job of the old spec stayed, and the new one was never run."""
    world.node.statuses["placement/db-sync"] = kubelet.failed("no such driver")
    async with world.operator("placement") as operator:
        await surroundings(world)
        await world.create(ours.PLACEMENT, "placement", {"images": {"tag": "bad"}})
        await world.grant(ours.MARIADB, "databases", "mariadb", "placement")
        await world.until_condition(ours.PLACEMENT, "placement", "DatabaseSyncReady", "False", text="no such driver")
        del world.node.statuses["placement/db-sync"]
        await world.patch(ours.PLACEMENT, "placement", {"spec": {"images": {"tag": "good"}}})
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")
        await operator.settle()
        (job,) = await world.all(kinds.JOB)
    assert job["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":good")
    # Kubernetes counts its pods a second later than we look at them.
    await world.until(kinds.JOB, lambda item: item["status"].get("succeeded") == 1, job["metadata"]["name"])


async def test_another_server_or_password_runs_the_migrations_again(world: Any) -> None:
    """Regression h4: a hash of the pod alone does not know what stands in the Secret that it mounts."""
    await world.secret("mine", password="first")

    async def job() -> str:
        (found,) = await world.all(kinds.JOB)
        return str(found["metadata"]["name"])

    async with world.operator("placement") as operator:
        await surroundings(world)
        await rolled_out(world, ours.PLACEMENT, credentials={"database": {"name": "mine"}})
        first = await job()

        await world.patch(kinds.SECRET, "mine", {"data": credentials.encode({"password": "second"})})
        await world.until_condition(ours.PLACEMENT, "placement", "DatabaseReady", "False", "NotGranted")
        await world.grant(ours.MARIADB, "databases", "mariadb", "placement")
        await world.until_gone(kinds.JOB, first)
        await world.until_condition(ours.PLACEMENT, "placement", "DatabaseSyncReady")
        await operator.settle()
        second = await job()

        # An empty server of the same name, with the same password.
        await world.delete(ours.MARIADB, "mariadb")
        await world.until_gone(ours.MARIADB, "mariadb")
        await world.create(ours.MARIADB, "mariadb", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", "placement")
        await world.until_gone(kinds.JOB, second)
        await world.until_condition(ours.PLACEMENT, "placement", "DatabaseSyncReady")
        await operator.settle()
        assert await job() not in (first, second)


@contextlib.asynccontextmanager
async def jobs_cannot_be_deleted(world: Any) -> AsyncIterator[None]:
    """The API server refuses it, for this namespace, with a reason of its own."""
    name = f"keep-jobs-{world.namespace}"
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["jobs"]}
    validation = {"expression": "false", "message": "jobs are kept for the audit"}
    await world.api.create(
        POLICY,
        {
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [validation],
            },
        },
    )
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": selector}
    await world.api.create(BINDING, {"metadata": {"name": name}, "spec": binding})
    try:
        yield
    finally:
        await world.api.delete(BINDING, name, None)
        await world.api.delete(POLICY, name, None)


async def test_a_deletion_that_is_refused_is_told_and_one_of_what_is_gone_is_not(world: Any) -> None:
    """Regression h2: an inverted check took refusals for success, and what was gone for a failure."""
    world.node.hold("placement/db-sync")
    async with world.operator("placement") as operator:
        await surroundings(world)
        await world.create(ours.PLACEMENT, "placement", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", "placement")
        await world.until_condition(ours.PLACEMENT, "placement", "DatabaseSyncReady", "False", "JobRunning")
        (old,) = await world.all(kinds.JOB)
        name = old["metadata"]["name"]
        async with jobs_cannot_be_deleted(world):
            # The policy is in force a moment after it was made.
            await until_refused(world, name)
            await world.patch(ours.PLACEMENT, "placement", {"spec": {"images": {"tag": "other"}}})
            item = await world.until_condition(
                ours.PLACEMENT, "placement", "DatabaseSyncReady", "False", text="jobs are kept for the audit"
            )
            assert name in condition(item, "DatabaseSyncReady")[2]
            assert [one["metadata"]["name"] for one in await world.all(kinds.JOB)] == [name], "no second one beside it"
        # Nothing tells that the policy is gone: it is tried again.
        await world.until_gone(kinds.JOB, name)
        await world.node.release("placement/db-sync")
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")
        await operator.settle()


async def until_refused(world: Any, job: str) -> None:
    """Returns when the API server refuses to delete it, which a dry run tells."""
    async with asyncio.timeout(60):
        while True:
            try:
                await world.api.request("DELETE", kinds.JOB.path(world.namespace, job), body={"dryRun": ["All"]})
            except errors.ApiError:
                return
            await asyncio.sleep(0.2)


# --- what is there already ------------------------------------------------------------------------------------------


async def test_a_secret_of_the_name_that_somebody_made_before_is_completed(world: Any) -> None:
    """Regression r44: the installation ended at the first Secret that existed."""
    await world.secret("placement-db", user="somebody", password="theirs", note="kept")
    async with world.operator("placement") as operator:
        await surroundings(world)
        await rolled_out(world, ours.PLACEMENT)
        await operator.settle()
    values = decoded(await world.get(kinds.SECRET, "placement-db"))
    assert (values["user"], values["database"]) == ("placement", "placement")
    written = decoded(await world.get(kinds.SECRET, "placement-config-secrets"))["placement.conf.20-secret"]
    assert f"mysql+pymysql://placement:{values['password']}@mariadb.{world.namespace}.svc:3306/placement" in written


async def test_volumes_of_servers_whose_names_look_like_each_others_members_are_kept_apart(world: Any) -> None:
    """Regression f34: a name with what looked like an ordinal was taken for a member of another cluster."""
    async with world.operator("mariadb") as operator:
        for name in ("db", "db-0"):
            await world.create(ours.MARIADB, name, {"storageSize": "1Gi" if name == "db" else "2Gi"})
            await world.until_condition(ours.MARIADB, name, "DeploymentReady")
        await operator.settle()
        claims = {one["metadata"]["name"]: one for one in await world.all(kinds.PVC)}
        assert {name: one["metadata"]["ownerReferences"][0]["name"] for name, one in claims.items()} == {
            "data-db-0": "db",
            "data-db-0-0": "db-0",
        }
        await world.patch(ours.MARIADB, "db", {"spec": {"storageRetention": "Retain"}})
        await world.until(kinds.PVC, lambda item: not item["metadata"].get("ownerReferences"), "data-db-0")
        await operator.settle()
        assert (await world.get(kinds.PVC, "data-db-0-0"))["metadata"]["ownerReferences"][0]["name"] == "db-0"


async def test_objects_may_have_any_name(world: Any) -> None:
    """Regression f83, f84: with another name than the usual one, the service looked for what was not there."""
    names = {ours.MARIADB: "tables", ours.MEMCACHED: "tokens", ours.KEYSTONE: "people", ours.GLANCE: "pictures"}
    names[ours.PLACEMENT] = "places"
    refs = {key: {"name": name} for key, name in (("databaseRef", "tables"), ("memcachedRef", "tokens"))}
    async with world.operator("glance", "keystone", "placement") as operator:
        for resource in (ours.MARIADB, ours.MEMCACHED):
            await world.create(resource, names[resource], {})
        await world.patch(ours.MEMCACHED, "tokens", {"status": {"servers": ["tokens-0:11211"]}}, "status")
        await world.create(ours.KEYSTONE, "people", refs)
        for resource in (ours.GLANCE, ours.PLACEMENT):
            await world.create(resource, names[resource], refs | {"keystoneRef": {"name": "people"}})
        await world.grant(ours.MARIADB, "databases", "tables", "people", "pictures", "places")
        for resource in (ours.KEYSTONE, ours.GLANCE, ours.PLACEMENT):
            await world.until_condition(resource, names[resource], "DeploymentReady")
        await operator.settle()
    made = {resource: await world.names(resource) for resource in (kinds.DEPLOYMENT, kinds.SERVICE, kinds.SECRET)}
    assert made[kinds.DEPLOYMENT] == ["people-api", "pictures-api", "places-api"]
    assert made[kinds.SERVICE] == ["people-api", "pictures-api", "places-api"]
    assert [one for one in made[kinds.SECRET] if one.partition("-")[0] not in ("people", "pictures", "places")] == []
    text = (await world.get(kinds.CONFIGMAP, "pictures-config-data"))["data"]["glance-api.conf.10-generated"]
    assert f"worker_self_reference_url = http://pictures-api.{world.namespace}.svc:9292" in text.splitlines()
    secret = decoded(await world.get(kinds.SECRET, "pictures-config-secrets"))["glance-api.conf.20-secret"]
    assert "mysql+pymysql://pictures:" in secret


async def test_a_finalizer_fits_for_the_longest_kind_and_the_longest_name(world: Any) -> None:
    """Regression f47: a finalizer with the name of its consumer in it was longer than the 63 characters that the API
    server takes behind the slash."""
    ended = [one.kind for one in run.choose(()) if one.finalize is not None]
    longest = max(ended, key=lambda kind: len(kind.resource.kind))
    # A control plane has a limit of its own, that of a label's value.
    name = "c" * (longest.max_name_length or 63)
    async with world.operator():
        await world.create(longest.resource, name, {})
        item = await world.until(longest.resource, lambda item: item["metadata"].get("finalizers"), name)
    (finalizer,) = item["metadata"]["finalizers"]
    assert finalizer == f"{ours.DOMAIN}/{longest.resource.kind.lower()}"
    assert longest.resource == ours.CONTROL_PLANE


# --- what must not roll ---------------------------------------------------------------------------------------------


async def test_rotated_keys_restart_nothing(world: Any) -> None:
    """Regression f25: the keys were part of the hash, and Keystone was restarted every day."""
    async with world.operator("keystone") as operator:
        await world.create(ours.MARIADB, "mariadb", {})
        await world.create(ours.MEMCACHED, "memcached", {})
        await world.patch(ours.MEMCACHED, "memcached", {"status": {"servers": ["memcached-0:11211"]}}, "status")
        await world.create(ours.KEYSTONE, "keystone", {})
        await world.grant(ours.MARIADB, "databases", "mariadb", "keystone")
        await world.until_condition(ours.KEYSTONE, "keystone", "DeploymentReady")
        await operator.settle()
        before = world.cluster.audit_size()
        keys = decoded(await world.get(kinds.SECRET, "keystone-fernet-keys"))
        rotated = credentials.encode({"0": "new", "1": keys["1"], "2": keys["0"]})
        await world.patch(kinds.SECRET, "keystone-fernet-keys", {"data": rotated})
        await operator.settle()
    # Its registration is tried again and again, since no Keystone serves here; that writes its condition only.
    changed = {(verb, kind, name) for verb, kind, name, _ in await writes(world, before)}
    assert changed <= {("patch", "keystones/status", "keystone")}
    assert (await world.get(kinds.DEPLOYMENT, "keystone-api"))["metadata"]["generation"] == 1


async def test_what_an_autoscaler_set_stays(world: Any) -> None:
    """Regression r83, r47: each pass wrote the number of replicas that the template began with."""
    async with world.operator("placement") as operator:
        await surroundings(world)
        await rolled_out(world, ours.PLACEMENT)
        await world.patch(ours.PLACEMENT, "placement", {"spec": {"replicas": 3}}, "scale")
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")
        await operator.settle()
    async with world.operator("placement") as operator:
        await world.patch(ours.PLACEMENT, "placement", {"spec": {"customServiceConfig": "[DEFAULT]\ndebug = true\n"}})
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")
        await operator.settle()
    assert (await world.get(*PLACEMENT_API))["spec"]["replicas"] == 3
    scale = await world.api.request("GET", ours.PLACEMENT.path(world.namespace, "placement", "scale"))
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (3, 3)


async def test_a_template_that_rolls_is_not_ready_until_the_last_old_pod_is_gone(world: Any) -> None:
    """Regression f79, f16: Ready stood while old pods still served."""
    async with world.operator("placement") as operator:
        await surroundings(world)
        await rolled_out(world, ours.PLACEMENT, replicas=2)
        await operator.settle()
        world.node.hold("placement/api")
        await world.patch(ours.PLACEMENT, "placement", {"spec": {"images": {"tag": "new"}}})
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady", "False", "RollingOut")
        status = (await world.get(*PLACEMENT_API))["status"]
        assert status["availableReplicas"] == 2, "the old ones serve, and that does not count"
        await world.node.release("placement/api")
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")
        await operator.settle()
        pods = [one for one in await world.all(kinds.POD) if "placement-api" in one["metadata"]["name"]]
    images = {pod["spec"]["containers"][0]["image"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    assert len(images) == 1


# --- values ---------------------------------------------------------------------------------------------------------


async def test_no_value_is_written_as_python_shows_it(world: Any) -> None:
    """Regression r27: a password stood as b'...' in a transport URL."""
    await world.secret("mine", password="p@:/%#-")
    async with world.operator("glance") as operator:
        await surroundings(world)
        await rolled_out(
            world, ours.GLANCE, credentials={"database": {"name": "mine"}, "serviceUser": {"name": "mine"}}
        )
        await operator.settle()
    for resource in (kinds.SECRET, kinds.CONFIGMAP):
        for item in await world.all(resource):
            texts = decoded(item) if resource == kinds.SECRET else item.get("data", {})
            for text in texts.values():
                for line in text.splitlines():
                    value = line.partition(" = ")[2]
                    assert not value.startswith(("b'", 'b"', "None", "True", "False", "{'", "['")), line


async def test_a_client_pod_that_crashes_is_not_ready(world: Any) -> None:
    """Regression f73: the pod crashed over and over, and its object was Ready."""
    why = 'exec: "sleep": executable file not found'
    async with world.operator("openstackcontrolplane"):
        await world.create(ours.CONTROL_PLANE, "cloud", {})
        await world.until(ours.KEYSTONE, lambda item: item is not None, "keystone")
        await world.secret("keystone-admin", user="admin", password="x", project="admin")
        labels = {"app.kubernetes.io/managed-by": "openstack-operator"}
        await world.patch(kinds.SECRET, "keystone-admin", {"metadata": {"labels": labels}})
        urls = {"internalUrl": "http://keystone-api:5000/v3", "publicUrl": "http://keystone.example.org/v3"}
        await world.patch(ours.KEYSTONE, "keystone", {"status": urls}, "status")
        await world.set_ready(ours.KEYSTONE, "keystone")
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "ClientReady")
        world.node.statuses["openstackclient/client"] = kubelet.waiting("CrashLoopBackOff", why)
        for pod in await world.all(kinds.POD):
            if kubelet.component(pod) == "openstackclient/client":
                await world.patch(kinds.POD, pod["metadata"]["name"], {"status": crashed(pod, why)}, "status")
        item = await world.until_condition(ours.CONTROL_PLANE, "cloud", "ClientReady", "False", text=why)
        assert condition(item, "Ready")[0] == "False"


def crashed(pod: Any, why: str) -> dict[str, Any]:
    not_ready = [{"type": name, "status": "False"} for name in ("ContainersReady", "Ready")]
    return kubelet.waiting("CrashLoopBackOff", why)(pod) | {"conditions": not_ready}
