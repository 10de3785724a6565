"""The audit log of the embedded cluster is read over its rotations."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from openstack_operator.embedded import audit
from openstack_operator.embedded.apiserver import ControlPlane

ROTATED = (
    "audit-2026-11-29T23-19-36.123.log",
    "audit-2026-11-29T23-25-02.004.log",
    "audit-2026-11-30T00-00-00.000.log",
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def write(log: Path, *names: str) -> None:
    with log.open("a") as file:
        file.writelines(f"{json.dumps({'name': name})}\n" for name in names)


def read(log: Path, since: audit.Place | None = None) -> list[str]:
    return [one["name"] for one in audit.events(log, since)]


def test_events_from_a_place_on(log: Path) -> None:
    write(log, "a", "b")
    place = audit.end(log)
    assert read(log, place) == []
    write(log, "c")
    assert (read(log, place), read(log)) == (["c"], ["a", "b", "c"])


@pytest.mark.parametrize("rotations", [1, 2, 3])
def test_a_place_holds_over_rotations(log: Path, rotations: int) -> None:
    write(log, "before")
    place = audit.end(log)
    expected = []
    for name in ROTATED[:rotations]:
        write(log, f"in {name}")
        expected.append(f"in {name}")
        log.rename(log.with_name(name))
    write(log, "after")
    assert read(log, place) == [*expected, "after"]
    assert read(log) == ["before", *expected, "after"]
    # One behind the last rotation: nothing of the older files.
    assert read(log, audit.end(log)) == []


def test_a_line_that_is_being_written_is_left_for_later(log: Path) -> None:
    write(log, "a")
    place = audit.end(log)
    with log.open("a") as file:
        file.write('{"name": "b"')
    assert (read(log), read(log, place)) == (["a"], [])
    with log.open("a") as file:
        file.write("}\n")
    assert read(log, place) == ["b"]


def test_a_place_in_a_file_that_was_removed_is_told_and_nothing_is_made_of_it(log: Path) -> None:
    write(log, "a")
    place = audit.end(log)
    log.rename(log.with_name(ROTATED[0]))
    write(log, "b")
    log.with_name(ROTATED[0]).unlink()
    with pytest.raises(audit.AuditError, match="rotated so often"):
        read(log, place)


def test_a_real_apiserver_rotates_and_loses_no_request_by_it(kubernetes_programs: Path, tmp_path: Path) -> None:
    cluster = ControlPlane(kubernetes_programs, tmp_path)
    extra = (*cluster.cluster.extra_apiserver, "--audit-log-maxsize=1")
    cluster.cluster = dataclasses.replace(cluster.cluster, extra_apiserver=extra)
    with cluster:
        place, name, sent = audit.end(cluster.audit_log), "x" * 4000, 300
        for number in range(sent):
            cluster.request("GET", f"/api/v1/namespaces/default/configmaps?limit={number + 1}&x={name}")
        found = [one for one in audit.events(cluster.audit_log, place) if name in one["requestURI"]]
    assert len(list(tmp_path.glob("audit-*.log"))) >= 1
    assert [one["requestURI"].split("limit=")[1].split("&")[0] for one in found] == [str(n + 1) for n in range(sent)]
