"""Programs are named by what they are made from, and given ones are checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openstack_operator.embedded import programs


def fake(directory: Path, name: str, version: str) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho Kubernetes {version}\n")
    path.chmod(0o755)


def test_all_missing_programs_are_named_at_once(tmp_path: Path) -> None:
    for name in programs.ALL:
        if name not in ("etcd", "cni/bridge"):
            fake(tmp_path, name, "v1.36.3")
    with pytest.raises(programs.ProgramsError, match=re.escape("lacks these programs: etcd, cni/bridge")):
        programs.given(tmp_path)


def test_programs_that_are_too_old_are_refused(tmp_path: Path) -> None:
    for name in programs.ALL:
        fake(tmp_path, name, "v1.29.9" if name == "kubelet" else "v1.36.3")
    with pytest.raises(programs.ProgramsError, match=r"kubelet is 1\.29, and 1\.30 or later is needed"):
        programs.given(tmp_path)


def test_given_programs_that_are_whole_are_used(tmp_path: Path) -> None:
    for name in programs.ALL:
        fake(tmp_path, name, "v1.30.0")
    assert programs.given(tmp_path) == tmp_path.resolve()


def test_another_compiler_gives_another_directory() -> None:
    assert programs.key("go1.26.8") != programs.key("go1.27.3")


def test_versions_are_compared_as_numbers() -> None:
    assert programs.numbers("go1.9") < programs.numbers("go1.26.8") < programs.numbers("go1.27")


def test_nothing_is_built_where_everything_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find_go", lambda cache, log: Path("/bin/false"))
    monkeypatch.setattr(programs, "go_version", lambda go: "go9")
    directory = tmp_path / "kubernetes" / programs.key("go9")
    for name in programs.ALL:
        fake(directory, name, "v1.36.3")
    assert programs.ensure(tmp_path) == directory
