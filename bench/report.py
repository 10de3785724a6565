"""What the benchmarks have in common: where they were run, tables in Markdown, their sections of docs/benchmarks.md.

Each benchmark has a section between two marks that are named after it; everything else on the page is written by
people. `bring_up.py` has a picture too, which is in `bring_up_page`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1]
PAGE = "benchmarks.md"


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), platform.machine())
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1024**2
    revision = subprocess.run(
        ["git", "-C", str(SOURCE), "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True
    ).stdout.strip()
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "processors": f"{len(os.sched_getaffinity(0))} x {model}",
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "revision": revision,
    }


def provenance(found: dict[str, Any]) -> str:
    """One line that says when, where and of which revision."""
    where = f"{found['processors']}, {found['memory']}, Linux {found['kernel']}"
    return f"{found['date']}, {where}; revision {found['revision']}"


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = (f"| {' | '.join(map(str, one))} |" for one in (header, *rows))
    first, *others = lines
    return "\n".join([first, "|" + "---|" * len(header), *others]) + "\n"


def number(value: float | None, digits: int = 1) -> str:
    """A figure; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def put(docs: Path, name: str, text: str) -> None:
    """Replaces a section of the page. Raises ValueError where the page has no marks of that name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    page = docs / PAGE
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no section between {begin.strip()} and {end.strip()}")
    page.write_text(f"{before}{begin}{text.rstrip()}\n{end}{after}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where the figures go; for `publish`."""
    parser.add_argument("--output", type=Path, help="JSON file with everything measured")
    parser.add_argument("--docs", type=Path, help="directory whose benchmarks.md gets the figures")


def publish(arguments: argparse.Namespace, name: str, result: dict[str, Any], text: str) -> None:
    """Prints the figures, and writes them where the command line says."""
    found = machine()
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps({"machine": found, **result}, indent=1) + "\n")
    if arguments.docs:
        put(arguments.docs, name, f"{provenance(found)}.\n\n{text}")
    print(text)
