"""A cluster that the user brought: everything it lacks is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.embedded import apiserver as apiserver_module
from openstack_operator.embedded import existing


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


async def test_a_vm_needs_a_node_that_somebody_chose(apiserver: apiserver_module.ControlPlane) -> None:
    with pytest.raises(existing.ClusterError, match=r"no node has the label openstack\.k8s\.io/compute=true"):
        await existing.check(apiserver.kubeconfig, guests=True)
    with pytest.raises(existing.ClusterError) as refused:
        await existing.check(apiserver.kubeconfig)
    assert "no node" not in str(refused.value)


async def test_missing_permissions_are_named(apiserver: apiserver_module.ControlPlane) -> None:
    from openstack_operator.runtime import client

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
    assert len(lines) == 1 + len(existing.NEEDED)
    assert "  - no permission to create customresourcedefinitions.apiextensions.k8s.io" in lines
