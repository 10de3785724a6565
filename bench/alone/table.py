"""Medians of what was measured, limits that hold or do not, and both as Markdown between marks in docs/benchmarks.md.

`operator_alone` calls it with a result, and again with the result's file to write the documentation anew.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Result = dict[str, Any]

BEGIN, END = "<!-- operator-alone: begin -->", "<!-- operator-alone: end -->"
PAGE = "benchmarks.md"

OURS, KOPF, GO = "openstack-operator", "kopf", "controller-runtime"

MOST_REQUESTS = 5.0
MOST_OF_KOPF = 1 / 3
MOST_OF_GO = 1.2
MOST_GROWTH = 1.1
MOST_MEMORY_CLOUD = 80
MOST_MEMORY_CHILDREN = 200


def median(result: Result, side: str, part: str, what: str) -> float:
    """Over the rounds of one operator."""
    values: list[float] = [one[side][part][what] for one in result["toys"]]
    return statistics.median(values)


def ratio(result: Result, part: str, of: str) -> float:
    """CPU time of ours over another's, the median of the rounds' own ratios: what disturbs a round disturbs both."""
    values: list[float] = [one[OURS][part]["cpu"] / one[of][part]["cpu"] for one in result["toys"]]
    return statistics.median(values)


def growth(steps: Sequence[Result], what: str) -> float:
    """What a cloud costs as one of the last that were added, over what it costs among the first."""
    first, last = float(steps[0][what]), float(steps[-1][what])
    return last / first


def verdicts(result: Result) -> list[tuple[str, str, str, bool]]:
    """What is demanded: its name, what was found, the limit, and whether it holds."""
    found: list[tuple[str, str, str, bool]] = []

    def add(name: str, value: float, form: str, limit: float, text: str) -> None:
        found.append((name, form.format(value), text, round(value, 2) <= limit))

    if result["toys"]:
        count = result["sizes"]["objects"]
        requests = median(result, OURS, "create", "requests per object")
        add("requests for an object with three children", requests, "{:.2f}", MOST_REQUESTS, "5")
        idle = max(one[OURS]["idle"]["work"] for one in result["toys"])
        seconds = result["sizes"]["idle_seconds"]
        add(f"requests in {seconds:.0f} idle seconds, with {count} objects", idle, "{:.0f}", 0, "0")
        restart = [one[OURS]["restart"] for one in result["toys"]]
        most = max(number for one in restart for number in one["lists"].values())
        add(f"LISTs of a kind at a restart with {count} objects", most, "{:.0f}", 1, "1")
        rest = max(one["work"] - len(one["lists"]) for one in restart)
        add("other requests at that restart", rest, "{:.0f}", 0, "0")
        others = {side for one in result["toys"] for side in one}
        if KOPF in others:
            add("CPU time over kopf's", ratio(result, "create", KOPF), "{:.2f}", round(MOST_OF_KOPF, 2), "0.33")
        if GO in others:
            add("CPU time over controller-runtime's", ratio(result, "create", GO), "{:.2f}", MOST_OF_GO, "1.2")
    if memory := result.get("memory"):
        name = f"MB with {result['sizes']['children']} children of {memory['bytes each'] / 1000:.1f} kB"
        add(name, memory[OURS]["memory"], "{:.0f}", MOST_MEMORY_CHILDREN, "200")
    if growing := result.get("growth"):
        add("MB with one cloud", growing["one"]["memory"], "{:.0f}", MOST_MEMORY_CLOUD, "80")
        idle = growing["idle"]
        add(f"requests in {idle['seconds']:.0f} idle seconds, with one cloud", idle["work"], "{:.0f}", 0, "0")
        if len(steps := growing["steps"]) > 1:
            where = f"of clouds up to {steps[-1]['clouds']} over those up to {steps[0]['clouds']}"
            add(f"CPU time {where}", growth(steps, "cpu per cloud"), "{:.2f}", MOST_GROWTH, "1.1")
            add(f"time {where}", growth(steps, "seconds per cloud"), "{:.2f}", MOST_GROWTH, "1.1")
    return found


def table(result: Result) -> str:
    """Markdown: what is demanded, the three operators side by side, and the growing number of clouds."""
    lines = ["| demanded | found | at most | holds |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {value} | {text} | {'yes' if holds else '**no**'} |"
        for name, value, text, holds in verdicts(result)
    ]
    if result["toys"]:
        lines += ["", *_side_by_side(result)]
    if growing := result.get("growth"):
        lines += ["", *_growing(growing)]
    if cells := result.get("cells"):
        each = [cells[what] / cells["cells"] for what in ("cpu per cloud", "requests per cloud")]
        share = f"{each[0]:.2f} CPU s and {each[1]:.0f}"
        lines += [
            "",
            f"{cells['added']} clouds of {cells['cells']} cells each: {cells['seconds per cloud']:.1f} s and "
            f"{cells['cpu per cloud']:.1f} CPU s for a cloud, {share} requests for each of its cells; "
            f"{cells['memory']:.0f} MB with all of them.",
        ]
    return "\n".join(lines) + "\n"


def _side_by_side(result: Result) -> list[str]:
    sides = [side for side in (OURS, KOPF, GO) if side in result["toys"][0]]
    count = result["sizes"]["objects"]
    lines = [f"| medians, {count} objects | {' | '.join(sides)} |", f"|---|{'---|' * len(sides)}"]

    def row(name: str, part: str, what: str, form: str) -> None:
        values = [form.format(median(result, side, part, what)) for side in sides]
        lines.append(f"| {name} | {' | '.join(values)} |")

    row("until all are Ready, s", "create", "seconds", "{:.1f}")
    row("CPU s for that", "create", "cpu", "{:.2f}")
    row("requests for an object", "create", "requests per object", "{:.2f}")
    row("Events for an object", "create", "events per object", "{:.2f}")
    row("peak RSS, MB", "create", "peak", "{:.0f}")
    row("requests in the idle time", "idle", "work", "{:.0f}")
    row("CPU s in it", "idle", "cpu", "{:.2f}")
    row("requests to repair an edited child", "drift", "requests per object", "{:.2f}")
    row(f"CPU s for {count} of them", "drift", "cpu", "{:.2f}")
    row("requests at a restart", "restart", "work", "{:.0f}")
    row("CPU s of it, start of the program included", "restart", "cpu", "{:.2f}")
    row("RSS after it, MB", "restart", "memory", "{:.0f}")
    if memory := result.get("memory"):
        shown = [f"{memory[side]['memory']:.0f} ({memory[side]['peak']:.0f})" for side in sides]
        lines.append(f"| RSS (peak) with {result['sizes']['children']} children, MB | {' | '.join(shown)} |")
    return lines


def _growing(growing: Result) -> list[str]:
    lines = [
        "| clouds | s for each that was added | CPU s | requests | Events | RSS with all, MB |",
        "|---|---|---|---|---|---|",
    ]
    for one in (growing["one"], *growing["steps"]):
        lines.append(
            f"| {one['clouds']} | {one['seconds per cloud']:.1f} | {one['cpu per cloud']:.2f} | "
            f"{one['requests per cloud']:.0f} | {one['events per cloud']:.0f} | {one['memory']:.0f} |"
        )
    return lines


def section(result: Result) -> str:
    """What goes between the marks in docs/benchmarks.md."""
    machine, rounds = result["machine"], len(result["toys"])
    return f"""\
{BEGIN}
{machine["date"]}, {machine["processors"]}, {machine["memory"]}, Linux {machine["kernel"]}; revision
{machine["revision"]}. Medians of {rounds} rounds.

{table(result)}{END}
"""


def write(result: Result, docs: Path) -> None:
    """Puts the section into the documentation, at its marks."""
    page = docs / PAGE
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + section(result) + after.lstrip("\n"))
