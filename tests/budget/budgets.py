"""The numbers of budget.toml, and what holds a test's finding to them. Used by the tests of this folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

FILE = Path(__file__).parent / "budget.toml"
NUMBERS: dict[str, dict[str, int]] = tomllib.loads(FILE.read_text())


def hold(name: str, found: float) -> None:
    """Fails where the budget (`object.requests`) is exceeded, and where it is so wide that it is none."""
    group, _, key = name.partition(".")
    limit = NUMBERS[group][key]
    assert found <= limit, f"{name}: {found:g}, and {limit} is the budget; {FILE.name} says how to change it"
    assert found * 2 >= limit, f"{name}: {found:g} is less than half of the budget of {limit}: lower it"
