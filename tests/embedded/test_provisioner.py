"""The provisioner of local volumes, against a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.embedded import provisioner
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.runtime import client, errors, kinds


@pytest.fixture
async def api(apiserver: ControlPlane) -> AsyncIterator[client.Client]:
    async with client.Client(client.Config.load(str(apiserver.kubeconfig)), "test") as connection:
        yield connection


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(errors.ApiError):
                if (found := await condition()) is not None:
                    return found
            await asyncio.sleep(0.05)


def claim(namespace: str, node: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "data",
            "namespace": namespace,
            "annotations": {
                provisioner.STORAGE_PROVISIONER: provisioner.PROVISIONER,
                provisioner.SELECTED_NODE: node,
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local",
        },
    }


async def test_a_claim_gets_a_directory_and_loses_it_when_its_volume_is_released(
    api: client.Client, namespace: str, tmp_path: Path
) -> None:
    node = f"node-{namespace}"
    running = asyncio.create_task(provisioner.Provisioner(api, tmp_path, node).run())
    try:
        made = await api.create(kinds.PVC, claim(namespace, node))
        name = f"pvc-{made['metadata']['uid']}"
        volume = await until(lambda: api.get(provisioner.VOLUME, name))
        assert volume["spec"]["local"]["path"] == str(tmp_path / name)
        assert volume["spec"]["claimRef"]["uid"] == made["metadata"]["uid"]
        assert volume["spec"]["capacity"] == {"storage": "1Gi"}
        assert (tmp_path / name).is_dir()
        (tmp_path / name / "file").write_text("x")
        status = {"metadata": {"name": name}, "status": {"phase": "Released"}}
        await api.apply(provisioner.VOLUME, status, subresource="status")

        async def gone() -> bool | None:
            return True if not (tmp_path / name).exists() else None

        await until(gone)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_claim_of_another_node_is_left_alone(api: client.Client, namespace: str, tmp_path: Path) -> None:
    assert not provisioner.is_wanted(claim(namespace, "elsewhere"), "here")
    assert provisioner.is_wanted(claim(namespace, "here"), "here")


def test_a_claim_for_which_nobody_has_chosen_a_node_is_served() -> None:
    wanted = claim("n", "here")
    del wanted["metadata"]["annotations"][provisioner.SELECTED_NODE]
    assert provisioner.is_wanted(wanted, "here")


def test_a_directory_outside_of_ours_is_never_removed(tmp_path: Path) -> None:
    body = provisioner.volume_of(
        {"metadata": {"uid": "u", "namespace": "n", "name": "c"}, "spec": claim("n", "here")["spec"]}, tmp_path, "here"
    )
    assert Path(body["spec"]["local"]["path"]).parent == tmp_path
