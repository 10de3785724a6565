"""The operator with the generated access rules and nothing more: a whole rollout and deletion without one refusal."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from test_controlplane import INFRASTRUCTURE, only

from openstack_operator.cli import generate, run
from openstack_operator.embedded.apiserver import ControlPlane, free_ports
from openstack_operator.kit import kinds as ours
from openstack_operator.kit import settings
from openstack_operator.runtime import client, errors, kinds, webhook
from watching import eventually

ROOT = Path(__file__).parents[2]
ACCOUNT = kinds.Resource("", "v1", "serviceaccounts", "ServiceAccount")


@pytest.fixture
def restricted(cluster: ControlPlane) -> client.Config:
    """How the operator's service account logs in."""
    product = generate.product(ROOT)
    cluster.apply(generate.namespace(product.version), *generate.access(product))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    path = ACCOUNT.path("openstack-operator-system", "openstack-operator", "token")
    token = cluster.request("POST", path, request)["status"]["token"]
    admin = client.Config.from_kubeconfig(cluster.kubeconfig)
    tls = ssl.create_default_context(cafile=str(cluster.cluster.pki / "ca.crt"))
    return client.Config(server=admin.server, ssl_context=tls, token=token)


async def test_a_rollout_and_its_end_meet_no_refusal(world: Any, restricted: client.Config) -> None:
    """Regression f21."""
    before = world.cluster.audit_size()
    services = ("openstackcontrolplane", "keystone", "memcached")
    async with world.operator(*services, config=restricted):
        spec = only(
            *INFRASTRUCTURE, "keystone", keystone={"replicas": 2, "publicEndpoint": {"type": "NodePort", "host": "h"}}
        )
        await world.create(ours.CONTROL_PLANE, "cloud", spec)
        playing = asyncio.ensure_future(world.play_servers())
        await world.until_condition(ours.KEYSTONE, "keystone", "CatalogReady", "False", "KeystoneUnreachable")
        await world.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"keystone": {"replicas": 1}}})
        await world.until_gone(kinds.PDB, "keystone-api")
        await world.delete(ours.CONTROL_PLANE, "cloud")
        await world.until_gone(ours.CONTROL_PLANE, "cloud")
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing
    async with world.operator("mariadb", "rabbitmq", config=restricted):
        for resource, name in ((ours.MARIADB, "db"), (ours.RABBITMQ, "bus")):
            await world.create(resource, name, {})
            await world.until_ready(resource, name)
    account = "system:serviceaccount:openstack-operator-system:openstack-operator"
    mine = [
        event
        for event in world.cluster.audit_events(before)
        if event["userAgent"] == run.FIELD_MANAGER and event["user"]["username"] == account
    ]
    assert len(mine) > 50
    refused = {
        (event["verb"], event["objectRef"]["resource"], event["objectRef"].get("name"))
        for event in mine
        if event.get("responseStatus", {}).get("code") in (401, 403)
    }
    assert refused == set()


async def _forever(ask: Callable[[], Awaitable[Any]]) -> None:
    """Until it raises: the API server learns of a configuration by a watch."""
    while True:
        await ask()


async def test_the_webhook_is_looked_after_and_what_the_operator_writes_never_comes_to_it(
    world: Any, restricted: client.Config
) -> None:
    """With the generated configuration, but for the address: Services lead nowhere here."""
    port = free_ports(1)[0]
    configuration = generate.webhooks(generate.product(ROOT))
    entry = configuration["webhooks"][0]
    entry["clientConfig"] = {"url": f"https://127.0.0.1:{port}{webhook.PATH}"}
    entry["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    world.cluster.apply(configuration)
    names = webhook.Settings(
        generate.OPERATOR, settings.WEBHOOK, generate.NAMESPACE, settings.webhook_secret(generate.OPERATOR),
        ("IP:127.0.0.1",), port, "127.0.0.1",
    )  # fmt: skip
    body = {
        "apiVersion": ours.KEYSTONE.api_version,
        "kind": ours.KEYSTONE.kind,
        "metadata": {"name": "probe", "namespace": world.namespace},
        "spec": {"customServiceConfig": "nonsense"},
    }
    path = f"{ours.KEYSTONE.path(world.namespace)}?dryRun=All"
    before = world.cluster.audit_size()
    try:
        async with world.operator("keystone", config=restricted, admission=names) as operator:
            await eventually(operator.manager.webhook.serving.is_set, "the webhook serves")
            async with asyncio.timeout(20), client.Client(restricted, run.FIELD_MANAGER) as operators:
                with pytest.raises(errors.ApiError, match=r"denied the request: spec\.customServiceConfig: line 1"):
                    await _forever(lambda: world.api.request("POST", path, body=body))
                await operators.request("POST", path, body=body)
    finally:
        await world.api.delete(kinds.VALIDATINGWEBHOOKCONFIGURATION, generate.OPERATOR)
    account = f"system:serviceaccount:{generate.NAMESPACE}:{generate.OPERATOR}"
    refused = [
        (event["verb"], event["objectRef"]["resource"])
        for event in world.cluster.audit_events(before)
        if event["user"]["username"] == account and event.get("responseStatus", {}).get("code") in (401, 403)
    ]
    assert refused == []
