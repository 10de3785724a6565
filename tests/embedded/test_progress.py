"""Progress without a terminal: plain lines, one table of seconds at the end."""

from __future__ import annotations

import io
import threading

import pytest

from openstack_operator.embedded import progress


def test_stages_are_told_in_plain_lines_and_summed_up_at_the_end() -> None:
    out = io.StringIO()
    with progress.Progress(out) as shown, shown.stage("images") as stage:
        stage.log("unpacking")
    text = out.getvalue()
    assert "images: begins" in text
    assert "images: unpacking" in text
    assert "✓ images" in text
    assert "\x1b[" not in text


def test_a_failed_stage_shows_its_last_line() -> None:
    out = io.StringIO()

    def fail() -> None:
        with progress.Progress(out) as shown, shown.stage("cluster") as stage:
            stage.log("waiting for etcd")
            raise RuntimeError("no disk")

    with pytest.raises(RuntimeError):
        fail()
    assert "✗ cluster" in out.getvalue()
    assert out.getvalue().rstrip().splitlines()[-1].startswith("stopped after")


@pytest.mark.parametrize(("seconds", "text"), [(0.04, "0.0 s"), (9.96, "10.0 s"), (61, "61 s"), (723, "12 min 3 s")])
def test_durations_are_written_as_people_say_them(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


def test_an_observer_is_told_of_the_begin_and_the_end_of_each_stage() -> None:
    told: list[tuple[str, bool]] = []
    with progress.Progress(io.StringIO(), lambda stage: told.append((stage.name, stage.ended is not None))) as shown:
        with shown.stage("images"), shown.stage("cluster"):
            pass
        with pytest.raises(RuntimeError), shown.stage("operator"):
            raise RuntimeError
    first = [("images", False), ("cluster", False), ("cluster", True), ("images", True)]
    assert told == [*first, ("operator", False), ("operator", True)]


def test_the_last_of_many_lines_comes_too_and_nothing_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for may be said once, right after another line, and hold for minutes."""
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.3)
    out = io.StringIO()
    shown = threading.Event()
    with progress.Progress(out) as found, found.stage("build") as stage:
        plain = found.plain

        def observed(stage: progress.Stage, text: str) -> None:
            plain(stage, text)
            if text == "the third":
                shown.set()

        monkeypatch.setattr(found, "plain", observed)
        for line in ("the first", "the second", "the third"):
            stage.log(line)
        assert shown.wait(10), out.getvalue()
        stage.log("too late")
        pending = stage.later
        assert pending is not None
    pending.join(10)
    lines = [line.split("build: ")[1] for line in out.getvalue().splitlines() if "build: " in line]
    assert lines[:3] == ["begins", "the first", "the third"]
    assert len(lines) == 4, "the last one tells that it is done"
