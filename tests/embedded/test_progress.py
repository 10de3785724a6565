"""Progress without a terminal: plain lines, one table of seconds at the end."""

from __future__ import annotations

import io

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
