"""Start scripts of OVN: they parse, and every one of them is delivered."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from openstack_operator.services.ovn import config, resources


@pytest.mark.parametrize("name", config.SCRIPTS)
def test_a_script_parses(name: str) -> None:
    answer = subprocess.run(
        ["sh", "-n"], input=config.script(name), text=True, capture_output=True, check=False, timeout=10
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def test_every_script_is_in_the_config_map() -> None:
    assert set(resources.scripts("ovn")["data"]) == set(config.SCRIPTS)


SERVER = """
. ./serve.sh
before_end() { echo before; }
serve sh -c 'trap "echo ended; exit 7" TERM; echo began; while :; do sleep 0.01; done'
serve_until_end
"""


def test_a_server_is_told_to_end_after_what_comes_before_and_its_end_is_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(config.script("serve.sh"))
    with subprocess.Popen(["sh", "-c", SERVER], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "began\n"
        script.terminate()
        assert script.stdout.read() == "before\nended\n"
    assert script.returncode == 7


@pytest.mark.parametrize(("server", "code"), [("exit 3", 3), ("kill -KILL $$", 128 + 9)])
def test_a_server_that_ends_by_itself_ends_its_script(tmp_path: Path, server: str, code: int) -> None:
    (tmp_path / "serve.sh").write_text(config.script("serve.sh"))
    text = f". ./serve.sh\nbefore_end() {{ :; }}\nserve sh -c '{server}'\nserve_until_end\n"
    answer = subprocess.run(["sh", "-c", text], cwd=tmp_path, check=False, timeout=10)
    assert answer.returncode == code
