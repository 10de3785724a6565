"""`make unit` runs what needs no cloud, and `make e2e` the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
NONE_LEFT = 5


@pytest.mark.parametrize(
    ("folders", "wanted"), [(("e2e", "faults"), "not e2e"), (("kit", "embedded"), "e2e")], ids=["unit", "e2e"]
)
def test_nothing_of_the_others_is_left(folders: tuple[str, ...], wanted: str) -> None:
    paths = [str(TESTS / folder) for folder in folders]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", wanted, *paths],
        check=False, capture_output=True, text=True, cwd=TESTS.parent,
    )  # fmt: skip
    assert (done.returncode, "deselected" in done.stdout) == (NONE_LEFT, True), done.stdout[-2000:]
