"""oslo.config's file format, read exactly as oslo.config reads it, without importing it.

`parse` gives the assignments of a text with their lines; `Template` finds `$references`. The format is defined by
oslo_config.iniparser and cfg; a differential test (`tests/kit/test_oslo_differential.py`) holds the two together.
Called by `custom_config`; whether options and values make sense is decided there.
"""

from __future__ import annotations

import dataclasses
import io
import string


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """One option in a text; ``value`` has a line break before each line that continues it."""

    section: str
    key: str
    value: str
    line: int
    continuations: tuple[tuple[int, str], ...] = ()
    """Number and text of each line that continues the value."""
    text: str = ""
    """The line itself."""


class UnreadableError(ValueError):
    """oslo.config cannot read a text. ``line`` is the number of the line, ``text`` what stands there."""

    def __init__(self, reason: str, line: int, text: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.text = text


@dataclasses.dataclass(frozen=True, slots=True)
class Parsed:
    """What a text says, in its order."""

    assignments: tuple[Assignment, ...]
    sections: tuple[tuple[str, int], ...]
    """Name and line of every section header."""


def parse(text: str) -> Parsed:
    """Reads a text. Raises ``UnreadableError`` for the first line that oslo.config would not read.

    An option before any section is refused too: appended to a file it would land in the section before, and
    in a file of its own oslo.config refuses it as well.
    """
    assignments: list[Assignment] = []
    sections: list[tuple[str, int]] = []
    section: str | None = None
    key, line_of_key, value, written = "", 0, [""], ""
    more: list[tuple[int, str]] = []

    def flush() -> None:
        assert section is not None  # options before a section were refused
        assignments.append(Assignment(section, key, "\n".join(value), line_of_key, tuple(more), written))

    # Lines end where Python's text files end them, which is how services read a file: not at U+2028 and its like.
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        line = line.rstrip()
        if not line:
            if key:
                flush()
                key = ""
            continue
        first = line[0]
        if first in " \t":
            if not key:
                raise UnreadableError("Unexpected continuation line", number, line)
            part = line.lstrip()
            value.append(part)
            more.append((number, part))
            continue
        if key:
            flush()
            key = ""
        if first == "[":
            if line[-1] != "]":
                raise UnreadableError("Invalid section (must end with ])", number, line)
            if len(line) <= 2:
                raise UnreadableError("Empty section name", number, line)
            section = line[1:-1]
            sections.append((section, number))
        elif first not in "#;":
            key, value = _assignment(line, number, section is not None)
            line_of_key, written, more = number, line, []
    if key:
        flush()
    return Parsed(tuple(assignments), tuple(sections))


def _assignment(line: str, number: int, in_section: bool) -> tuple[str, list[str]]:
    if not in_section:
        raise UnreadableError("no [section] before this option", number, line)
    ends = [position for position in (line.find(":"), line.find("=")) if position >= 0]
    if not ends:
        raise UnreadableError("No ':' or '=' found in assignment", number, line)
    end = min(ends)
    key, value = line[:end].strip(), line[end + 1 :].strip()
    if not key:
        raise UnreadableError("Key cannot be empty", number, line)
    if value and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return key, [value]


class Template(string.Template):
    """``$name``, ``${name}`` and ``$section.name`` in values, as oslo.config finds them."""

    idpattern = r"[_a-z][\._a-z0-9]*"


def references(value: str) -> bool:
    """Whether a value has a reference to another option."""
    if "$" not in value:
        return False
    return any(match["named"] or match["braced"] for match in Template.pattern.finditer(value.replace("\\$", "$$")))
