"""What `up` says while it waits for the cloud, with a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import watching
from openstack_operator import controlplane
from openstack_operator.embedded import cloud
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import kinds
from openstack_operator.runtime import kinds as built_in
from readiness import set_ready

NOT_YET = "the operator has not looked at it yet"


async def test_an_api_server_that_is_away_is_told_and_then_what_it_says_again(
    own_apiserver: ControlPlane, tmp_path: Path
) -> None:
    (kind,) = controlplane.SERVICE.kinds
    own_apiserver.apply(built_in.crd(kind))

    def is_established() -> bool:
        item: dict[str, Any] = own_apiserver.request("GET", built_in.CRD.path(None, kinds.CONTROL_PLANE.full_name))
        return any(one["type"] == "Established" for one in item["status"].get("conditions") or ())

    await watching.eventually(is_established, "the kind is known")
    head = {"apiVersion": kinds.CONTROL_PLANE.api_version, "kind": kinds.CONTROL_PLANE.kind}
    own_apiserver.apply({**head, "metadata": {"name": "openstack", "namespace": "default"}})
    target = cloud.Cloud(own_apiserver.kubeconfig, tmp_path / "kubectl", tmp_path, tmp_path, namespace="default")
    said: list[str] = []
    waits = asyncio.ensure_future(cloud.wait_ready(target, said.append))
    try:
        await watching.eventually(lambda: said == [NOT_YET], "it waits")
        await asyncio.to_thread(own_apiserver.kill, "kube-apiserver")
        await watching.eventually(lambda: said[-1].startswith("no answer from the API server"), "it says so")
        await asyncio.to_thread(own_apiserver.start)
        await watching.eventually(lambda: said[-1] == NOT_YET, "it waits on", seconds=60)
        set_ready(own_apiserver, "openstack")
        await waits
    finally:
        waits.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waits
