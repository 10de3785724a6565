"""A terminal of a given size that a program of ours draws on, and what stands on it afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

_CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[=>]|[\r\n\x08\x07]|[^\x1b\r\n\x08\x07]")


class Screen:
    """The little of a VT100 that our programs use. Whatever leaves the width is kept in `overflows`."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.rows: list[list[str]] = [[] for _ in range(lines)]
        self.row = self.column = 0
        self.overflows: list[str] = []

    def feed(self, text: str) -> None:
        for found in _CONTROL.finditer(text):
            letter = found[0]
            if found[2]:
                self._control(found[1], found[2])
            elif letter == "\r":
                self.column = 0
            elif letter == "\n":
                self._down()
            elif letter >= " " and not letter.startswith("\x1b"):
                self._put(letter)

    def _put(self, letter: str) -> None:
        if self.column >= self.columns:
            self.overflows.append("".join(self.rows[self.row]))
            self.column = 0
            self._down()
        row = self.rows[self.row]
        row.extend(" " * (self.column + 1 - len(row)))
        row[self.column] = letter
        self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == self.lines:
            self.rows = [*self.rows[1:], []]
            self.row -= 1

    def _control(self, given: str, command: str) -> None:
        numbers = [int(one) for one in given.strip("?").split(";") if one]
        first = numbers[0] if numbers else 0
        if command == "H":
            self.row, self.column = (numbers[0] - 1, numbers[1] - 1) if len(numbers) > 1 else (0, 0)
        elif command == "A":
            self.row = max(0, self.row - (first or 1))
        elif command == "K":
            # A terminal whose cursor waits behind the last column clears that column.
            place = min(self.column, self.columns - 1)
            self.rows[self.row] = [] if first == 2 else self.rows[self.row][:place]
        elif command == "J":
            if first == 2:
                self.rows = [[] for _ in range(self.lines)]
            else:
                self.rows[self.row] = self.rows[self.row][: self.column]
                self.rows[self.row + 1 :] = [[] for _ in range(self.lines - self.row - 1)]

    @property
    def text(self) -> list[str]:
        """The lines down to the last that is not empty."""
        found = ["".join(row).rstrip() for row in self.rows]
        while found and not found[-1]:
            found.pop()
        return found


class Terminal:
    """A program at work on a terminal of its own."""

    def __init__(self, command: Sequence[str], columns: int = 80, lines: int = 24) -> None:
        self.screen = Screen(columns, lines)
        self._control, self._side = pty.openpty()
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "CI")}
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=self._side, stdout=self._side, stderr=self._side, start_new_session=True,
            env=environment | {"TERM": "xterm", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
        )  # fmt: skip
        os.close(self._side)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._control)

    def interrupt(self) -> None:
        """^C."""
        self.process.send_signal(signal.SIGINT)

    def read(self) -> bool:
        """Takes in what was drawn meanwhile; False at the program's end."""
        if not select.select([self._control], [], [], 0.2)[0]:
            return True
        try:
            self.screen.feed(os.read(self._control, 65536).decode(errors="replace"))
        except OSError:
            return False
        return True

    def until(self, is_met: Callable[[list[str]], bool], seconds: float = 60) -> list[str]:
        """The screen, when what stands on it is as wanted."""
        end = time.monotonic() + seconds
        while self.read() and not is_met(self.screen.text):
            assert time.monotonic() < end, "\n".join(self.screen.text)
        assert is_met(self.screen.text), "\n".join(self.screen.text)
        return self.screen.text
