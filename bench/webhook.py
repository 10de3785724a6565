"""What the admission webhook costs: time of its answers, memory and CPU of the operator's process with and without it.

Starts an API server of its own, and the operator (`openstack-operator run`) as a process, first without and then with
its webhook. Asks the webhook directly, over TLS, about the biggest valid sample and about long texts.
`python bench/webhook.py --calls 1000`
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import yaml

import report
from openstack_operator import controlplane
from openstack_operator.embedded import paths, programs
from openstack_operator.embedded.apiserver import ControlPlane, free_ports
from openstack_operator.kit import settings
from openstack_operator.runtime import client, errors, kinds, webhook

NAMESPACE = "bench"
NAME = "openstack-operator"
SAMPLES = Path(__file__).parents[1] / "deploy" / "samples" / "valid"
KINDS = [kind for service in controlplane.EVERYTHING for kind in service.kinds]


def memory(pid: int) -> dict[str, float]:
    """Megabytes: what is resident, and what of that no other process shares."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = {line.split(":")[0]: int(line.split()[1]) * 1024 / 1e6 for line in text.splitlines()[1:]}
    return {
        "rss": round(found["Rss"], 1),
        "private": round(found["Private_Clean"] + found["Private_Dirty"], 1),
    }


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def operator(cluster: ControlPlane, kubeconfig: Path, port: int) -> AsyncIterator[int]:
    """The whole operator as its pod runs it; its process id once its caches are filled."""
    (health,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "openstack_operator.cli.run", f"--kubeconfig={kubeconfig}", f"--webhook-port={port}",
        f"--health-port={health}", "--metrics-port=0",
        env=os.environ | {"MALLOC_ARENA_MAX": "1"}, stderr=(cluster.directory / "operator.log").open("ab"),
    )  # fmt: skip
    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(60):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"http://127.0.0.1:{health}/readyz") as answer:
                        if answer.status == 200:
                            break
                await asyncio.sleep(0.1)
        # What start-up used is given back, and first passes are over.
        await asyncio.sleep(5)
        yield process.pid
    finally:
        process.terminate()
        await process.wait()


def biggest_sample() -> dict[str, Any]:
    """The valid sample with the longest text."""
    path = max(SAMPLES.glob("*.yaml"), key=lambda one: one.stat().st_size)
    ours = {kind.resource.kind for kind in KINDS}
    return max(
        (one for one in yaml.safe_load_all(path.read_text()) if one["kind"] in ours), key=lambda one: len(str(one))
    )


def with_text(lines: int) -> dict[str, Any]:
    """A control plane with a text of so many options in each of two services."""
    text = "[DEFAULT]\n" + "".join(f"option_{number} = value {number}\n" for number in range(lines))
    return {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "OpenStackControlPlane",
        "metadata": {"name": "cloud", "namespace": NAMESPACE},
        "spec": {"keystone": {"customServiceConfig": text}, "glance": {"customServiceConfig": text}},
    }


async def timed(calls: int, call: Callable[[], Awaitable[None]]) -> dict[str, float]:
    """Milliseconds."""
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        await call()
        took.append((time.perf_counter() - began) * 1000)
    cuts = statistics.quantiles(took, n=100)
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2), "max": round(max(took), 2)}


def asking(session: aiohttp.ClientSession, port: int, item: dict[str, Any], old: bool) -> Callable[[], Awaitable[None]]:
    resource = next(kind.resource for kind in KINDS if kind.resource.kind == item["kind"])
    item = item | {"metadata": item["metadata"] | {"namespace": NAMESPACE}}
    request = {
        "uid": "u", "namespace": NAMESPACE, "object": item, "oldObject": item if old else None,
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
    }  # fmt: skip
    body = client.encode({"request": request})

    async def ask() -> None:
        async with session.post(f"https://127.0.0.1:{port}{webhook.PATH}", data=body) as answer:
            response = client.decode(await answer.read())["response"]
            assert response["allowed"], response

    return ask


async def measure(cluster: ControlPlane, calls: int) -> dict[str, Any]:
    resources = [kind.resource for kind in KINDS]
    cluster.apply(*(kinds.crd(kind) for kind in KINDS))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    cluster.request("POST", kinds.NAMESPACE.path(), {"metadata": {"name": NAMESPACE}})
    (port,) = free_ports(1)
    # The certificate is for a Service, which leads nowhere here: a name that clients resolve to loopback.
    host = f"{NAME}.default.svc"
    where = {"url": f"https://{host}:{port}{webhook.PATH}"}
    cluster.apply(webhook.configuration(NAME, settings.WEBHOOK, resources, where, "nobody"))
    config = client.Config.from_kubeconfig(cluster.kubeconfig)
    found: dict[str, Any] = {}
    async with client.Client(config, "bench") as api:
        async with operator(cluster, cluster.kubeconfig, 0) as pid:
            found["memory_without_mb"] = memory(pid)
        async with operator(cluster, cluster.kubeconfig, port) as pid:
            found["memory_idle_mb"] = memory(pid)
            item = await api.get(kinds.VALIDATINGWEBHOOKCONFIGURATION, NAME)
            bundle = base64.b64decode(item["webhooks"][0]["clientConfig"]["caBundle"]).decode()
            tls = ssl.create_default_context(cadata=bundle)
            # By its name the certificate is checked, and by its address the server is found.
            connector = aiohttp.TCPConnector(ssl=tls)
            async with aiohttp.ClientSession(connector=connector) as session:
                asks = {
                    "biggest sample, made": asking(_named(session, host), port, biggest_sample(), False),
                    "biggest sample, changed": asking(_named(session, host), port, biggest_sample(), True),
                    "two texts of 2000 lines": asking(_named(session, host), port, with_text(2000), False),
                }
                for name, ask in asks.items():
                    before = cpu_seconds(pid)
                    found[name] = await timed(calls, ask)
                    found[name]["cpu_ms"] = round((cpu_seconds(pid) - before) * 1000 / calls, 2)
            found["memory_after_mb"] = memory(pid)
    return found


def _named(session: aiohttp.ClientSession, host: str) -> Any:
    """The session with the certificate's name in its handshakes."""

    class Named:
        def post(self, url: str, **options: Any) -> Any:
            return session.post(url, server_hostname=host, **options)

    return Named()


def table(found: dict[str, Any]) -> str:
    """Markdown."""
    asked = {name: one for name, one in found.items() if "p50" in one}
    rows = [[name, *(f"{one[key]:.1f} ms" for key in ("p50", "p99", "max", "cpu_ms"))] for name, one in asked.items()]
    memory = {name: found[f"memory_{name}_mb"]["rss"] for name in ("without", "idle", "after")}
    return (
        f"{report.table(('request about', 'median', 'p99', 'slowest', 'CPU time'), rows)}\n"
        f"The operator holds {memory['without']:.0f} MB without its webhook, {memory['idle']:.0f} MB with it, and "
        f"{memory['after']:.0f} MB after these requests.\n"
    )


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=1000)
    report.add_options(options)
    arguments = options.parse_args()
    given = os.environ.get("OPENSTACK_OPERATOR_KUBERNETES_BIN")
    there = Path(given) if given else programs.ensure(paths.default().cache, needed=programs.CONTROL)
    with tempfile.TemporaryDirectory() as directory, ControlPlane(there, Path(directory)) as cluster:
        try:
            found = await measure(cluster, arguments.calls)
        except (errors.OperatorError, TimeoutError):
            print((cluster.directory / "operator.log").read_text()[-3000:], file=sys.stderr)
            raise
    report.publish(arguments, "webhook", found, table(found))


if __name__ == "__main__":
    asyncio.run(main())
