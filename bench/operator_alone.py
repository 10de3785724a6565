"""The operator alone, beside two peers: requests, CPU time and memory, without nodes and without OpenStack.

Our runtime, an operator on kopf and one on controller-runtime (`bench/peers/`) do the same work in turn, each on an API
server of its own: 500 objects with three children each, an idle minute, 500 edited children, a restart, and 5,000
children in the cache. Then the whole operator brings up one cloud, 100 clouds, and 10 clouds of 10 cells.

    python bench/operator_alone.py --rounds 3 --output bench/results/operator-alone.json --docs docs

`--from RESULT.json` writes table and documentation of an earlier run anew. Small sizes are a quick try:

    python bench/operator_alone.py --rounds 1 --objects 50 --children 100 --idle 5 --clouds 3 --cells 2 --cell-clouds 1
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/runtime"))

import report
from alone import clouds, programs, table, toy_operator, toys
from openstack_operator.embedded import paths
from openstack_operator.embedded import programs as kubernetes_programs


def sides(names: Sequence[str]) -> list[toys.Side]:
    """The operators to measure, made where they are missing."""
    cache = paths.default().cache
    found = []
    for name in names:
        match name:
            case table.OURS:
                found.append(toys.Side(name, (programs.ours(cache, say), toy_operator.__file__)))
            case table.KOPF:
                # Its own requests carry its own name.
                found.append(toys.Side(name, programs.kopf(cache, say), (toys.AGENT, "kopf/")))
            case table.GO:
                found.append(toys.Side(name, programs.controller_runtime(cache, say)))
    return found


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def measure(where: Path, arguments: argparse.Namespace, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Everything that was asked for; what has a size of 0 is left out. `keep` gets what there is after each part: the
    whole takes three quarters of an hour."""
    sizes = toys.Sizes(arguments.objects, arguments.children, arguments.idle)
    found: dict[str, Any] = {"machine": report.machine(), "sizes": dataclasses.asdict(sizes), "toys": []}
    known, python = sides(arguments.sides.split(",")), programs.ours(paths.default().cache, say)
    for number in range(arguments.rounds if arguments.objects else 0):
        one: dict[str, Any] = {}
        # Another one begins each time.
        for side in known[number % len(known) :] + known[: number % len(known)]:
            one[side.name] = await toys.measure(where, side, sizes)
            say(f"round {number + 1}: {side.name}: {one[side.name]['create']['cpu']} CPU s for {sizes.objects} objects")
        found["toys"].append(one)
        keep(found)
    if arguments.children:
        found["memory"] = await toys.measure_memory(where, known, sizes)
        keep(found)
    if arguments.clouds:
        found["growth"] = await clouds.measure_growth(where, python, arguments.clouds, arguments.idle)
        keep(found)
    if arguments.cells and arguments.cell_clouds:
        found["cells"] = await clouds.measure_cells(where, python, arguments.cells, arguments.cell_clouds)
        keep(found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of the work that all operators do")
    parser.add_argument("--objects", type=int, default=500, help="0: none of that work")
    parser.add_argument("--children", type=int, default=5000, help="in the cache; 0: not measured")
    parser.add_argument("--idle", type=float, default=60, help="seconds")
    parser.add_argument("--clouds", type=int, default=100, help="up to so many; 0: none")
    parser.add_argument("--cells", type=int, default=10, help="in each of the clouds of many cells; 0: none of them")
    parser.add_argument("--cell-clouds", type=int, default=10, help="clouds of many cells")
    parser.add_argument("--sides", default=",".join((table.OURS, table.KOPF, table.GO)), help="operators to measure")
    parser.add_argument("--output", type=Path, help="JSON file with everything measured")
    parser.add_argument("--docs", type=Path, help="documentation to put the table into")
    parser.add_argument("--from", dest="result", type=Path, help="result of an earlier run; nothing is measured")
    arguments = parser.parse_args()
    if arguments.result:
        found = json.loads(arguments.result.read_text())
    else:
        given = os.environ.get("OPENSTACK_OPERATOR_KUBERNETES_BIN")
        cache = paths.default().cache
        where = Path(given) if given else kubernetes_programs.ensure(cache, needed=kubernetes_programs.CONTROL)

        def keep(found: dict[str, Any]) -> None:
            if arguments.output:
                arguments.output.parent.mkdir(parents=True, exist_ok=True)
                arguments.output.write_text(json.dumps(found, indent=1) + "\n")

        found = asyncio.run(measure(where, arguments, keep))
    print(table.table(found))
    if arguments.docs:
        table.write(found, arguments.docs)
    if broken := [name for name, _, _, holds in table.verdicts(found) if not holds]:
        sys.exit(f"out of reach: {'; '.join(broken)}")


if __name__ == "__main__":
    main()
