"""The command line as people meet it: help, completion, errors, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openstack_operator.cli import cloud
from openstack_operator.embedded import paths, tools

ROOT = Path(__file__).parents[2]


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, in an environment that knows no cluster."""
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "OPENSTACK_OPERATOR_STATE": "/nonexistent"}
    return subprocess.run(
        [sys.executable, "-m", "openstack_operator", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=base | env,
    )


def test_help_names_every_command_and_the_exit_codes() -> None:
    said = run("--help").stdout
    for name in ("up", "down", "run", "status", "env", "crds", "tempest-conf", "version"):
        assert f"\n  {name} " in said
    assert "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not Ready" in said
    assert max(len(line) for line in said.splitlines()) <= 80


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_complete_in_every_shell(shell: str) -> None:
    line = "openstack-operator stat"
    said = run(
        _OPENSTACK_OPERATOR_COMPLETE=f"complete_{shell}",
        COMP_WORDS=line,
        COMP_CWORD="1",
        _TYPER_COMPLETE_ARGS=line,
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    assert "status" in said.stdout


def test_wrong_usage_is_two_and_a_failure_is_one_line() -> None:
    assert run("no-such-command").returncode == 2
    done = run("status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: no cluster: KUBECONFIG names no file, no --kubeconfig was given, this is not a pod\n"
    assert run("env").stderr == "error: nothing was brought up from this machine (/nonexistent): run ./up\n"


def test_without_kubeconfig_the_cluster_of_up_is_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENSTACK_OPERATOR_STATE", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert cloud.cluster(None) is None
    tools.write(paths.default(), tmp_path / "kubectl", tmp_path / "kubeconfig")
    assert cloud.cluster(None) == str(tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", "/somewhere")
    assert cloud.cluster(None) is None
    assert cloud.cluster(Path("/given")) == "/given"


def test_a_release_that_up_does_not_know_is_refused_before_anything_starts() -> None:
    done = run("up", "--release", "2024.1")
    assert done.returncode == 2
    assert "2024.1: one of 2025.1, 2025.2, 2026.1, 2026.2" in done.stderr
    assert done.stdout == ""
