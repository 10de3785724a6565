"""Kubernetes quantities (``500m``, ``2Gi``) as numbers, where two must be compared, and in one way of writing."""

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


def canonical(text: str) -> str:
    """The quantity as the API server writes it: without a fraction, with the largest suffix that allows for that. One
    with an exponent stays as it is. Raises ``ValueError`` for what is no quantity."""
    number = value(text)
    found = _FORM.fullmatch(text)
    assert found is not None, "value would have refused it"
    _, exponent, suffix = found.groups()
    if exponent:
        return text
    is_binary = (suffix or "").endswith("i") and number >= 1024 and number == number.to_integral_value()
    # From the largest one on. A binary number that no suffix fits is written with none.
    fitting = [name for name in _SUFFIXES if name == "" or name.endswith("i") is is_binary]
    for name in sorted(fitting, key=lambda name: _SUFFIXES[name], reverse=True):
        count = number / _SUFFIXES[name]
        if count == count.to_integral_value():
            return f"{count:f}".partition(".")[0] + (name if number else "")
    return text
