"""The server's files: my.cnf follows the spec, and any root password survives the quoting of SQL."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from openstack_operator.services.mariadb import config
from openstack_operator.services.mariadb.types import MariaDBSpec


def test_settings_of_the_spec_stand_in_the_servers_file() -> None:
    text = config.my_cnf(MariaDBSpec(max_connections=42, buffer_pool_mebibytes=64))
    assert "\nmax_connections = 42\n" in text
    assert "\ninnodb_buffer_pool_size = 64M\n" in text
    assert "\ncollation-server = utf8mb3_general_ci\n" in text


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20))
@example("'; DROP DATABASE mysql; --")
@example("\\")
@example("\\'")
def test_a_password_cannot_leave_its_quotes(password: str) -> None:
    first = config.init_sql(password).splitlines()[0]
    match = re.fullmatch(r"CREATE USER IF NOT EXISTS 'root'@'%' IDENTIFIED BY '((?:[^'\\]|\\.)*)';", first)
    assert match is not None
    assert re.sub(r"\\(.)", r"\1", match[1]) == password


def test_each_statement_is_one_line_because_the_server_reads_them_so() -> None:
    assert all(line.endswith(";") for line in config.init_sql("x").splitlines())
