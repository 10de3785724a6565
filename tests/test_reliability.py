"""What the faults keep of what they saw, and demand of it: rows and page, lines of `status`, times. What breaks a cloud
is in `faults`, and runs on one.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "e2e"))
sys.path.insert(0, str(Path(__file__).parent / "faults"))

import boundaries  # the paths are set above
import demands
import lines
import machinery
import observers
import records
import scene
import small_scene

ROOT = Path(__file__).parents[1]
RESULT = json.loads((ROOT / "bench/results/faults.json").read_text())
SEEN = [records.Record(**one) for one in RESULT["faults"]]
PAGE = (ROOT / "docs/reliability.md").read_text()
WHOLE = records.Record(
    group="hands", name="it broken", stage=records.CLOUD, blamed=1.0, told="Pod openstack/it-0: starting",
    is_named=True, lasted=0.0, recovery=19.2, failed={"identity": 1}, problems=["500"], lost=2, silence=0.2, pods=1,
)  # fmt: skip


def back_at(at: float) -> scene.Whole:
    """Well since then; nobody looked before."""
    return scene.Whole(at, {})


def row(*found: records.Record) -> list[str]:
    """Cells of the one row of a table."""
    return [cell.strip() for cell in records.table(found).splitlines()[-1].strip("|").split("|")]


# --- rows and page ----------------------------------------------------------------------------------------------------


def test_a_row_shows_the_worst_of_its_times() -> None:
    later = dataclasses.replace(
        WHOLE, blamed=7.6, told="Pod openstack/it-0: ended", recovery=89.3, failed={"image": 3}, silence=1.6, pods=2
    )
    wanted = ["it broken", "2", "7.6 s", "Pod openstack/it-0: ended", "89.3 s", "image 3", "1.6 s", "2"]
    assert row(WHOLE, later) == wanted
    assert row(later, WHOLE) == wanted


def test_what_was_not_measured_is_no_number() -> None:
    nothing = dataclasses.replace(
        WHOLE,
        stage=records.ROLLED,
        blamed=None,
        told="",
        is_named=False,
        failed=None,
        lost=None,
        silence=None,
        pods=None,
    )
    assert row(nothing, nothing) == ["it broken", "2", "-", "-", "19.2 s", "-", "-", "-"]


def test_what_was_measured_and_is_nothing_is_a_number() -> None:
    well = dataclasses.replace(WHOLE, failed={}, lost=0, silence=0.0, pods=0)
    assert row(well)[5:] == ["0", "0.0 s", "0"]


def test_what_is_told_where_nothing_is_demanded_stands_in_brackets() -> None:
    assert row(dataclasses.replace(WHOLE, is_named=False))[2:4] == ["(1.0 s)", "Pod openstack/it-0: starting"]


def test_a_small_cloud_and_what_was_counted_stand_behind_the_name() -> None:
    small = dataclasses.replace(WHOLE, stage=records.SMALL, lasted=68.9, counted="9 kills")
    more = dataclasses.replace(small, counted="23 kills")
    assert row(more, small)[0] == "it broken, for 69 s, 9 kills (small cloud)"


def test_the_page_is_made_from_the_result_and_the_demands() -> None:
    assert records.published(PAGE, RESULT) == PAGE


def test_nobody_says_what_a_stage_cannot_see() -> None:
    wanted = {records.CLOUD: (True, True, True), records.SMALL: (False, False, True), records.ROLLED: (False,) * 3}
    found = {(one.stage, (one.lost is not None, one.silence is not None, one.failed is not None)) for one in SEEN}
    assert found == set(wanted.items())


def test_the_page_says_what_held_up_the_slowest_time_of_what_took_long() -> None:
    quick = dataclasses.replace(WHOLE, waited={"Pod a/it-0 is not ready": 19.0})
    slow = dataclasses.replace(
        WHOLE, recovery=89.3, waited={"Pod a/it-0 is not ready": 89.1, "Keystone a/b: <none> is ready": 80.2}
    )
    slower = dataclasses.replace(slow, name="another", recovery=95.0, waited={"the VM does not answer": 94.6})
    untold = dataclasses.replace(slow, name="untold", waited={})
    found = records.held_up({"faults": [dataclasses.asdict(one) for one in (quick, slow, quick, slower, untold)]})
    assert found.splitlines()[1:-1] == [
        records.HELD,
        "",
        "- another, 95 s: the VM does not answer (95 s)",
        "- it broken, 89 s: Pod a/it-0 is not ready (89 s); Keystone a/b: &lt;none> is ready (80 s)",
    ]
    assert records.held_up({"faults": [dataclasses.asdict(quick)]}).splitlines()[1:-1] == []


def test_what_was_not_well_is_kept_with_when_that_was_seen_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "LOOK_SECONDS", 0.01)
    looks = itertools.chain([["Pod a: one", "Pod b: x"], [], ["Pod a: two"]], itertools.repeat([]))
    began = time.monotonic()
    back = scene.until_whole(lambda: next(looks), lambda: "", 10, calm=0.2)
    assert time.monotonic() - back.at >= 0.2
    assert {what.partition(":")[0]: text for what, (_, text) in back.missing.items()} == {
        "Pod a": "Pod a: two",
        "Pod b": "Pod b: x",
    }
    assert list(back.waited(began)) == ["Pod a: two", "Pod b: x"]
    assert all(began <= at <= back.at for at, _ in back.missing.values())


def test_of_many_that_were_not_well_the_last_ones_are_kept() -> None:
    back = scene.Whole(9.0, {str(at): (float(at), f"Pod {at}") for at in range(8)})
    assert back.waited(2.0) == {"Pod 7": 5.0, "Pod 6": 4.0, "Pod 5": 3.0, "Pod 4": 2.0}


# --- demands ----------------------------------------------------------------------------------------------------------


def test_what_was_named_was_named_in_time() -> None:
    late = [one for one in SEEN if one.is_named and not (one.blamed or 0.0) <= demands.seconds(one.name)]
    assert late == []


def test_only_faults_that_there_are_may_be_named_later() -> None:
    names = {name for faults in demands.LATER.values() for name in faults}
    assert names <= {one.name for one in SEEN}
    assert min(map(demands.seconds, names)) > demands.NAMED_SECONDS


class Said(observers.Blame):
    """A reader who was told these lines at these times."""

    def __init__(self, *said: tuple[float, str]) -> None:
        super().__init__(Path("kubeconfig"), "openstack")
        self.said = [(at, [line]) for at, line in said]


def fault_on(blame: observers.Blame, blames: str, name: str = "it broken") -> scene.Fault:
    cloud = SimpleNamespace(pods=lambda: {"it-0": ("another", 0)}, namespace="openstack")
    return scene.Fault(SimpleNamespace(blame=blame, cloud=cloud), name, "hands", blames, began=100.0)


def test_the_first_line_is_kept_where_none_is_demanded() -> None:
    fault = fault_on(Said((99.0, "Pod a/before-0: x"), (102.5, "Pod a/it-0: x"), (101.0, "Pod a/it-0: y")), "")
    record = fault.record(back_at(110.0), {}, {"it-0": ("one", 0), "other-0": ("gone", 0)})
    assert (record.blamed, record.told, record.is_named) == (1.0, "Pod a/it-0: y", False)
    assert (record.lost, record.silence, record.failed, record.pods) == (None, None, {}, 2)


def test_pods_that_nobody_counted_before_are_not_counted() -> None:
    assert fault_on(Said(), "").record(back_at(110.0), {}, None).pods is None


@pytest.mark.parametrize(
    ("everything", "at", "name", "complaint"),
    [
        ("all", 104.9, "it broken", None),
        ("all", 105.2, "it broken", "named after 5.2 s, not 5"),
        ("", 105.2, "it broken", None),
        ("all", 116.9, "mariadb-0 hangs", None),
        ("all", 131.0, "mariadb-0 hangs", "named after 31.0 s, not 30"),
        ("", 99.0, "it broken", "status never named"),
    ],
)
def test_a_fault_is_named_in_time_where_it_is_made_for_the_record(
    monkeypatch: pytest.MonkeyPatch, everything: str, at: float, name: str, complaint: str | None
) -> None:
    monkeypatch.setenv("OPENSTACK_OPERATOR_FAULTS", everything)
    fault = fault_on(Said((at, "Pod a/it-0: x")), lines.of("it"), name)
    record = fault.record(back_at(140.0), {}, {})
    if complaint is None:
        fault.require_named(record)
        return
    with pytest.raises(AssertionError, match=complaint):
        fault.require_named(record)


def test_somebody_is_told_when_the_command_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observers, "STATUS_SECONDS", 0.01)
    answer, watched = tmp_path / "answer", tmp_path / "watched"
    for path in (answer, watched):
        os.mkfifo(path)
    script = f'case "$*" in *--watch*) exec cat {watched};; *) exec cat {answer};; esac'
    blame = observers.Blame(Path("kubeconfig"), "openstack")
    blame._command = ["sh", "-c", script, "status"]
    said = {"waitsFor": [{"kind": "Pod", "namespace": "a", "name": "it-0", "message": "", "state": "waiting"}]}
    # Both ends, so that nobody waits for the other one.
    open_end = os.open(watched, os.O_RDWR)
    try:
        blame.start()
        # Opened as soon as the command has begun to read.
        with answer.open("w") as file:
            blame._over.set()
            before = time.monotonic()
            file.write(json.dumps(said))
        blame.end()
    finally:
        os.close(open_end)
    ((at, found),) = blame.said
    assert found == ["Pod a/it-0: waiting"]
    assert at > before


# --- the small stage --------------------------------------------------------------------------------------------------


def test_a_fault_of_a_small_cloud_counts_the_pods_from_when_it_begins() -> None:
    pods = {"mariadb-0": ("one", 0)}
    fault = small_scene.SmallFault(SimpleNamespace(cloud=SimpleNamespace(pods=lambda: pods)), "it", "hands", "")
    assert (fault.stage, fault.pods) == (records.SMALL, None)
    fault.begin()
    assert fault.pods == pods


# --- lines of status --------------------------------------------------------------------------------------------------

BEFORE_AND_BEHIND = [
    ("mariadb", "Pod openstack/mariadb-0: starting (merge-config, mariadb)"),
    ("mariadb", "StatefulSet openstack/mariadb: 0/1 pods ready"),
    ("ovn-northd", "Pod openstack/ovn-northd-575c948ccc-rfb6t: starting (not scheduled yet)"),
    ("ovn-northd", "Pod openstack/ovn-northd-f5f6867cc-p5b8s: container ovn-northd is not ready yet"),
    ("glance-api", "Pod openstack/glance-api-dc5d9f464-fh5t9: starting (merge-config, glance-api)"),
    ("nova-cell1-compute", "Pod openstack/nova-cell1-compute-6cscl: starting (merge-config, nova-compute)"),
    ("nova-cell1-compute-libvirt", "Pod openstack/nova-cell1-compute-libvirt-wnmdn: starting (libvirt)"),
    ("keystone-bootstrap", "Pod faults-small/keystone-bootstrap-e942f87e-86fd2: container bootstrap: exit code 1"),
    ("keystone-bootstrap", "Job faults-small/keystone-bootstrap-e942f87e: it failed"),
    (
        "keystone-api",
        "Keystone openstack/keystone: DeploymentReady: Deployment openstack/keystone-api: 1 of 1 pods ready",
    ),
]


@pytest.mark.parametrize(("name", "line"), BEFORE_AND_BEHIND)
def test_a_line_about_a_workload_or_its_pod_names_it(name: str, line: str) -> None:
    assert re.search(lines.of(name), line)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (lines.of("mariadb"), "Pod openstack/keystone-api-5686ddfb98-rffht: waits for the host mariadb"),
        (lines.of("mariadb"), "MariaDB openstack/mariadb: DatabasesReady: no answer"),
        (lines.of("mariadb"), "Pod openstack/mariadb-backup-0: starting"),
        (lines.of("nova-cell1-compute"), "Pod openstack/nova-cell1-compute-libvirt-wnmdn: starting (libvirt)"),
        (lines.of("nova-api"), "Pod openstack/nova-cell1-nova-api-77fd554f46-sfgqq: starting"),
        (lines.of("mariadb", says="is full"), "Pod openstack/mariadb-0: container mariadb: exit code 139 (SIGSEGV)"),
        (lines.of("mariadb", namespace="one"), "Pod two/mariadb-0: starting"),
        (lines.NO_API, "Pod openstack/neutron-rpc-server-8589c88fcb-hdtxr: starting (neutron-rpc-server)"),
        (lines.NO_STORE, "Pod openstack/neutron-rpc-server-8589c88fcb-hdtxr: starting (neutron-rpc-server)"),
        (lines.NO_STORE, "error: no answer from the API server https://10.89.0.1:6443: GET /apis"),
        (lines.NO_STORE, "error: the API server https://10.89.0.1:6443 is not ready: poststarthook/rbac failed"),
    ],
)
def test_a_line_about_somebody_else_does_not(pattern: str, line: str) -> None:
    assert not re.search(pattern, line)


# A workload or its pod, and what was done to it.
BROKEN = re.compile(
    r"(?:pod of |(?:deployment|(?:stateful|daemon)set)s/)?([a-z][a-z0-9-]+?)(?:-0)? (?:deleted|killed|hangs|scaled)"
)
OTHERS = {
    "kube-apiserver killed with -9, and started again": lines.NO_API,
    "etcd killed with -9, and started again": lines.NO_STORE,
    "kube-apiserver and etcd killed with -9, and started again": lines.NO_API,
    "operator hangs": lines.of("openstack-operator"),
    "DNS of the cluster away": lines.DNS,
}


def pattern_of(name: str) -> str:
    """The pattern that a fault of this name demands, as far as the name tells it; empty elsewhere."""
    if name in OTHERS:
        return OTHERS[name]
    found = BROKEN.match(name)
    return lines.of(found[1]) if found else ""


def test_what_status_has_said_of_faults_names_them() -> None:
    known = [one for one in SEEN if one.is_named and pattern_of(one.name)]
    assert len(known) > 80
    assert [one for one in known if not re.search(pattern_of(one.name), one.told)] == []


# --- steps and processes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("enabled", "wanted"),
    # MariaDB's pods, and what is True before; Keystone's Job and pods; Placement's Job and pods.
    [((), 2), (("keystone",), 4), (("keystone", "placement"), 6), (("keystone", "glance", "placement"), 6)],
)
def test_how_often_an_operator_is_killed_at_least_comes_from_the_tables(enabled: tuple[str, ...], wanted: int) -> None:
    assert boundaries.least(enabled) == wanted


def test_a_process_stands_still_until_it_goes_on() -> None:
    with subprocess.Popen(["cat", "/dev/stdin"], stdin=subprocess.PIPE) as process:
        until(lambda: machinery.command_line(process.pid).split() == ["cat", "/dev/stdin"])
        assert not machinery.is_stopped(process.pid)
        with machinery.stopped(process.pid):
            until(lambda: machinery.is_stopped(process.pid))
        until(lambda: not machinery.is_stopped(process.pid))
        process.send_signal(signal.SIGKILL)
    assert (machinery.is_stopped(process.pid), machinery.command_line(process.pid)) == (False, "")


def until(is_met: Callable[[], Any]) -> None:
    """Signals arrive a moment later."""
    end = time.monotonic() + 5
    while not is_met():
        assert time.monotonic() < end
