"""The commands that `up` puts on a person's PATH, and the lines that `openstack-operator env` prints."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from openstack_operator import __version__
from openstack_operator.embedded import down, paths, tools
from openstack_operator.runtime import errors

NASTY = 'it\'s a "dir" with $HOME, `id` and spaces'


@pytest.fixture
def where(tmp_path: Path) -> paths.Paths:
    """Paths that need quoting."""
    return paths.Paths(tmp_path / "cache", tmp_path / NASTY, tmp_path / "run")


def shell(where: paths.Paths, script: str) -> str:
    """Output of a script in a shell that has evaluated our lines."""
    lines = tools.shell(tools.variables(where), where.tools)
    done = subprocess.run(
        ["sh", "-euc", f"{lines}\n{lines}\n{script}"],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )
    return done.stdout


def test_the_variables_arrive_unchanged_whatever_characters_a_path_holds(where: paths.Paths, tmp_path: Path) -> None:
    tools.write(where, tmp_path / "kubectl", tmp_path / NASTY / "kubeconfig")
    printed = shell(where, 'printf "%s\\n" "$KUBECONFIG" "$OS_CLIENT_CONFIG_FILE" "$OS_CLOUD" "$PATH"').splitlines()
    assert printed == [
        str(tmp_path / NASTY / "kubeconfig"),
        str(tmp_path / NASTY / "clouds.yaml"),
        "openstack",
        f"{where.tools}:{os.environ['PATH']}",
    ]


def test_the_commands_run_from_the_path_and_kubectl_finds_the_plugin(where: paths.Paths, tmp_path: Path) -> None:
    kubectl = tmp_path / "the kubectl"
    kubectl.write_text('#!/bin/sh\nexec kubectl-openstack "$@"\n')
    kubectl.chmod(0o755)
    tools.write(where, kubectl, tmp_path / "kubeconfig")
    assert shell(where, "openstack-operator version; kubectl version").splitlines() == [__version__, __version__]


def test_kubectl_is_told_how_the_plugins_commands_are_completed(where: paths.Paths, tmp_path: Path) -> None:
    tools.write(where, tmp_path / "kubectl", tmp_path / "kubeconfig")
    assert shell(where, "kubectl_complete-openstack sta").splitlines() == ["status", ":4"]


def test_written_again_after_an_earlier_link_the_linked_program_is_left_alone(
    where: paths.Paths, tmp_path: Path
) -> None:
    program = tmp_path / "kubectl"
    program.write_text("the program")
    where.tools.mkdir(parents=True)
    (where.tools / "kubectl").symlink_to(program)
    tools.write(where, program, tmp_path / "kubeconfig")
    assert program.read_text() == "the program"


def test_a_kubectl_found_where_we_put_it_is_kept(where: paths.Paths, tmp_path: Path) -> None:
    tools.write(where, tmp_path / "kubectl", tmp_path / "kubeconfig")
    before = (where.tools / "kubectl").read_text()
    tools.write(where, where.tools / "kubectl", tmp_path / "kubeconfig")
    assert (where.tools / "kubectl").read_text() == before


def test_a_machine_without_a_cloud_is_told_what_to_run(where: paths.Paths) -> None:
    with pytest.raises(errors.OperatorError, match=r"run \./up"):
        tools.variables(where)


def test_down_forgets_a_given_cluster_and_touches_nothing_else(where: paths.Paths, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    tools.write(where, tmp_path / "kubectl", kubeconfig)
    (where.state / "clouds.yaml").touch()
    (where.state / "mine").touch()
    assert str(kubeconfig) in down.run(where=where, keep_data=True)
    assert where.tools.is_dir()
    assert str(kubeconfig) in down.run(where=where)
    assert [one.name for one in where.state.iterdir()] == ["mine"]
    assert down.run(where=where) == "there is nothing to take down"
