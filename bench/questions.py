"""How long people wait for an answer about a whole cloud: explain, trace, graph, status and plan, start to end.

    python bench/questions.py [--namespace openstack] [--name openstack] [--rounds 5]

Needs the cloud of `./up`, changes nothing. The plan is that of a text for the computes of one cell. Aim: 1 s each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import report
from openstack_operator.cli import cloud
from openstack_operator.kit import kinds
from openstack_operator.runtime import client

TEXT = "[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\n"


async def changed(kubeconfig: str | None, namespace: str, name: str) -> dict[str, Any]:
    """The control plane with another text for the computes of its first cell."""
    async with client.Client(client.Config.load(kubeconfig), "bench") as api:
        item = await api.get(kinds.CONTROL_PLANE, name, namespace)
    cells = item["spec"]["nova"]["cellTemplates"]
    group = next(iter(next(iter(cells.values()))["computes"].values()))
    group["customServiceConfig"] = TEXT
    return {
        "apiVersion": kinds.CONTROL_PLANE.api_version,
        "kind": kinds.CONTROL_PLANE.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": item["spec"],
    }


def measure(arguments: list[str], rounds: int) -> dict[str, float]:
    """Wall clock and CPU seconds of one command."""
    walls, cpus = [], []
    for _ in range(rounds):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "openstack_operator", *arguments], check=False, capture_output=True, text=True
        )
        walls.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        # 3: something is not Ready, or hops disagree; an answer as well.
        if done.returncode not in (0, 3):
            raise SystemExit(done.stderr)
    return {
        "best": round(min(walls), 2),
        "median": round(statistics.median(walls), 2),
        "cpu": round(statistics.median(cpus), 2),
    }


def table(found: dict[str, dict[str, float]]) -> str:
    """Markdown."""
    rows = [[name, *(f"{one[key]:.2f} s" for key in ("median", "best", "cpu"))] for name, one in found.items()]
    return report.table(("command", "median", "best", "CPU time"), rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--namespace", default="openstack")
    options.add_argument("--name", default="openstack")
    options.add_argument("--rounds", type=int, default=5)
    report.add_options(options)
    given = options.parse_args()
    kubeconfig = cloud.cluster(None)
    if kubeconfig is not None:
        os.environ["KUBECONFIG"] = kubeconfig
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "changed.json"
        file.write_text(json.dumps(asyncio.run(changed(kubeconfig, given.namespace, given.name))))
        commands = {
            "explain offline": ["explain", "--offline", "nova.libvirt.cpu_mode"],
            "explain": ["explain", "nova.libvirt.cpu_mode"],
            "trace": ["trace", "nova", "libvirt.cpu_mode"],
            "graph": ["graph"],
            "status": ["status"],
            "plan": ["plan", "-f", str(file)],
        }
        found = {name: measure(command, given.rounds) for name, command in commands.items()}
    report.publish(given, "questions", {"rounds": given.rounds, "seconds": found}, table(found))


if __name__ == "__main__":
    main()
