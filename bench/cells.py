"""How long cells of Nova take to come and to go, by their number: the time has to be linear in cells.

For each number of cells: that many are added at once to the cloud of `./up`, and the clock runs until Nova is Ready
with all their hosts; then they are taken out again, and the clock runs until their databases are gone. Their computes
keep servers in memory (`driver: Fake`), since one node has one libvirt. Restarts of what all cells share (API,
scheduler, super-conductor) happen once for each change, so the time is a + b x cells. Printed are also the requests and
the CPU seconds of the operator. Brings up what is missing with `./up --no-vm`.

    python bench/cells.py --cells 1,3,6
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import live
import report
from openstack_operator.kit import kinds
from openstack_operator.runtime import client

Object = dict[str, Any]

TEMPLATE: Object = {"computes": {"compute": {"driver": "Fake"}}, "novncproxy": {"enabled": False}}


class Bench(live.LiveCloud):
    """Cells that come and go."""

    async def add(self, api: client.Client, names: Sequence[str]) -> Object:
        """Figures of so many cells that come at once."""

        def has_all(item: Object) -> bool:
            hosts = item.get("status", {}).get("hosts", [])
            return live.is_current(item, "Ready") and len(hosts) > len(names)

        async def come() -> None:
            await self.until(api, kinds.NOVA, "nova", has_all)

        return await self.timed(lambda: self.patch(templates(names, TEMPLATE)), come)

    async def remove(self, api: client.Client, names: Sequence[str]) -> Object:
        """Figures of the same cells as they go."""

        def has_none(item: Object) -> bool:
            return live.is_current(item, "CellRemovalReady") and not set(names) & item["spec"]["cellTemplates"].keys()

        async def go() -> None:
            await self.until(api, kinds.NOVA, "nova", has_none)

        return await self.timed(lambda: self.patch(templates(names, None)), go)

    async def round(self, api: client.Client, count: int) -> Object:
        """Figures of so many cells that come, and go again."""
        names = [f"cell{number}" for number in range(2, 2 + count)]
        added = await self.add(api, names)
        print(f"{count} cells came after {added['seconds']} s", flush=True)
        removed = await self.remove(api, names)
        print(f"{count} cells were gone after {removed['seconds']} s", flush=True)
        await self.until_ready(api)
        return {"cells": count, "added": added, "removed": removed}

    async def run(self, counts: Iterable[int]) -> list[dict[str, Any]]:
        async with self.api() as api:
            return [await self.round(api, count) for count in counts]


def templates(names: Iterable[str], template: Object | None) -> Object:
    """The part of a control plane's spec that has these cells, or takes them out."""
    return {"nova": {"cellTemplates": dict.fromkeys(names, template)}}


def table(rounds: list[dict[str, Any]]) -> str:
    """Markdown."""
    header = ("cells added at once", "until Ready", "for each cell", "operator: requests", "operator: CPU s")
    rows = []
    for one in rounds:
        count, added = one["cells"], one["added"]
        rows.append(
            [count, f"{added['seconds']} s", f"{added['seconds'] / count:.1f} s", added["operator requests"],
             added["operator CPU s"], f"{one['removed']['seconds']} s"]
        )  # fmt: skip
    return report.table((*header, "until gone"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="1,3,6", help="numbers of cells, comma-separated")
    report.add_options(parser)
    arguments = parser.parse_args()
    rounds = asyncio.run(Bench().run([int(text) for text in arguments.cells.split(",")]))
    report.publish(arguments, "cells", {"rounds": rounds}, table(rounds))


if __name__ == "__main__":
    main()
