"""How long cells of Nova take to come and to go, by their number: the time has to be linear in cells.

For each number of cells: that many are added at once to the cloud of `./up`, and the clock runs until Nova is Ready
with all their hosts; then they are taken out again, and the clock runs until their databases are gone. Their computes
keep servers in memory (`driver: Fake`), since one node has one libvirt. Restarts of what all cells share (API,
scheduler, super-conductor) happen once for each change, so the time is a + b x cells. Printed are also the requests and
the CPU seconds of the operator. Brings up what is missing with `./up --no-vm`.

    python bench/cells.py --cells 1,3,9
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import rollout
from openstack_operator.embedded import cloud, node, paths, programs, up
from openstack_operator.kit import kinds
from openstack_operator.runtime import client, conditions

SOURCE = Path(__file__).resolve().parents[1]
LIMIT_SECONDS = 900
AGENT = "openstack-operator"
Object = dict[str, Any]


def is_current(item: Object, condition: str) -> bool:
    """Whether the condition is True for the newest spec."""
    found = conditions.find(item, condition)
    return (
        found is not None
        and found["status"] == "True"
        and found.get("observedGeneration") == item["metadata"]["generation"]
    )


def requests(log: Path, since: int) -> int:
    """Requests of the operator in the audit log from a place on; the begin of a watch is none."""
    with log.open("rb") as lines:
        lines.seek(since)
        events = map(json.loads, lines)
        return sum(
            one["verb"] != "watch" and one["stage"] == "ResponseComplete" and one.get("userAgent") == AGENT
            for one in events
        )


class Bench:
    """The cloud of `./up`."""

    def __init__(self) -> None:
        where = paths.default()
        self.target = up.run(up.Options(source=SOURCE, until="cloud")).cloud
        self.audit = where.logs / "audit.log"
        self.cluster = node.Node(where, programs.ensure(where.cache), print)

    async def until(self, api: client.Client, resource: Any, name: str, is_met: Callable[[Object], bool]) -> None:
        """Watches one object until it is as wanted."""
        async with asyncio.timeout(LIMIT_SECONDS):
            item = await api.get(resource, name, self.target.namespace)
            if is_met(item):
                return
            version = item["metadata"]["resourceVersion"]
            async for event in api.watch(resource, self.target.namespace, {}, version):
                item = event["object"]
                if event["type"] != "BOOKMARK" and item["metadata"]["name"] == name and is_met(item):
                    return

    def patch(self, templates: Object) -> None:
        body = json.dumps({"spec": {"nova": {"cellTemplates": templates}}})
        where = ("-n", self.target.namespace, "--type=merge", "-p", body)
        cloud.kubectl(self.target, "patch", "openstackcontrolplane", self.target.name, *where)

    async def timed(self, change: Callable[[], None], wait: Callable[[], Any]) -> dict[str, Any]:
        size = self.audit.stat().st_size
        used = rollout.Cpu(lambda: rollout.operator_parts(self.cluster, self.target))
        begin = time.monotonic()
        change()
        await wait()
        seconds = round(time.monotonic() - begin, 1)
        # A log that was rotated meanwhile is shorter than it was.
        count = requests(self.audit, size) if self.audit.stat().st_size >= size else None
        return {"seconds": seconds, "operator requests": count, "operator CPU s": used.used()["operator"]}

    async def round(self, api: client.Client, count: int) -> dict[str, Any]:
        """Figures of so many cells that come, and go again."""
        names = [f"cell{number}" for number in range(2, 2 + count)]
        template = {"computes": {"compute": {"driver": "Fake"}}, "novncproxy": {"enabled": False}}

        def has_all(item: Object) -> bool:
            hosts = item.get("status", {}).get("hosts", [])
            return is_current(item, "Ready") and len(hosts) > count

        def has_none(item: Object) -> bool:
            return is_current(item, "CellRemovalReady") and not set(names) & item["spec"]["cellTemplates"].keys()

        async def come() -> None:
            await self.until(api, kinds.NOVA, "nova", has_all)

        async def go() -> None:
            await self.until(api, kinds.NOVA, "nova", has_none)

        added = await self.timed(lambda: self.patch(dict.fromkeys(names, template)), come)
        print(f"{count} cells came after {added['seconds']} s", flush=True)
        removed = await self.timed(lambda: self.patch(dict.fromkeys(names)), go)
        print(f"{count} cells were gone after {removed['seconds']} s", flush=True)
        await self.until(api, kinds.CONTROL_PLANE, self.target.name, lambda item: is_current(item, "Ready"))
        return {"cells": count, "added": added, "removed": removed}

    async def run(self, counts: Iterable[int]) -> list[dict[str, Any]]:
        config = client.Config.load(str(self.target.kubeconfig))
        async with client.Client(config, "openstack-operator-bench") as api:
            return [await self.round(api, count) for count in counts]


def table(rounds: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| cells added at once | until Ready | for each cell | operator: requests | operator: CPU s | until gone |",
        "|---|---|---|---|---|---|",
    ]
    for one in rounds:
        count, added = one["cells"], one["added"]
        lines.append(
            f"| {count} | {added['seconds']} s | {added['seconds'] / count:.1f} s | {added['operator requests']} | "
            f"{added['operator CPU s']} | {one['removed']['seconds']} s |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="1,3,9", help="numbers of cells, comma-separated")
    parser.add_argument("--output", type=Path, help="JSON file with everything measured")
    arguments = parser.parse_args()
    rounds = asyncio.run(Bench().run([int(text) for text in arguments.cells.split(",")]))
    if arguments.output:
        arguments.output.write_text(json.dumps(rounds, indent=1) + "\n")
    print(table(rounds))


if __name__ == "__main__":
    main()
