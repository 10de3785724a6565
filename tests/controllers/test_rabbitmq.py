"""RabbitMQ: the server's objects, and the virtual hosts that services ask for up to the seam where the server itself
begins (test_servers.py has a real one)."""

from __future__ import annotations

import json
from typing import Any

from world import condition, decoded, states

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds


async def test_a_server_rolls_out_with_its_secrets_in_a_secret_only(world: Any) -> None:
    async with world.operator("rabbitmq") as operator:
        await world.create(ours.RABBITMQ, "bus", {})
        item = await world.until_ready(ours.RABBITMQ, "bus")
        await operator.settle()
    assert states(item) == [
        ("Ready", "True", "Ready"),
        ("CredentialsReady", "True", "Ready"),
        ("ConfigReady", "True", "Ready"),
        ("DeploymentReady", "True", "Ready"),
        ("VhostsReady", "True", "Ready"),
        ("Reconciling", "False", "Ready"),
        ("Stalled", "False", "Ready"),
    ]
    admin = decoded(await world.get(kinds.SECRET, "bus-admin"))
    secret = decoded(await world.get(kinds.SECRET, "bus-config-secrets"))
    assert sorted(secret) == ["definitions.json", "erlang.cookie"]
    assert secret["erlang.cookie"] == admin["cookie"]
    (user,) = json.loads(secret["definitions.json"])["users"]
    assert user == {"name": "admin", "password": admin["password"], "tags": ["administrator"]}
    public = str(await world.all(kinds.CONFIGMAP)) + str(await world.all(kinds.STATEFULSET))
    assert admin["password"] not in public
    assert admin["cookie"] not in public
    (claim,) = (await world.get(kinds.STATEFULSET, "bus"))["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "5Gi"}}


async def test_a_server_that_does_not_answer_is_named_and_stays_unavailable(world: Any) -> None:
    await world.secret("mine", user="nova", password="secret-word")
    request = {"name": "nova", "secretRef": {"name": "mine"}}
    async with world.operator("rabbitmq"):
        await world.create(ours.RABBITMQ, "bus", {"vhosts": [request]})
        item = await world.until_condition(ours.RABBITMQ, "bus", "VhostsReady", "False", "MessageBusUnreachable")
    message = condition(item, "VhostsReady")[2]
    assert message.startswith(f"RabbitMQ http://bus.{world.namespace}.svc:15672/api: ")
    assert "secret-word" not in message


async def test_zero_replicas_stop_the_server_and_say_so(world: Any) -> None:
    """Case 66."""
    async with world.operator("rabbitmq"):
        await world.create(ours.RABBITMQ, "bus", {"replicas": 0})
        item = await world.until_condition(ours.RABBITMQ, "bus", "DeploymentReady", "False", "NoReplicas")
    assert condition(item, "Ready")[2] == "DeploymentReady: spec.replicas is 0: the message bus is stopped"
