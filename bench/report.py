"""Table and timeline of `bring_up.py`'s figures: docs/benchmarks.md and docs/bring-up.svg.

`python bench/report.py RESULT.json docs` writes both again from a result.
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

Result = dict[str, Any]

BEGIN, END = "<!-- bring-up: begin -->", "<!-- bring-up: end -->"
PAGE, PICTURE = "benchmarks.md", "bring-up.svg"
LIMIT, AIM = 1.5, 1.3
MEMORY_LIMIT = 80

# The picture: pixels.
LEFT, ROW, SECOND, TOP = 250, 16, 7, 40
COLOURS = {"waits": "#d0d7de", "starts": "#f2a33a", "ready": "#3a8f5c", "job": "#4a78b5", "vm": "#8a5bb5"}


def ratio(result: Result) -> float:
    """Median of the operator's times to an answer over the bare ones'."""
    value: float = median(result, "operator", "answers") / median(result, "bare", "answers")
    return round(value, 2)


def median(result: Result, side: str, what: str) -> float:
    values: list[float] = [one[side][what] for one in result["rounds"]]
    return statistics.median(values)


def table(result: Result) -> str:
    """Markdown: figures of each round, their medians, and who used the processors."""
    lines = [
        "| round | operator: Ready | operator: VM answers | bare: services | bare: VM answers | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for number, one in enumerate(result["rounds"], 1):
        a, b = one["operator"], one["bare"]
        times = f"{a['ready']} s | {a['answers']} s | {b['ready']} s | {b['answers']} s"
        lines.append(f"| {number} | {times} | {a['answers'] / b['answers']:.2f} |")
    middle = [f"{median(result, side, what):.1f} s" for side in ("operator", "bare") for what in ("ready", "answers")]
    lines += [f"| median | {' | '.join(middle)} | **{ratio(result)}** |", ""]
    lines += ["| CPU seconds, medians | operator | bare |", "|---|---|---|"]
    for part in cpu_parts(result):
        values = (cpu(result, side, part) for side in ("operator", "bare"))
        lines.append(f"| {part} | {' | '.join('-' if value is None else f'{value:.1f}' for value in values)} |")
    # Results of earlier revisions have no such figure.
    if all("memory" in one["operator"] for one in result["rounds"]):
        memory = median(result, "operator", "memory")
        lines += ["", f"The operator's process holds {memory:.0f} MB when the VM answers (at most {MEMORY_LIMIT} MB)."]
    return "\n".join(lines) + "\n"


def cpu_parts(result: Result) -> list[str]:
    return list(dict.fromkeys(part for side in ("operator", "bare") for part in result["rounds"][0][side]["cpu"]))


def cpu(result: Result, side: str, part: str) -> float | None:
    values = [one[side]["cpu"][part] for one in result["rounds"] if part in one[side]["cpu"]]
    return statistics.median(values) if values else None


def section(result: Result) -> str:
    """What goes between the marks in docs/benchmarks.md."""
    machine = result["machine"]
    return f"""\
{BEGIN}
{machine["date"]}, {machine["processors"]}, {machine["memory"]}, Linux {machine["kernel"]}; revision
{machine["revision"]}, OpenStack {machine["release"]}. Must be at most {LIMIT}, aims at {AIM}.

{table(result)}
![What ran when, in the round with the median time]({PICTURE})
{END}
"""


def write(result: Result, docs: Path) -> None:
    """Puts section and picture into the documentation."""
    page = docs / PAGE
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + section(result) + after.lstrip("\n"))
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
