"""The page that lists cases and regressions, and the tests that name them, say the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import openstack_operator

TESTS = Path(__file__).parents[1]
SOURCE = Path(openstack_operator.__file__).parent
PAGE = (TESTS / "field_cases.md").read_text()
NUMBER = re.compile(r"[Cc]ase (E?\d+)")
REGRESSION = re.compile(r"Regression ((?:[rfh]\d+(?:, )?)+)")
EXCUSED = re.compile(r"^\| ([rfhE]?\d+(?:, [rfhE]?\d+)*) \|(?:[^|]*\|){2}$", re.MULTILINE)
ROW = re.compile(r"^\| ([rfhE]?\d+) \|(?:[^|]*\|){2}([^|]*)\|[^|]*\|$", re.MULTILINE)
LISTS = {"r": 96, "f": 89, "E": 13}
"""How many each list has that others can read; of `h` each has a row."""
UNUSED = {*(5, 8, 12, 15, 17, 23, 25, 29, 30, 35, 41, 44, 46, 50, 54, 58, 62, 65, 69, 74, 78, 83, 86, 91, 94, 96, 98),
          *(104, 107, 108, 111, 116, 119, 125, 127)}  # fmt: skip
"""Numbers up to 130 that the collection gave to no case."""


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


def named() -> Iterator[tuple[str, str]]:
    """Docstring and file of each test, in whatever folder."""
    for root in (TESTS, SOURCE):
        for path in sorted(root.glob("**/test_*.py")):
            for text in docstrings(path):
                yield text, str(path.relative_to(root))


def cases() -> Iterator[tuple[str, str]]:
    """Case and file of each that a test names."""
    for text, file in named():
        for number in NUMBER.findall(text):
            yield number, file


def regressions() -> Iterator[tuple[str, str]]:
    """Regression and file of each that a test names."""
    for text, file in named():
        for keys in REGRESSION.findall(text):
            for key in keys.rstrip(", ").split(", "):
                yield key, file


def by_case(found: Iterator[tuple[str, str]]) -> dict[str, set[str]]:
    files: dict[str, set[str]] = {}
    for case, file in found:
        files.setdefault(case, set()).add(file)
    return files


def test_the_page_lists_every_case_with_exactly_the_files_that_name_it() -> None:
    page = {case: files for case, files in listed().items() if case[0] not in "rfh"}

    assert page == by_case(cases())
    assert [case for case, files in page.items() if not files] == []


def test_the_page_lists_every_regression_with_exactly_the_files_that_name_it() -> None:
    assert {case: files for case, files in listed().items() if case[0] in "rfh"} == by_case(regressions())


def test_no_numbered_case_is_passed_over() -> None:
    """It has a row with its tests, or a reason why there is none; never both. 0 is the table of what parsers do."""
    rows, excuses = ({case for case in found if case.isdigit()} for found in (listed(), excused()))

    assert rows | excuses == {str(number) for number in range(131) if number not in UNUSED}
    assert rows & excuses == set()


@pytest.mark.parametrize("kind", LISTS)
def test_nothing_of_a_list_is_passed_over(kind: str) -> None:
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
