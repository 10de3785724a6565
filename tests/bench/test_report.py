"""What the benchmarks share: sections of the page, and tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import day2
import report
import up_stages

PAGE = """\
# Figures
<!-- one: begin -->
old
<!-- one: end -->
Words of a person.
<!-- two: begin -->
<!-- two: end -->
"""


def test_a_section_is_replaced_and_everything_else_stays(tmp_path: Path) -> None:
    (tmp_path / report.PAGE).write_text(PAGE)
    report.put(tmp_path, "two", "new\n\n")
    report.put(tmp_path, "one", "newer")
    assert (tmp_path / report.PAGE).read_text() == PAGE.replace("old", "newer").replace(
        "<!-- two: begin -->\n", "<!-- two: begin -->\nnew\n"
    )


def test_a_page_without_the_marks_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / report.PAGE).write_text(PAGE)
    with pytest.raises(ValueError, match="no section between <!-- three: begin --> and <!-- three: end -->"):
        report.put(tmp_path, "three", "x")
    assert (tmp_path / report.PAGE).read_text() == PAGE


def test_the_page_has_a_section_for_every_benchmark_that_make_runs() -> None:
    root = Path(report.SOURCE)
    (line,) = [line for line in (root / "Makefile").read_text().splitlines() if line.startswith("BENCHES = ")]
    names = line.split()[2:]
    assert len(names) > 1
    page = (root / "docs" / report.PAGE).read_text()
    assert [name for name in names if f"<!-- {name.replace('_', '-')}: begin -->" not in page] == []
    assert [name for name in names if not (root / "bench" / f"{name}.py").is_file()] == []


def test_a_table_has_a_line_for_the_header_one_below_it_and_one_for_each_row() -> None:
    assert report.table(("a", "b"), [[1, "x"], [2, "y"]]) == "| a | b |\n|---|---|\n| 1 | x |\n| 2 | y |\n"


def test_failed_requests_are_told_by_service_and_reason_over_all_rounds() -> None:
    one = {
        "requests": {
            "nova": {"answers": 9, "failed": {"503": 2}, "longest": 0.1},
            "glance": {"answers": 9, "failed": {}, "longest": 0.1},
        }
    }
    assert day2.failed([one, one]) == "4 x nova 503"
    assert day2.failed([]) == "0"


def test_a_stage_is_told_to_wait_for_what_it_had_least_of() -> None:
    quiet = {"seconds": 10.0, "cpu": 1.0, "received": 0.0, "stalled: io": 0.1, "stalled: memory": 0.0}
    assert up_stages.waited_for(quiet) == "its programs' own pauses"
    assert up_stages.waited_for(quiet | {"cpu": 1e6}) == "processors"
    assert up_stages.waited_for(quiet | {"received": 1e9, "stalled: io": 9.0}) == "network, disk"
