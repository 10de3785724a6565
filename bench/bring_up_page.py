"""Table and timeline of `bring_up.py`'s figures: its section of docs/benchmarks.md, and docs/bring-up.svg.

`python bench/bring_up_page.py RESULT.json docs` writes both again from a result.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import report

Result = dict[str, Any]

PICTURE = "bring-up.svg"
LIMIT = 1.3
"""Of the operator's time over the bare one, of Ready and of an answer alike."""
MEMORY_LIMIT = 80

# The picture: pixels.
LEFT, ROW, SECOND, TOP = 250, 16, 7, 40
COLOURS = {"waits": "#d0d7de", "starts": "#f2a33a", "ready": "#3a8f5c", "job": "#4a78b5", "vm": "#8a5bb5"}


def ratio(result: Result, what: str) -> float:
    """Median of the operator's times over the bare ones'; ``what`` is ready or answers."""
    value: float = median(result, "operator", what) / median(result, "bare", what)
    return round(value, 2)


def median(result: Result, side: str, what: str) -> float:
    values: list[float] = [one[side][what] for one in result["rounds"]]
    return statistics.median(values)


def table(result: Result) -> str:
    """Markdown: figures of each round, their medians, and who used the processors."""
    sides = [(side, what) for side in ("operator", "bare") for what in ("ready", "answers")]
    rows = []
    for number, one in enumerate(result["rounds"], 1):
        ratios = (f"{one['operator'][what] / one['bare'][what]:.2f}" for what in ("ready", "answers"))
        rows.append([number, *(f"{one[side][what]} s" for side, what in sides), *ratios])
    middle = [f"{median(result, side, what):.1f} s" for side, what in sides]
    rows.append(["median", *middle, *(f"**{ratio(result, what)}**" for what in ("ready", "answers"))])
    header = ("round", "operator: Ready", "operator: VM answers", "bare: services", "bare: VM answers")
    parts = [report.table((*header, "ratio: Ready", "ratio: VM answers"), rows)]
    users = [
        [part, *(report.number(cpu(result, side, part)) for side in ("operator", "bare"))] for part in cpu_parts(result)
    ]
    parts.append(report.table(("CPU seconds, medians", "operator", "bare"), users))
    # Results of earlier revisions have no such figure.
    if all("memory" in one["operator"] for one in result["rounds"]):
        memory = median(result, "operator", "memory")
        parts.append(f"The operator's process holds {memory:.0f} MB when the VM answers (at most {MEMORY_LIMIT} MB).\n")
    return "\n".join(parts)


def cpu_parts(result: Result) -> list[str]:
    return list(dict.fromkeys(part for side in ("operator", "bare") for part in result["rounds"][0][side]["cpu"]))


def cpu(result: Result, side: str, part: str) -> float | None:
    values = [one[side]["cpu"][part] for one in result["rounds"] if part in one[side]["cpu"]]
    return statistics.median(values) if values else None


def write(result: Result, docs: Path) -> None:
    """Puts section and picture into the documentation."""
    report.put(
        docs,
        "bring-up",
        f"{report.provenance(result['machine'])}, OpenStack {result['machine']['release']}. Both ratios must be at "
        f"most {LIMIT}.\n\n{table(result)}\n![What ran when, in the round with the median time]({PICTURE})\n",
    )
    middle = sorted(result["rounds"], key=lambda one: one["operator"]["answers"])[len(result["rounds"]) // 2]
    (docs / PICTURE).write_text(picture(middle["operator"]))


# --- picture ----------------------------------------------------------------------------------------------------------


def bars(figures: Result) -> Iterable[tuple[str, list[tuple[str, float, float]]]]:
    """Rows of the picture: name and (colour, begin, end) of its parts."""
    for name, times in sorted(figures["objects"].items(), key=lambda item: item[1]["seen"]):
        kind, _, own = name.partition(" ")
        end = times.get("Ready", times.get("Succeeded", figures["answers"]))
        if kind == "Pod" and "Succeeded" in times:
            start = times.get("PodReadyToStartContainers", times["seen"])
            yield own, [("starts", times["seen"], start), ("job", start, times["Succeeded"])]
        elif kind == "Pod":
            start = times.get("Running", end)
            yield own, [("starts", times["seen"], start), ("ready", start, end)]
        elif kind != "Job":
            yield name, [("waits", times["seen"], end)]
    said = [at for at, text in figures["messages"] if at > figures["ready"] and text.startswith("server")]
    marks = [figures["ready"], *said, figures["answers"]]
    names = ("image, networks", "server is built", "guest boots")
    for name, (begin, end) in zip(names, itertools.pairwise(marks), strict=True):
        yield f"VM: {name}", [("vm", begin, end)]


def picture(figures: Result) -> str:
    """SVG with a row for each object and pod, a column for each second."""
    rows = list(bars(figures))
    width, height = LEFT + int(figures["answers"] * SECOND) + 20, TOP + len(rows) * ROW + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    legend = {
        "waits": "object until Ready", "starts": "pod until its program runs", "ready": "program until ready",
        "job": "Job", "vm": "first VM",
    }  # fmt: skip
    for number, (key, text) in enumerate(legend.items()):
        x = 10 + number * 175
        parts += [f'<rect x="{x}" y="6" width="12" height="10" fill="{COLOURS[key]}"/>', label(x + 16, 15, text)]
    for second in range(0, int(figures["answers"]) + 1, 10):
        x = LEFT + second * SECOND
        parts.append(f'<line x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{height - 20}" stroke="#e5e5e5"/>')
        parts.append(label(x - 4, height - 8, f"{second} s"))
    for number, (name, spans) in enumerate(rows):
        y = TOP + number * ROW
        parts.append(label(LEFT - 6, y + 10, name, anchor="end"))
        for key, begin, end in spans:
            wide = max((end - begin) * SECOND, 1)
            left = LEFT + begin * SECOND
            parts.append(f'<rect x="{left:.0f}" y="{y}" width="{wide:.0f}" height="{ROW - 5}" fill="{COLOURS[key]}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#24292f">{escape(text)}</text>'


if __name__ == "__main__":
    write(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
