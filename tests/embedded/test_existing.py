"""A cluster that the user brought: everything it lacks is named."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import watching
from openstack_operator.embedded import apiserver as apiserver_module
from openstack_operator.embedded import existing
from openstack_operator.runtime import client, kinds


async def test_a_cluster_without_a_default_storage_class_is_refused(apiserver: apiserver_module.ControlPlane) -> None:
    with pytest.raises(existing.ClusterError, match=r"no default StorageClass \(classes: none at all\)"):
        await existing.check(apiserver.kubeconfig)


@pytest.mark.parametrize(("minor", "refused"), [("29", True), ("30", False), ("30+", False), ("36", False)])
def test_kubernetes_older_than_1_30_is_refused(minor: str, refused: bool) -> None:
    """Regression f54. Regression h16."""
    found = existing.old_version({"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"})
    assert bool(found) is refused


def test_the_classes_that_are_not_default_are_named() -> None:
    classes: list[dict[str, Any]] = [{"metadata": {"name": "slow"}}, {"metadata": {"name": "fast", "annotations": {}}}]
    assert existing.missing_storage(classes) == [
        "it has no default StorageClass (classes: slow, fast): annotate one with "
        "storageclass.kubernetes.io/is-default-class=true"
    ]


async def test_a_cluster_whose_services_get_ipv6_addresses_is_refused(
    kubernetes_programs: Path, tmp_path: Path
) -> None:
    """Field case 47. Regression f20."""
    own = apiserver_module.ControlPlane(kubernetes_programs, tmp_path / "apiserver")
    flags = (*own.cluster.extra_apiserver, "--advertise-address=2001:db8::1")
    own.cluster = dataclasses.replace(own.cluster, services="fd00:96::/112", extra_apiserver=flags)
    with own:
        await until_there(own)
        with pytest.raises(existing.ClusterError) as refused:
            await existing.check(own.kubeconfig)
    assert str(refused.value).splitlines()[2:] == [
        "  - its Services get IPv6 addresses (default/kubernetes has fd00:96::1), and the APIs are served over IPv4: "
        "take a cluster with IPv4, or with both and IPv4 first"
    ]


async def test_a_cluster_whose_services_get_ipv4_addresses_is_not(apiserver: apiserver_module.ControlPlane) -> None:
    await until_there(apiserver)
    with pytest.raises(existing.ClusterError) as refused:
        await existing.check(apiserver.kubeconfig)
    assert "IPv" not in str(refused.value)


async def until_there(control_plane: apiserver_module.ControlPlane) -> None:
    """An API server makes its own Service a moment after it is ready."""
    async with client.Client(client.Config.load(str(control_plane.kubeconfig)), "test") as api:
        await watching.until(api, kinds.SERVICE, "default", "kubernetes", bool, 30)


async def test_a_vm_needs_a_node_that_somebody_chose(apiserver: apiserver_module.ControlPlane) -> None:
    with pytest.raises(existing.ClusterError, match=r"no node has the label openstack\.k8s\.io/compute=true"):
        await existing.check(apiserver.kubeconfig, guests=True)
    with pytest.raises(existing.ClusterError) as refused:
        await existing.check(apiserver.kubeconfig)
    assert "no node" not in str(refused.value)


async def test_missing_permissions_are_named(apiserver: apiserver_module.ControlPlane) -> None:
    async with client.Client(client.Config.load(str(apiserver.kubeconfig)), "test") as api:
        assert await existing.is_allowed(api, "apps", "deployments", "create")


async def test_a_user_without_permissions_is_told_all_that_are_missing(
    apiserver: apiserver_module.ControlPlane, tmp_path: Path
) -> None:
    apiserver.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "nobody"}})
    token = apiserver.kubectl("create", "token", "nobody").strip()
    config = json.loads(apiserver.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    with pytest.raises(existing.ClusterError) as refused:
        await existing.check(kubeconfig)
    lines = str(refused.value).splitlines()[1:]
    assert len(lines) == 2 + len(existing.NEEDED)
    assert "  - no permission to create customresourcedefinitions.apiextensions.k8s.io" in lines
