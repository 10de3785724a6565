"""What an operator on our runtime costs: requests, CPU and memory for N toy objects, an idle minute, and a restart.

Starts an API server of its own with an audit log, runs the toy operator of tests/runtime in a process, and plays the
deployment controller's part. Prints JSON. `python bench/operator_requests.py --objects 500 --idle 60`
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/runtime"))

import toy

from openstack_operator.embedded import paths, programs
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.runtime import client, conditions, kinds

NAMESPACE = "bench"
AGENT = "operator"


class Process:
    """The operator as a process of its own; a context manager that ends it with SIGTERM."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._arguments = (toy.__file__, str(control_plane.kubeconfig), NAMESPACE, "bench", AGENT)

    async def __aenter__(self) -> Process:
        self.began = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._arguments, stderr=asyncio.subprocess.DEVNULL
        )
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._process.terminate()
        await self._process.wait()

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return round(pages * resource.getpagesize() / 1e6, 1)


def requests(control_plane: ControlPlane, since: int) -> dict[str, int]:
    """Requests of the operator by verb and resource, watches by their begin."""
    found: collections.Counter[str] = collections.Counter()
    for event in control_plane.audit_events(since):
        stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
        if event.get("userAgent") == AGENT and event["stage"] == stage:
            reference = event["objectRef"]
            found[" ".join(filter(None, (event["verb"], reference["resource"], reference.get("subresource"))))] += 1
    return dict(sorted(found.items()))


async def all_ready(api: client.Client, count: int) -> None:
    """Watches the toys until all of them are Ready."""
    ready: set[str] = set()
    version = ""
    async for page in api.list_pages(toy.RESOURCE, NAMESPACE, {}):
        version = page["metadata"]["resourceVersion"]
        ready |= {item["metadata"]["name"] for item in page["items"] if conditions.is_ready(item)}
    async for event in api.watch(toy.RESOURCE, NAMESPACE, {}, version):
        if conditions.is_ready(event["object"] if event["type"] == "MODIFIED" else None):
            ready.add(event["object"]["metadata"]["name"])
        if len(ready) == count:
            return


async def deployments_come_up(api: client.Client) -> None:
    """Says that the pod of each new Deployment is ready."""
    body: dict[str, Any] = {"status": {"replicas": 1, "readyReplicas": 1}}
    async for event in api.watch(kinds.DEPLOYMENT, NAMESPACE, {}, "0"):
        if event["type"] == "ADDED":
            path = kinds.DEPLOYMENT.path(NAMESPACE, event["object"]["metadata"]["name"], "status")
            await api.request("PATCH", path, body=body, content_type="application/merge-patch+json")


async def measure(control_plane: ControlPlane, count: int, idle: float) -> dict[str, Any]:
    control_plane.apply(toy.crd())
    control_plane.kubectl("wait", "--for=condition=Established", f"crd/{toy.RESOURCE.full_name}", "--timeout=20s")
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    out: dict[str, Any] = {"objects": count}
    async with client.Client(client.Config.from_kubeconfig(control_plane.kubeconfig), "user") as api:
        playing = asyncio.ensure_future(deployments_come_up(api))
        async with Process(control_plane) as process:
            began = time.monotonic()
            for number in range(count):
                metadata = {"name": f"toy-{number}", "namespace": NAMESPACE}
                await api.create(toy.RESOURCE, {"metadata": metadata, "spec": {}})
            await all_ready(api, count)
            out["seconds_until_ready"] = round(time.monotonic() - began, 1)
            # Events are written after the status that says Ready.
            await asyncio.sleep(2)
            done = requests(control_plane, 0)
            writes = {key: number for key, number in done.items() if key.startswith("patch")}
            out["requests"] = done
            out["writes_per_object"] = round(sum(writes.values()) / count, 2)
            out["cpu_seconds"], out["rss_mb"] = round(process.cpu_seconds(), 2), process.rss_mb()
            before, cpu = control_plane.audit_size(), process.cpu_seconds()
            await asyncio.sleep(idle)
            out["idle"] = {
                "seconds": idle,
                "requests": requests(control_plane, before),
                "cpu_seconds": round(process.cpu_seconds() - cpu, 2),
            }
        before = control_plane.audit_size()
        async with Process(control_plane) as process:
            # Long enough for a pass over every object.
            await asyncio.sleep(5 + count / 100)
            out["restart"] = {
                "requests": requests(control_plane, before),
                "cpu_seconds": round(process.cpu_seconds(), 2),
                "rss_mb": process.rss_mb(),
            }
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=500)
    parser.add_argument("--idle", type=float, default=60, help="seconds")
    arguments = parser.parse_args()
    given = os.environ.get("OPENSTACK_OPERATOR_KUBERNETES_BIN")
    where = Path(given) if given else programs.ensure(paths.default().cache, needed=programs.CONTROL)
    with tempfile.TemporaryDirectory() as directory, ControlPlane(where, Path(directory)) as control_plane:
        print(json.dumps(asyncio.run(measure(control_plane, arguments.objects, arguments.idle)), indent=2))


if __name__ == "__main__":
    main()
