"""How much the programs load before they do anything: commands that answer questions are started often."""

from __future__ import annotations

import subprocess
import sys

import pytest
from budgets import hold

# What libraries and Python itself take where they find it: another machine has others of them.
OPTIONAL = {
    "_cffi_backend", "_distutils_hack", "_openssl", "aiodns", "backports", "bcrypt", "brotli", "brotlicffi",
    "cryptography", "org", "sitecustomize", "snappy", "usercustomize",
}  # fmt: skip


def loaded(*arguments: str) -> list[str]:
    """Modules of ours and of libraries that a program loads."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], check=True, capture_output=True, text=True, timeout=120
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    names = [line.rpartition("|")[2].strip() for line in lines[1:]]
    known = OPTIONAL | sys.stdlib_module_names
    return [name for name in names if name.partition(".")[0] not in known and not name.startswith("_sysconfigdata")]


@pytest.mark.parametrize(
    ("budget", "arguments"),
    [
        ("help", ("-m", "openstack_operator", "--help")),
        ("explain", ("-m", "openstack_operator", "explain", "--offline", "keystone.token.expiration")),
        # The operator's pod starts with this module.
        ("run", ("-m", "openstack_operator.cli.run", "--help")),
    ],
)
def test_a_program_loads_no_more_modules_than_it_may(budget: str, arguments: tuple[str, ...]) -> None:
    hold(f"modules.{budget}", len(loaded(*arguments)))


def test_the_operator_loads_nothing_that_only_people_need() -> None:
    found = {name.partition(".")[0] for name in loaded("-m", "openstack_operator.cli.run", "--help")}
    assert found & {"typer", "rich", "openstack", "keystoneauth1", "structlog", "jinja2", "requests"} == set()
