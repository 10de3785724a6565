"""The operator with the generated access rules and nothing more: a whole rollout and deletion without one refusal."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any

import pytest
from test_controlplane import INFRASTRUCTURE, only

from openstack_operator.cli import generate, run
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import client, kinds

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
