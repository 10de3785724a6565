"""Start scripts of OVN: they parse, and every one of them is delivered."""

from __future__ import annotations

import subprocess

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
