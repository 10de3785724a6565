"""The server's pod."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from openstack_operator.kit import config, workloads
from openstack_operator.services.mariadb import config as files
from openstack_operator.services.mariadb import resources
from openstack_operator.services.mariadb.types import MariaDBSpec


def test_the_server_runs_as_kollas_user_with_a_volume_and_nothing_else_to_write_to() -> None:
    spec = workloads.template(resources.pod("db", MariaDBSpec(), config.NONE))["spec"]
    (container,) = spec["containers"]
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert spec["securityContext"]["runAsUser"] == 42434
    assert writable == ["/tmp", "/run/mysqld", "/var/lib/mysql"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_memory_request_follows_the_buffer_pool() -> None:
    def memory(mebibytes: int) -> str:
        pod = resources.pod("db", MariaDBSpec(buffer_pool_mebibytes=mebibytes), config.NONE)
        found: str = workloads.template(pod)["spec"]["containers"][0]["resources"]["requests"]["memory"]
        return found

    assert (memory(16), memory(1024)) == ("144Mi", "1152Mi")


@pytest.mark.parametrize(
    ("blocks", "code", "said"),
    [
        ("8192 * 4096", 0, ""),
        (
            "8191 * 4096",
            1,
            "the volume of the database is full: 31 MiB are free; it takes no data until there is more\n",
        ),
        (
            "0 * 4096",
            1,
            "the volume of the database is full: 0 MiB are free; it takes no data until there is more\n",
        ),
    ],
)
def test_a_server_without_room_for_data_is_not_ready(tmp_path: Path, blocks: str, code: int, said: str) -> None:
    """With a `stat` that says what a file system of any size would. What is said stands there for the end, too."""
    last_words = tmp_path / "termination-log"
    last_words.write_text("of an earlier look")
    done = run("bash", files.ROOM, tmp_path, stat=f'echo "{blocks}"')
    assert (done.returncode, done.stdout, done.stderr) == (code, said, "")
    assert last_words.read_text() == said


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ("8192 * 4096", ""),
        ("256 * 4096", "the volume of the database is full: 1 MiB are free; it takes no data until there is more\n"),
    ],
)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_server_that_crashes_of_a_full_volume_leaves_word_of_it(
    tmp_path: Path, blocks: str, said: str, is_new: bool
) -> None:
    """It is started all the same: only a server that runs can give room back."""
    (tmp_path / "termination-log").touch()
    (tmp_path / "mysql").mkdir()
    if not is_new:
        (tmp_path / "mysql" / "data" / "mysql").mkdir(parents=True)
    programs = {"mariadb-install-db": f"mkdir {tmp_path}/mysql/data.new", "stat": f'echo "{blocks}"'}
    if said:
        # First, and once, it ends with these words: who waits in its start has none.
        done = run("sh", files.START, tmp_path, mariadbd="echo never", **programs)
        assert (done.returncode, done.stdout) == (1, said)
        (tmp_path / "termination-log").write_text("")
    done = run("sh", files.START, tmp_path, mariadbd="kill -SEGV $$", **programs)
    assert done.returncode == -signal.SIGSEGV
    assert done.stdout == said
    assert (tmp_path / "termination-log").read_text() == said


def test_a_volume_too_full_for_its_first_files_leaves_word_of_it(tmp_path: Path) -> None:
    (tmp_path / "termination-log").touch()
    (tmp_path / "mysql").mkdir()
    install = {"mariadb-install-db": "exit 1"}
    done = run("sh", files.START, tmp_path, stat='echo "0 * 4096"', mariadbd="exit 0", **install)
    assert done.returncode == 1
    assert "full: 0 MiB are free" in (tmp_path / "termination-log").read_text()


def test_a_server_starts_where_no_word_can_be_left(tmp_path: Path) -> None:
    (tmp_path / "mysql" / "data" / "mysql").mkdir(parents=True)
    (tmp_path / "termination-log").mkdir()
    for blocks, ends in ("8192 * 4096", 0), ("0 * 4096", 1), ("0 * 4096", 0), ("8192 * 4096", 0), ("0 * 4096", 1):
        done = run("sh", files.START, tmp_path, stat=f'echo "{blocks}"', mariadbd="echo serves")
        assert (done.returncode, done.stdout.splitlines()[-1] == "serves") == (ends, not ends)


def run(shell: str, script: str, directory: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Runs a script of the container in this directory, with programs that do what is given."""
    found = directory / "bin"
    for one in (found, directory / "run"):
        one.mkdir(exist_ok=True)
    for name, text in programs.items():
        (found / name).write_text(f"#!/bin/sh\n{text}\n")
        (found / name).chmod(0o755)
    script = script.replace(files.LAST_WORDS, f"{directory}/termination-log").replace(files.DATA, f"{directory}/mysql")
    script = script.replace(files.RUN, f"{directory}/run")
    environment = {**os.environ, "PATH": f"{found}:{os.environ['PATH']}"}
    return subprocess.run(
        [shell, "-c", script], check=False, capture_output=True, text=True, env=environment, timeout=30
    )
