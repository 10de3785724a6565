"""The server of the APIs against what it is a client of."""

from __future__ import annotations

import configparser
import os
import subprocess
from pathlib import Path

import pytest

from openstack_operator.kit import wsgi
from openstack_operator.services.mariadb.types import MariaDBSpec

# Nova's API reads that of the API, cell0's and that of one cell; the others have one each.
DATABASES = {"keystone": 1, "glance": 1, "placement": 1, "neutron": 1, "nova": 3}
REPLICAS = 3


def test_all_threads_of_three_replicas_may_hold_all_their_connections() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(wsgi.ini("service.wsgi.api", 8000))
    server = parser["uwsgi"]
    held = int(server["threads"]) * int(server["processes"]) * REPLICAS * sum(DATABASES.values())

    assert held <= MariaDBSpec.model_fields["max_connections"].default


@pytest.mark.parametrize(("loaded_after", "naps"), [(0, 0), (3, 3), (1000, 150)])
def test_a_server_is_told_to_finish_when_it_is_loaded_but_not_much_later(
    tmp_path: Path, loaded_after: int, naps: int
) -> None:
    marker, log, sleep = tmp_path / "serving", tmp_path / "log", tmp_path / "sleep"
    if not loaded_after:
        marker.touch()
    sleep.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ $(wc -l < {log}) -ne {loaded_after} ] || touch {marker}\n')
    sleep.chmod(0o755)
    script = wsgi.PRE_STOP.replace(wsgi.SERVING, str(marker))
    subprocess.run(["sh", "-c", script], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True)

    assert log.read_text().split() == [*["0.2"] * naps, str(wsgi.PRE_STOP_SECONDS)]
