"""Real MariaDB and RabbitMQ servers (and Keystone on top of them), run from the cloud's own images as their pods say:
what the controllers grant, repair and take away is tried with a client's login."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import containers
import pymysql
import pytest
from test_controlplane import INFRASTRUCTURE, only
from world import condition, decoded

import watching
from openstack_operator.kit import credentials, identity, labels
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import conditions, kinds

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(containers.INFRASTRUCTURE is None, reason="no images: run `./up --until images`"),
]

DIFFICULT = "$%@/#+\"':-\\ &?={}"
CONNECTIONS = 20


@pytest.fixture
async def real(world: Any, tmp_path: Path, cluster_dns: dict[str, str]) -> AsyncIterator[Any]:
    """The world with a node that runs databases, message buses and Keystone."""
    for name in ("db", "bus", "mariadb", "rabbitmq", "keystone-api"):
        cluster_dns[f"{name}.{world.namespace}.svc"] = containers.DOOR
    components = ("mariadb/server", "rabbitmq/server", "keystone/bootstrap", "keystone/api")
    with containers.Network() as network:
        async with containers.Door(network):
            node = containers.Node(world.node, network, tmp_path, *components)
            world.node.hold(*components)
            world.seconds, world.network = 120, network
            task = asyncio.ensure_future(node.run())
            try:
                yield world
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                await node.stop()


def connection(user: str, password: str) -> Any:
    return pymysql.connect(host=containers.DOOR, user=user, password=password, autocommit=True)


def databases(user: str, password: str) -> list[str]:
    """What a client sees after its login."""
    with connection(user, password) as server:
        with server.cursor() as cursor:
            cursor.execute("SHOW DATABASES")
            return sorted(row[0] for row in cursor.fetchall())


def execute(user: str, password: str, statement: str) -> Any:
    with connection(user, password) as server:
        with server.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


async def test_databases_are_granted_changed_and_dropped_in_a_real_mariadb(real: Any) -> None:
    """Regression r46, f40."""
    await real.secret("one", user="one", password=DIFFICULT)
    await real.secret("two", user="two", password="plain")
    requests = [{"name": f"schema_{name}", "secretRef": {"name": name}} for name in ("one", "two")]
    async with real.operator("mariadb"):
        spec = {"databases": requests, "bufferPoolMebibytes": 16, "maxConnections": CONNECTIONS}
        await real.create(ours.MARIADB, "db", spec)
        item = await real.until_ready(ours.MARIADB, "db")
        assert [(one["name"], one["user"]) for one in item["status"]["databases"]] == [
            ("schema_one", "one"),
            ("schema_two", "two"),
        ]
        seen = await asyncio.to_thread(databases, "one", DIFFICULT)
        assert seen == ["information_schema", "schema_one"], "its own and no other's"
        await asyncio.to_thread(execute, "one", DIFFICULT, "CREATE TABLE schema_one.t (name TEXT)")
        root = decoded(await real.get(kinds.SECRET, "db-root"))["password"]
        accounts = await asyncio.to_thread(execute, "root", root, "SELECT user, host FROM mysql.global_priv")
        assert sorted(accounts) == [
            ("mariadb.sys", "localhost"),
            ("one", "%"),
            ("root", "%"),
            ("root", "localhost"),
            ("two", "%"),
        ], "no root without a password, nobody without a name"
        ((collation,),) = await asyncio.to_thread(
            execute, "root", root,
            "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name = 'schema_one'",
        )  # fmt: skip
        assert collation == "utf8mb3_general_ci"

        # Another password in the Secret is the user's password.
        await real.patch(kinds.SECRET, "one", {"data": credentials.encode({"password": "another"})})
        known = credentials.fingerprint(await real.get(kinds.SECRET, "one"))
        await real.until(ours.MARIADB, lambda item: item["status"]["databases"][0]["secretHash"] == known, "db")
        assert "schema_one" in await asyncio.to_thread(databases, "one", "another")
        with pytest.raises(pymysql.err.OperationalError):
            await asyncio.to_thread(databases, "one", DIFFICULT)
        assert await asyncio.to_thread(execute, "one", "another", "SHOW TABLES IN schema_one") == (("t",),)

        # What is not asked for any more is dropped, with its user.
        await real.patch(ours.MARIADB, "db", {"spec": {"databases": requests[1:]}})
        await real.until(ours.MARIADB, lambda item: len(item["status"]["databases"]) == 1, "db")
        assert "schema_one" not in await asyncio.to_thread(databases, "root", root)
        with pytest.raises(pymysql.err.OperationalError):
            await asyncio.to_thread(databases, "one", "another")

    # A server that hangs is found out, although it is connected to, and is well when it goes on.
    (container,) = (await real.get(kinds.STATEFULSET, "db"))["spec"]["template"]["spec"]["containers"]
    # Outside of the container its volume is elsewhere.
    look = [word.replace("/var/lib/mysql", "/tmp") for word in container["readinessProbe"]["exec"]["command"]]
    assert await real.network.probe(look) == (0, "")
    (server,) = real.network.pids("mariadbd")
    os.kill(server, signal.SIGSTOP)
    assert await real.network.probe(look) == (1, "port 3306 does not answer within 3 s")
    os.kill(server, signal.SIGCONT)
    assert await real.network.probe(look) == (0, "")

    # One that has no connection left is found out by the kernel's table: it greets, and sends away after the login.
    held = [await asyncio.to_thread(connection, "two", "plain") for _ in range(CONNECTIONS)]
    try:
        with pytest.raises(pymysql.err.OperationalError, match="Too many connections"):
            await asyncio.to_thread(connection, "two", "plain")
        assert await real.network.probe(look) == (1, f"all {CONNECTIONS} connections of the database are taken")
    finally:
        for one in held:
            one.close()
    for _ in range(100):
        # A server notices a moment later that a client has gone.
        if (said := await real.network.probe(look)) == (0, ""):
            break
        await asyncio.sleep(0.05)
    assert said == (0, "")

    # Dropped by hand behind the operator's back: seen at the next look, here after a restart.
    await asyncio.to_thread(execute, "root", root, "DROP USER 'two'@'%'")
    async with real.operator("mariadb") as operator:
        await operator.settle()
        assert "schema_two" in await asyncio.to_thread(databases, "two", "plain")

        # And where somebody who may use it has stopped serving.
        tags = labels.pod("nova", "nova", "scheduler", "NovaScheduler")
        metadata = {"name": "user", "namespace": real.namespace, "labels": tags}
        spec = {"containers": [{"name": "main", "image": "nowhere/nothing"}]}
        await real.create(kinds.POD, "user", spec, metadata=metadata)
        await real.until(kinds.POD, lambda item: conditions.is_true(item, "Ready"), "user")
        await operator.settle()
        await asyncio.to_thread(execute, "root", root, "DROP USER 'two'@'%'")
        await stop_serving(real, "user")
        await until_granted("two", "plain")


async def test_a_database_whose_service_a_person_let_go_is_dropped_when_a_real_mariadb_answers_again(real: Any) -> None:
    """Field case 103 (b): the finalizer only waits for what the server does on its own."""
    async with real.operator("mariadb", "placement"):
        await real.create(ours.MARIADB, "mariadb", {"bufferPoolMebibytes": 16})
        await real.create(ours.PLACEMENT, "placement", {})
        await real.until_condition(ours.PLACEMENT, "placement", "DatabaseReady")
        root = decoded(await real.get(kinds.SECRET, "mariadb-root"))["password"]
        assert "placement" in await asyncio.to_thread(databases, "root", root)
        (server,) = real.network.pids("mariadbd")
        os.kill(server, signal.SIGSTOP)
        try:
            await real.delete(ours.PLACEMENT, "placement")
            text = (
                f"has not dropped databases placement yet (DatabasesReady: MariaDB mariadb.{real.namespace}.svc:3306: "
            )
            await real.until_condition(ours.PLACEMENT, "placement", "Ready", "False", "Deleting", text=text)
            await real.patch(ours.PLACEMENT, "placement", {"metadata": {"finalizers": None}})
            await real.until_gone(ours.PLACEMENT, "placement")
            await real.until_gone(kinds.SECRET, "placement-db")
        finally:
            os.kill(server, signal.SIGCONT)
        await real.until(ours.MARIADB, lambda item: not item["status"].get("databases"), "mariadb")
        await real.until_ready(ours.MARIADB, "mariadb")
        assert "placement" not in await asyncio.to_thread(databases, "root", root)
        users = await asyncio.to_thread(execute, "root", root, "SELECT user FROM mysql.global_priv")
        assert ("placement",) not in users


async def stop_serving(world: Any, name: str) -> None:
    """What a kubelet writes when a container's probe fails for a while that was well."""
    status = (await world.get(kinds.POD, name))["status"]
    began = "2026-01-01T00:00:00Z"
    for container in status["containerStatuses"]:
        container |= {"ready": False, "state": {"running": {"startedAt": began}}}
    for one in status["conditions"]:
        if one["type"] in ("Ready", "ContainersReady"):
            one |= {"status": "False", "lastTransitionTime": conditions.now()}
    await world.patch(kinds.POD, name, {"status": status}, "status")


async def until_granted(user: str, password: str) -> None:
    """A login has no watch."""
    for _ in range(100):
        with contextlib.suppress(pymysql.err.OperationalError):
            assert f"schema_{user}" in await asyncio.to_thread(databases, user, password)
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{user} was not granted anything again")


async def test_virtual_hosts_are_granted_changed_and_deleted_in_a_real_rabbitmq(real: Any, tmp_path: Path) -> None:
    """Regression f45: a limit of its memory is what the server goes by, not the memory of the node."""
    url = f"http://{containers.DOOR}:15672/api"

    async def call(path: str, user: str, password: str) -> tuple[int, Any]:
        login = aiohttp.encode_basic_auth(user, password, "utf-8")
        async with aiohttp.ClientSession(headers={"Authorization": login}) as session:
            async with session.get(url + path) as answer:
                return answer.status, await answer.json()

    await real.secret("mine", user="nova-cell1", password=DIFFICULT)
    async with real.operator("rabbitmq"):
        request = {"name": "nova-cell1", "secretRef": {"name": "mine"}}
        limited = {"limits": {"memory": "777Mi"}}
        await real.create(ours.RABBITMQ, "bus", {"vhosts": [request], "resources": limited})
        await real.until_ready(ours.RABBITMQ, "bus")
        log = (tmp_path / "bus-0" / "rabbitmq.log").read_text()
        assert re.findall(r"high watermark set to .* of (\d+) MiB", log) == ["777"]
        admin = decoded(await real.get(kinds.SECRET, "bus-admin"))["password"]
        _, found = await call("/vhosts", "admin", admin)
        assert {one["name"]: one["default_queue_type"] for one in found}["nova-cell1"] == "quorum"
        _, found = await call("/permissions", "admin", admin)
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        assert {"user": "nova-cell1", "vhost": "nova-cell1", **everything} in found
        assert [one["vhost"] for one in found if one["user"] == "nova-cell1"] == ["nova-cell1"]
        status, answer = await call("/whoami", "nova-cell1", DIFFICULT)
        assert "management" in str(answer).lower(), (
            "a right login without the right to look; a wrong one fails otherwise"
        )

        # What its probes ask for needs no login, and nobody gives it while the server hangs.
        (container,) = (await real.get(kinds.STATEFULSET, "bus"))["spec"]["template"]["spec"]["containers"]
        page = container["readinessProbe"]["httpGet"]
        patience = aiohttp.ClientTimeout(total=container["readinessProbe"]["timeoutSeconds"])
        async with aiohttp.ClientSession(timeout=patience) as session:
            place = f"http://{containers.DOOR}:{page['port']}{page['path']}"
            async with session.get(place) as answer:
                assert answer.status == 200
            (server,) = real.network.pids("beam.smp")
            os.kill(server, signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                await session.get(place)
            os.kill(server, signal.SIGCONT)

        await real.patch(ours.RABBITMQ, "bus", {"spec": {"vhosts": []}})
        await real.until(ours.RABBITMQ, lambda item: item["status"].get("vhosts", []) == [], "bus")
        _, found = await call("/vhosts", "admin", admin)
        assert [one["name"] for one in found] == ["/"]
        _, found = await call("/users", "admin", admin)
        assert [one["name"] for one in found] == ["admin"]
        assert status in (200, 401)
        assert condition(await real.get(ours.RABBITMQ, "bus"), "Ready")[0] == "True"


@pytest.mark.skipif(containers.OPENSTACK is None, reason="no image of 2026.1: run `./up --until images`")
async def test_a_control_plane_with_a_real_keystone_gets_ready_and_registers_services(real: Any) -> None:
    """Field case 33 among it: a token outlives every look at the user that it belongs to. Field case 40: of two regions
    in one Keystone each takes only its own entries out. Regression r53, f29, h10."""
    services = ("openstackcontrolplane", *INFRASTRUCTURE, "keystone", "placement")
    await real.secret("mine", password=DIFFICULT + "äöü€")
    await real.secret("database", password=DIFFICULT)
    credentials_of_users = {"database": {"name": "database"}}
    keystone = {"adminPasswordSecretRef": {"name": "mine"}, "credentials": credentials_of_users}
    spec = only(*INFRASTRUCTURE, "keystone", "openstackclient", keystone=keystone, mariadb={"bufferPoolMebibytes": 16})
    async with real.operator(*services) as operator:
        await real.create(ours.CONTROL_PLANE, "cloud", spec)
        item = await real.until_ready(ours.CONTROL_PLANE, "cloud")
        assert item["status"]["phase"] == "Ready"
        url = f"http://{containers.DOOR}:5000/v3"
        admin = decoded(await real.get(kinds.SECRET, "keystone-admin"))
        assert admin["password"] == DIFFICULT + "äöü€"

        async with identity.Client(url, admin) as client:
            # The same password is never set again: it would revoke the user's tokens.
            await client.ensure_user("nova", DIFFICULT)
            first = await changes_of(client, "nova")
            token = await token_of(url, "nova", DIFFICULT)
            for _ in range(20):
                await client.ensure_user("nova", DIFFICULT)
            assert await changes_of(client, "nova") == first
            assert await is_valid(url, token)
            assert await client.can_log_in(first["id"], DIFFICULT)
            await client.ensure_user("nova", "another")
            assert await client.can_log_in(first["id"], "another")
            assert not await client.can_log_in(first["id"], DIFFICULT)
            assert not await is_valid(url, token)

            old = identity.Endpoint("nova", "compute", "Compute", "http://i/v2.1", "http://p/v2.1")
            new = identity.Endpoint("nova", "compute", "Compute", "http://i/v2.1", "http://q/v2.1")
            for wanted in (old, old, new):
                await client.ensure_endpoint(wanted, "RegionOne")
            assert await urls(client, "compute") == {"internal": "http://i/v2.1", "public": "http://q/v2.1"}
            # Another region's entries stay, and the service with them; it goes with the last one.
            far = identity.Endpoint("nova", "compute", "Compute", "http://far-i/v2.1", "http://far-p/v2.1")
            for _ in range(2):
                await client.ensure_endpoint(far, "two & more")
            assert len(await regions(client, "compute")) == 4
            for _ in range(2):
                await client.remove_service("nova", "compute", "RegionOne")
                assert await regions(client, "compute") == ["two & more"] * 2
            for _ in range(2):
                await client.remove_service("nova", "compute", "two & more")
                assert await client._find("services", {"type": "compute"}) is None
            await client.remove_user("nova")
            await client.remove_user("nova")
            assert await urls(client, "compute") == {}
            assert await urls(client, "identity") == {
                interface: f"http://keystone-api.{real.namespace}.svc:5000/v3" for interface in ("internal", "public")
            }

        # Converged: another look writes nothing, and a restart of the operator restarts no pod.
        await operator.settle()
    pods = sorted(pod["metadata"]["uid"] for pod in await real.all(kinds.POD))
    before = real.cluster.audit_size()
    async with real.operator(*services) as operator:
        await operator.settle()
        assert [one for one in real.requests(before) if one[0] not in ("get", "list")] == []
        assert sorted(pod["metadata"]["uid"] for pod in await real.all(kinds.POD)) == pods

        # Another admin password is the admin's password as soon as the control plane says Ready again.
        await real.patch(kinds.SECRET, "mine", {"data": credentials.encode({"password": "-second"})})
        await real.until(kinds.SECRET, lambda item: decoded(item)["password"] == "-second", "keystone-admin")
        await real.until_condition(ours.KEYSTONE, "keystone", "Ready", "False")
        await real.until_ready(ours.KEYSTONE, "keystone")
        async with identity.Client(url, {**admin, "password": "-second"}) as client:
            assert await client.ensure_project("service")

            for name, region in (("one", "RegionOne"), ("two", "regionTwo")):
                await real.create(ours.PLACEMENT, name, {"region": region})
                await real.until_condition(ours.PLACEMENT, name, "RegistrationReady")
            assert await regions(client, "placement") == ["RegionOne", "RegionOne", "regionTwo", "regionTwo"]
            await real.delete(ours.PLACEMENT, "one")
            await real.until_gone(ours.PLACEMENT, "one")
            assert await regions(client, "placement") == ["regionTwo", "regionTwo"]
            await real.delete(ours.PLACEMENT, "two")
            await real.until_gone(ours.PLACEMENT, "two")
            assert await client._find("services", {"type": "placement"}) is None

        await real.delete(ours.CONTROL_PLANE, "cloud")
        await real.until_gone(ours.CONTROL_PLANE, "cloud")


@pytest.mark.skipif(containers.OPENSTACK is None, reason="no image of 2026.1: run `./up --until images`")
async def test_a_database_that_is_kept_can_be_read_by_the_next_control_plane(real: Any) -> None:
    """Regression r55: stored credentials are encrypted, and what decrypts them is kept as well."""
    services = ("mariadb", "memcached", "keystone")
    mariadb = {"bufferPoolMebibytes": 16, "storageRetention": "Retain"}
    spec = only(*services, mariadb=mariadb)
    url = f"http://{containers.DOOR}:5000/v3"
    async with real.operator("openstackcontrolplane", *services):
        await real.create(ours.CONTROL_PLANE, "cloud", spec)
        await real.until_ready(ours.KEYSTONE, "keystone")
        async with identity.Client(url, decoded(await real.get(kinds.SECRET, "keystone-admin"))) as client:
            user = (await client._call("GET", "/users?name=admin"))["users"][0]["id"]
            stored = {"type": "cert", "blob": "kept", "user_id": user}
            made = (await client._call("POST", "/credentials", {"credential": stored}))["credential"]

        await real.delete(ours.CONTROL_PLANE, "cloud")
        await real.until_gone(ours.CONTROL_PLANE, "cloud")
        for name in ("mariadb-root", "keystone-admin", "keystone-fernet-keys"):
            await real.until_gone(kinds.SECRET, name)
        for program in ("uwsgi", "mariadbd"):
            await end(real, program)

        await real.create(ours.CONTROL_PLANE, "cloud", spec)
        await real.until_ready(ours.KEYSTONE, "keystone")
        async with identity.Client(url, decoded(await real.get(kinds.SECRET, "keystone-admin"))) as client:
            found = (await client._call("GET", f"/credentials/{made['id']}"))["credential"]
            assert found["blob"] == "kept"


async def end(world: Any, program: str) -> None:
    """Ends what a pod ran that is gone, as a kubelet does."""
    for pid in world.network.pids(program):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await watching.eventually(lambda: not world.network.pids(program), f"no {program}")


async def changes_of(client: identity.Client, user: str) -> dict[str, Any]:
    """What Keystone says of a user; its password's expiry and history are part of it."""
    found = await client._find("users", {"name": user, "domain_id": "default"})
    assert found is not None
    return found


async def token_of(url: str, user: str, password: str) -> str:
    login = {"user": {"name": user, "domain": {"id": "default"}, "password": password}}
    body = {"auth": {"identity": {"methods": ["password"], "password": login}}}
    async with aiohttp.ClientSession() as session, session.post(f"{url}/auth/tokens", json=body) as answer:
        assert answer.status == 201, await answer.text()
        return answer.headers["X-Subject-Token"]


async def is_valid(url: str, token: str) -> bool:
    """Whether Keystone still takes a token, here for a look at itself."""
    sent = {"X-Auth-Token": token, "X-Subject-Token": token}
    async with aiohttp.ClientSession() as session, session.get(f"{url}/auth/tokens", headers=sent) as answer:
        assert answer.status in (200, 401, 404), await answer.text()
        return answer.status == 200


async def regions(client: identity.Client, kind: str) -> list[str]:
    """The region of each endpoint of the services of a type."""
    service = await client._find("services", {"type": kind})
    if service is None:
        return []
    found = await client._call("GET", f"/endpoints?service_id={service['id']}")
    return sorted(one["region_id"] for one in found["endpoints"])


async def urls(client: identity.Client, kind: str) -> dict[str, str]:
    service = await client._find("services", {"type": kind})
    if service is None:
        return {}
    found = await client._call("GET", f"/endpoints?service_id={service['id']}")
    return {one["interface"]: one["url"] for one in found["endpoints"]}
