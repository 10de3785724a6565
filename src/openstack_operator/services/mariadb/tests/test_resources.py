"""The server's pod."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from openstack_operator.kit import config, workloads
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
    """With a `stat` that says what a file system of any size would."""
    stat = tmp_path / "stat"
    stat.write_text(f'#!/bin/sh\necho "{blocks}"\n')
    stat.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", resources.ROOM], check=False, capture_output=True, text=True, env=environment, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, said, "")
