"""What a person sees while `up` and `down` work: a live table on a terminal, plain lines elsewhere.

Called by `up` and `down`. Stages may run at the same time, in threads; each has one row with its last line. At the end
the seconds of each stage are printed, which is also how their times are measured.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

# Without a terminal a stage's messages come at most this often: a build has thousands. The last one comes in the end:
# what is waited for may be said once, and hold for minutes.
QUIET_SECONDS = 5.0

LINES = 4
"""How many lines of the live table a stage's last line may take: what a cloud waits for is longer than one."""


@dataclass
class Stage:
    """One row. `log` is given to whatever does the work."""

    name: str
    progress: Progress
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    line: str = ""
    state: str = "at work"
    said: float = 0
    printed: str = ""
    later: threading.Timer | None = None
    """What prints a line that came too soon after another."""

    def log(self, line: str) -> None:
        """What happens now, in one line."""
        self.line = line.strip().splitlines()[-1] if line.strip() else ""
        self.progress.said(self)

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.started


class Progress:
    """The stages of one command; a context manager that draws them while it is open."""

    def __init__(self, stream: TextIO | None = None, observe: Callable[[Stage], None] | None = None) -> None:
        """``observe`` is called with a stage that begins, and again when it has ended: for measurements."""
        # NO_COLOR and TERM are read by the console itself.
        self.console = Console(file=stream or sys.stderr, highlight=False)
        self.stages: list[Stage] = []
        self.lock = threading.Lock()
        self.started = time.monotonic()
        self.live: Live | None = None
        self.observe = observe

    def __enter__(self) -> Self:
        if self.console.is_terminal and not os.environ.get("CI"):
            # A function, not a table: the seconds go on while nobody says anything.
            self.live = Live(console=self.console, get_renderable=self.table, refresh_per_second=4, transient=True)
            self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.live is not None:
            self.live.stop()
        if self.stages:
            self.console.print(self.table(final=True))
            self.console.print(f"{'stopped' if error else 'done'} after {duration(time.monotonic() - self.started)}")

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """A row for what is done inside; ends as done or failed."""
        stage = Stage(name, self)
        with self.lock:
            self.stages.append(stage)
        self.told(stage)
        self.plain(stage, "begins")
        try:
            yield stage
        except BaseException:
            # An interrupt is no failure, but it ends the stage all the same.
            stage.ended, stage.state = time.monotonic(), "failed"
            self.told(stage)
            self.plain(stage, f"failed after {duration(stage.seconds)}")
            raise
        stage.ended, stage.state = time.monotonic(), "done"
        self.told(stage)
        self.plain(stage, f"done in {duration(stage.seconds)}")

    def told(self, stage: Stage) -> None:
        if self.observe is not None:
            self.observe(stage)

    def said(self, stage: Stage) -> None:
        if self.live is not None:
            return
        with self.lock:
            left = stage.said + QUIET_SECONDS - time.monotonic()
            if left > 0 and stage.later is None:
                stage.later = threading.Timer(left, self.catch_up, (stage,))
                # Nobody waits for it at the end of the program.
                stage.later.daemon = True
                stage.later.start()
            if left > 0:
                return
            stage.said, stage.printed = time.monotonic(), stage.line
        self.plain(stage, stage.printed)

    def catch_up(self, stage: Stage) -> None:
        """The last of the lines that came too soon, if the stage is still at it."""
        with self.lock:
            stage.later = None
        if stage.ended is None and stage.line != stage.printed:
            self.said(stage)

    def plain(self, stage: Stage, text: str) -> None:
        if self.live is None:
            passed = duration(time.monotonic() - self.started)
            with self.lock:
                self.console.print(f"{passed:>7}  {stage.name}: {text}", markup=False, soft_wrap=True)

    def table(self, *, final: bool = False) -> RenderableType:
        """The stages as they are now."""
        stages = list(self.stages)
        rows = Table(box=None, show_header=False, pad_edge=False, expand=not final)
        rows.add_column(no_wrap=True)
        rows.add_column(justify="right", no_wrap=True)
        rows.add_column(overflow="fold", ratio=1)
        names = max((len(stage.name) for stage in stages), default=0) + len("… 99 min 59 s") + 4
        room = max(1, self.console.width - names) * LINES
        for stage in stages:
            mark, style = {"done": ("✓", "green"), "failed": ("✗", "red")}.get(stage.state, ("…", "yellow"))
            line = stage.line if stage.state == "failed" or not final else ""
            if not final and stage.state == "done":
                line = ""
            elif not final and len(line) > room:
                # What waits stands at its beginning, what for at its end.
                line = f"{line[: room // 3]} … {line[-(room - room // 3 - 3) :]}"
            rows.add_row(Text(f"{mark} {stage.name}", style=style), duration(stage.seconds), Text(line, style="dim"))
        return rows


def duration(seconds: float) -> str:
    """Seconds as a person says them: 4.2 s, 61 s, 12 min 3 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
