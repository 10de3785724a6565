"""Kubernetes quantities (``500m``, ``2Gi``) as numbers, where two must be compared."""

from __future__ import annotations

import re
from decimal import Decimal

_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    **{letter: Decimal(10) ** (3 * power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}
_FORM = re.compile(r"\+?([0-9.]+)(?:([eE][-+]?[0-9]+)|([numkMGTPE]i?|Ki))?")


def value(text: str) -> Decimal:
    """The number. Raises ``ValueError`` for what is no quantity."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no quantity")
    digits, exponent, suffix = found.groups()
    return Decimal(digits + (exponent or "")) * _SUFFIXES[suffix or ""]
