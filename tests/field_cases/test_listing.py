"""The page that lists the cases and the tests that name them say the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
HERE = Path(__file__).parent
NUMBER = re.compile(r"case (\d+)", re.IGNORECASE)
EXCUSED = re.compile(r"^\| (\d+(?:, \d+)*) \|(?:[^|]*\|){2}$", re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \|(?:[^|]*\|){2}([^|]*)\|[^|]*\|$", re.MULTILINE)


def listed() -> dict[int, set[str]]:
    """Files of tests by number of the case, as the page has them."""
    text = (TESTS / "field_cases.md").read_text()
    return {int(number): set(re.findall(r"`([^`]+\.py)`", files)) for number, files in ROW.findall(text)}


def named() -> Iterator[tuple[int, str]]:
    """Number and file of each case that a test of this folder names in its docstring."""
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in NUMBER.findall(ast.get_docstring(node) or ""):
                    yield int(number), f"field_cases/{path.name}"


def test_the_page_lists_every_case_with_the_files_that_name_it() -> None:
    ours: dict[int, set[str]] = {}
    for number, file in named():
        ours.setdefault(number, set()).add(file)
    page = listed()

    assert {number: {one for one in files if one.startswith("field_cases/")} for number, files in page.items()} == {
        number: ours.get(number, set()) for number in page
    }
    assert set(ours) <= set(page)


def test_no_case_has_a_test_and_an_excuse() -> None:
    text = (TESTS / "field_cases.md").read_text()
    excused = {int(number) for numbers in EXCUSED.findall(text) for number in numbers.split(", ")}
    assert len(excused) > 20
    assert excused & (set(listed()) | {number for number, _ in named()}) == set()


def test_every_file_on_the_page_exists() -> None:
    assert [file for files in listed().values() for file in files if not (TESTS / file).is_file()] == []


def test_at_least_forty_cases_are_listed() -> None:
    assert len(listed()) >= 40
