"""Where the time of `./up` goes: seconds of each stage, and what the machine did meanwhile.

  warm  after `./down`, with everything built in the cache
  cold  with an empty cache: everything is downloaded and built (--cold; ten minutes and more). Packages of the machine
        itself, which `./down` leaves installed, are there already

Of each stage: CPU seconds of the whole machine and how much of its processors that is, bytes that came in over the
network, bytes read from and written to disks, and for how long something stood still for want of a processor, of a disk
or of memory (/proc/pressure, where the kernel has it). Two chains of stages run side by side (`embedded/up.py`), so
figures of stages that overlap have parts in common.

Needs root. Takes the cloud of this machine down first, with its data, and leaves a new one.

    python bench/up_stages.py --rounds 2 --cold --output bench/results/up-stages.json --docs docs
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import report
import rollout
from openstack_operator.embedded import down, paths, progress, up

Figures = dict[str, Any]

SECTOR_BYTES = 512
PRESSURE = ("cpu", "io", "memory")
# A stage that uses this much of the processors waits for them.
BUSY = 0.8
# Or else for what something stood still for, this much of its time.
STALLED = 0.25
NETWORK_BYTES_A_SECOND = 1e6


def counters() -> dict[str, float]:
    """What the kernel has counted since the machine was started: seconds and bytes."""
    found = {"cpu": rollout.machine_seconds(), "received": received(), **disks()}
    for one in PRESSURE:
        try:
            some = Path("/proc/pressure", one).read_text().splitlines()[0]
        except OSError:
            continue
        found[f"stalled: {one}"] = int(some.rpartition("total=")[2]) / 1e6
    return found


def received() -> float:
    """Bytes that came in on the machine's own interfaces, which have a device below them."""
    total = 0
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, fields = line.partition(":")
        if Path("/sys/class/net", name.strip(), "device").exists():
            total += int(fields.split()[0])
    return total


def disks() -> dict[str, float]:
    """Bytes read and written on whole disks that are no devices on top of others."""
    read = written = 0
    for line in Path("/proc/diskstats").read_text().splitlines():
        _, _, name, *fields = line.split()
        if Path("/sys/block", name, "device").exists():
            read, written = read + int(fields[2]), written + int(fields[6])
    return {"read": read * SECTOR_BYTES, "written": written * SECTOR_BYTES}


class Meter:
    """Told of each stage's begin and end, it keeps what was counted in between."""

    def __init__(self) -> None:
        self._begin: dict[int, dict[str, float]] = {}
        self.stages: list[Figures] = []

    def __call__(self, stage: progress.Stage) -> None:
        now = counters()
        if stage.ended is None:
            self._begin[id(stage)] = now
            return
        before = self._begin.pop(id(stage))
        used = {name: round(value - before[name], 2) for name, value in now.items()}
        self.stages.append({"stage": stage.name, "seconds": round(stage.seconds, 1), **used})


def measure(where: paths.Paths) -> Figures:
    """A whole `./up` with this cache."""
    meter, before, begin = Meter(), counters(), time.monotonic()
    up.run(up.Options(source=report.SOURCE, where=where), meter)
    used = {name: round(value - before[name], 2) for name, value in counters().items()}
    return {"stages": meter.stages, "seconds": round(time.monotonic() - begin, 1), **used}


def cold(where: paths.Paths) -> Figures:
    """One with an empty cache, which is removed again; on the same file system, since images are links into it."""
    empty = where.cache.with_name(f"{where.cache.name}-cold")
    shutil.rmtree(empty, ignore_errors=True)
    try:
        return measure(dataclasses.replace(where, cache=empty))
    finally:
        down.run()
        shutil.rmtree(empty, ignore_errors=True)


def waited_for(one: Figures) -> str:
    """What a stage waited for most, told from what was counted."""
    seconds = max(one["seconds"], 0.1)
    found = []
    if one["cpu"] / seconds >= BUSY * len(os.sched_getaffinity(0)):
        found.append("processors")
    if one["received"] / seconds >= NETWORK_BYTES_A_SECOND:
        found.append("network")
    found += [name for kind, name in (("io", "disk"), ("memory", "memory"))
              if one.get(f"stalled: {kind}", 0) / seconds >= STALLED]  # fmt: skip
    return ", ".join(found) or "its programs' own pauses"


def middle(runs: list[Figures]) -> Figures:
    """The run with the median time."""
    return sorted(runs, key=lambda one: one["seconds"])[len(runs) // 2]


def table(result: dict[str, list[Figures]]) -> str:
    """Markdown: the stages of a cold and of a warm run."""
    parts = []
    for name, runs in result.items():
        if not runs:
            continue
        one = middle(runs)
        seconds = [run["seconds"] for run in runs]
        rows = [row({"stage": "**all**", **one}), *map(row, sorted(one["stages"], key=lambda stage: -stage["seconds"]))]
        runs_of = f"{len(runs)} runs of {min(seconds):.0f} to {max(seconds):.0f} s, the one"
        shown = "one run" if len(runs) == 1 else runs_of
        parts.append(
            f"{name.capitalize()}, {shown} of {statistics.median_high(seconds):.0f} s:\n\n{report.table(HEADER, rows)}"
        )
    return "\n".join(parts)


HEADER = (
    "stage", "seconds", "CPU s", "of the processors", "MB received", "MB read", "MB written", "stood still for CPU",
    "for disks", "waited for",
)  # fmt: skip


def row(one: Figures) -> list[object]:
    share = one["cpu"] / max(one["seconds"], 0.1) / len(os.sched_getaffinity(0))
    megabytes = (f"{one[name] / 1e6:.0f}" for name in ("received", "read", "written"))
    stalled = (report.number(one.get(f"stalled: {kind}")) for kind in ("cpu", "io"))
    return [
        one["stage"], f"{one['seconds']:.1f}", f"{one['cpu']:.1f}", f"{min(share, 1):.0%}", *megabytes, *stalled,
        waited_for(one),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="warm ones")
    parser.add_argument("--cold", action="store_true", help="also once with an empty cache")
    report.add_options(parser)
    arguments = parser.parse_args()
    where = paths.default()
    result: dict[str, list[Figures]] = {"cold": [], "warm": []}
    if arguments.cold:
        down.run()
        result["cold"].append(cold(where))
    for _ in range(arguments.rounds):
        down.run()
        result["warm"].append(measure(where))
    report.publish(arguments, "up-stages", result, table(result))


if __name__ == "__main__":
    main()
