"""The page that lists cases and regressions, and the tests that name them, say the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import openstack_operator

TESTS = Path(__file__).parents[1]
HERE = Path(__file__).parent
SOURCE = Path(openstack_operator.__file__).parent
PAGE = (TESTS / "field_cases.md").read_text()
NUMBER = re.compile(r"case (\d+)", re.IGNORECASE)
REGRESSION = re.compile(r"Regression ((?:[rfh]\d+(?:, )?)+)")
EXCUSED = re.compile(r"^\| ([rfh]?\d+(?:, [rfh]?\d+)*) \|(?:[^|]*\|){2}$", re.MULTILINE)
ROW = re.compile(r"^\| ([rfh]?\d+) \|(?:[^|]*\|){2}([^|]*)\|[^|]*\|$", re.MULTILINE)
LISTS = {"r": 96, "f": 89}
"""Regressions of each list that others can read; of `h` each has a row."""


def listed() -> dict[str, set[str]]:
    """Files of tests by case, as the page has them."""
    return {case: set(re.findall(r"`([^`]+\.py)`", files)) for case, files in ROW.findall(PAGE)}


def excused() -> list[str]:
    return [case for cases in EXCUSED.findall(PAGE) for case in cases.split(", ")]


def docstrings(path: Path) -> Iterator[str]:
    """Of the tests of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield " ".join((ast.get_docstring(node) or "").split())


def cases() -> Iterator[tuple[str, str]]:
    """Case and file of each that a test of this folder names in its docstring."""
    for path in sorted(HERE.glob("test_*.py")):
        for text in docstrings(path):
            for number in NUMBER.findall(text):
                yield number, f"field_cases/{path.name}"


def regressions() -> Iterator[tuple[str, str]]:
    """Regression and file of each that a test anywhere names in its docstring."""
    for root, pattern in ((TESTS, "**/test_*.py"), (SOURCE, "services/*/tests/test_*.py")):
        for path in sorted(root.glob(pattern)):
            for text in docstrings(path):
                for keys in REGRESSION.findall(text):
                    for key in keys.rstrip(", ").split(", "):
                        yield key, str(path.relative_to(root))


def by_case(found: Iterator[tuple[str, str]]) -> dict[str, set[str]]:
    files: dict[str, set[str]] = {}
    for case, file in found:
        files.setdefault(case, set()).add(file)
    return files


def test_the_page_lists_every_case_with_the_files_that_name_it() -> None:
    ours, page = by_case(cases()), {case: files for case, files in listed().items() if case.isdigit()}

    assert {case: {one for one in files if one.startswith("field_cases/")} for case, files in page.items()} == {
        case: ours.get(case, set()) for case in page
    }
    assert set(ours) <= set(page)


def test_the_page_lists_every_regression_with_exactly_the_files_that_name_it() -> None:
    assert {case: files for case, files in listed().items() if not case.isdigit()} == by_case(regressions())


@pytest.mark.parametrize("kind", LISTS)
def test_no_regression_of_a_list_is_passed_over(kind: str) -> None:
    """It has a row with its tests, or a reason why there is none; never both."""
    numbered = {f"{kind}{number}" for number in range(1, LISTS[kind] + 1)}
    rows, excuses = ({case for case in found if case.startswith(kind)} for found in (listed(), excused()))

    assert rows | excuses == numbered
    assert rows & excuses == set()


def test_no_case_has_a_test_and_an_excuse() -> None:
    found = excused()
    assert len(found) > 60
    assert len(found) == len(set(found))
    assert set(found) & (set(listed()) | set(by_case(cases())) | set(by_case(regressions()))) == set()


def test_every_case_is_listed_once() -> None:
    found = [case for case, _ in ROW.findall(PAGE)]
    assert [case for case in set(found) if found.count(case) > 1] == []


def test_every_file_on_the_page_exists() -> None:
    missing = [
        file
        for files in listed().values()
        for file in files
        if not ((TESTS / file).is_file() or (SOURCE / file).is_file())
    ]
    assert missing == []


def test_at_least_forty_cases_are_listed() -> None:
    assert len([case for case in listed() if case.isdigit()]) >= 40
