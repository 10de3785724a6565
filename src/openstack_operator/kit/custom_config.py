"""Users' oslo.config text: is it parsable, by oslo.config's own rules?

Called by ``config`` for every ``customServiceConfig`` before anything is written. Values are not checked here.
"""

from __future__ import annotations

import io

from oslo_config import iniparser

from openstack_operator.runtime import errors


class _Parser(iniparser.BaseParser):
    """Accepts what a service would accept from a file that holds the text alone."""

    def __init__(self) -> None:
        super().__init__()
        self._in_section = False

    def new_section(self, section: str) -> None:
        self._in_section = True

    def assignment(self, key: str, value: list[str]) -> None:
        """Values are not looked at."""

    def _split_key_value(self, line: str) -> tuple[str, list[str]]:
        if not self._in_section:
            # Appended to the generated file it would silently land in whatever section stands last there.
            raise iniparser.ParseError("no [section] before this option", self.lineno, line)
        answer: tuple[str, list[str]] = super()._split_key_value(line)
        return answer


def check(text: str, field: str) -> None:
    """Raises ``errors.Stalled`` that names field, line and reason when oslo.config cannot parse ``text``."""
    # Lines end where Python's text files end them, which is how services read the file.
    lines = io.StringIO(text, newline=None).readlines()
    try:
        _Parser().parse(lines)
    except iniparser.ParseError as problem:
        line = str(problem.line).strip()[:80]
        raise errors.Stalled("InvalidConfig", f"{field}: line {problem.lineno}: {problem.msg}: {line!r}") from None
