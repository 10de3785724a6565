"""Rows of nova.conf of each process: fields and facts reach their options, credentials stay in the secret part, and no
process sees a database that is not its own."""

from __future__ import annotations

import configparser
from typing import Any

import pytest

from openstack_operator.kit import ini
from openstack_operator.services.nova import config
from openstack_operator.services.nova.api import config as api
from openstack_operator.services.nova.api.types import NovaAPISpec
from openstack_operator.services.nova.compute import config as compute
from openstack_operator.services.nova.compute.types import NovaComputeSpec
from openstack_operator.services.nova.conductor import config as conductor
from openstack_operator.services.nova.conductor.types import NovaConductorSpec
from openstack_operator.services.nova.metadata import config as metadata
from openstack_operator.services.nova.metadata.types import NovaMetadataSpec
from openstack_operator.services.nova.novncproxy import config as novncproxy
from openstack_operator.services.nova.novncproxy.types import NovaNoVNCProxySpec
from openstack_operator.services.nova.scheduler import config as scheduler
from openstack_operator.services.nova.scheduler.types import NovaSchedulerSpec
from openstack_operator.services.nova.types import NovaSpec

FACTS = {
    "identity.url": "http://keystone-api.openstack.svc:5000/v3",
    "identity.public_url": "http://192.0.2.1:30500/v3",
    "cache.servers": "memcached-0:11211",
    "host": "nova-x",
    "service_user.user": "nova",
    "service_user.password": "userpw",
    "messaging.url": "rabbit://nova:mqpw@rabbitmq:5672/nova",
    "api_database.url": "mysql+pymysql://nova_api:apipw@mariadb/nova_api",
    "cell_database.url": "mysql+pymysql://nova_cell0:cellpw@mariadb/nova_cell0",
    "metadata.secret": "sharedpw",
    "cells.cell1.database.url": "mysql+pymysql://nova_cell1:onepw@mariadb/nova_cell1",
    "cells.cell1.messaging.url": "rabbit://nova-cell1:onemq@rabbitmq:5672/nova-cell1",
}
PASSWORDS = ("userpw", "mqpw", "apipw", "cellpw", "sharedpw", "onepw", "onemq")
PROCESS: dict[str, Any] = {
    "auth_url": "http://keystone/v3",
    "memcached_servers": "memcached-0:11211",
    "service_user_secret_ref": {"name": "user"},
    "messaging_secret_ref": {"name": "bus"},
}
CELL: dict[str, Any] = {**PROCESS, "cell_database_secret_ref": {"name": "cell"}}
TOP: dict[str, Any] = {**CELL, "api_database_secret_ref": {"name": "api"}}
SHARED: dict[str, Any] = {"metadata_secret_ref": {"name": "shared"}}

FILES: dict[str, tuple[tuple[ini.Row, ...], Any]] = {
    "api": (api.ROWS, NovaAPISpec(**TOP)),
    "scheduler": (scheduler.ROWS, NovaSchedulerSpec(**TOP)),
    "super-conductor": (conductor.choose(NovaConductorSpec(**TOP)), NovaConductorSpec(**TOP)),
    "conductor": (conductor.choose(NovaConductorSpec(**CELL)), NovaConductorSpec(**CELL)),
    "metadata": (metadata.choose(NovaMetadataSpec(**TOP, **SHARED)), NovaMetadataSpec(**TOP, **SHARED)),
    "cell metadata": (metadata.choose(NovaMetadataSpec(**CELL, **SHARED)), NovaMetadataSpec(**CELL, **SHARED)),
    "novncproxy": (novncproxy.ROWS, NovaNoVNCProxySpec(**CELL)),
    "compute": (compute.ROWS, NovaComputeSpec(**PROCESS)),
    "cells job": (config.TOP_ROWS, NovaSpec()),
    "cell of the job": (config.cell_rows("cell1"), NovaSpec()),
}


def _options(rows: tuple[ini.Row, ...], spec: Any) -> configparser.ConfigParser:
    rendered = ini.render(rows, spec, FACTS)
    parser = configparser.ConfigParser(interpolation=None, strict=False, default_section="none")
    parser.read_string(rendered.public + rendered.secret)
    return parser


@pytest.mark.parametrize("name", FILES)
def test_credentials_stand_in_the_secret_part_only(name: str) -> None:
    rows, spec = FILES[name]
    public = ini.render(rows, spec, FACTS).public
    assert [word for word in PASSWORDS if word in public] == []


@pytest.mark.parametrize(
    ("name", "databases"),
    [
        ("api", ["api_database", "database"]),
        ("scheduler", ["api_database", "database"]),
        ("super-conductor", ["api_database", "database"]),
        ("conductor", ["database"]),
        ("metadata", ["api_database", "database"]),
        ("cell metadata", ["database"]),
        ("novncproxy", ["database"]),
        ("compute", []),
    ],
)
def test_a_process_sees_its_own_databases_only(name: str, databases: list[str]) -> None:
    parser = _options(*FILES[name])
    assert [section for section in ("api_database", "database") if parser.has_section(section)] == databases


@pytest.mark.parametrize(
    ("rows", "spec", "section", "option", "value"),
    [
        (scheduler.ROWS, NovaSchedulerSpec(**TOP, discover_hosts_interval_seconds=9), "scheduler",
         "discover_hosts_in_cells_interval", "9"),
        (scheduler.ROWS, NovaSchedulerSpec(**TOP, discover_hosts_interval_seconds=9), "DEFAULT",
         "periodic_fuzzy_delay", "0"),
        (scheduler.ROWS, NovaSchedulerSpec(**TOP, shutdown_seconds=7), "DEFAULT", "manager_shutdown_timeout", "7"),
        (scheduler.ROWS, NovaSchedulerSpec(**TOP, shutdown_seconds=7), "DEFAULT", "graceful_shutdown_timeout", "17"),
        (conductor.CELL_ROWS, NovaConductorSpec(**CELL, shutdown_seconds=8), "DEFAULT", "manager_shutdown_timeout",
         "8"),
        (compute.ROWS, NovaComputeSpec(**PROCESS, shutdown_seconds=30), "DEFAULT", "graceful_shutdown_timeout", "40"),
        (compute.ROWS, NovaComputeSpec(**PROCESS), "vnc", "enabled", "false"),
        (compute.ROWS, NovaComputeSpec(**PROCESS, novncproxy_url="http://h:1/vnc_lite.html"), "vnc", "enabled", "true"),
        (compute.ROWS, NovaComputeSpec(**PROCESS, novncproxy_url="http://h:1/vnc_lite.html"), "vnc",
         "novncproxy_base_url", "http://h:1/vnc_lite.html"),
        (compute.ROWS, NovaComputeSpec(**PROCESS, region="Two"), "placement", "region_name", "Two"),
        (api.ROWS, NovaAPISpec(**TOP, region="Two"), "glance", "region_name", "Two"),
        (metadata.CELL_ROWS, NovaMetadataSpec(**CELL, **SHARED), "api", "local_metadata_per_cell", "true"),
        (metadata.GLOBAL_ROWS, NovaMetadataSpec(**TOP, **SHARED), "neutron", "metadata_proxy_shared_secret",
         "sharedpw"),
    ],
)  # fmt: skip
def test_a_field_reaches_its_option(
    rows: tuple[ini.Row, ...], spec: Any, section: str, option: str, value: str
) -> None:
    assert _options(rows, spec)[section][option] == value


def test_the_scheduler_does_not_look_for_hosts_unless_it_is_told_to() -> None:
    """Regression f12."""
    parser = _options(*FILES["scheduler"])
    assert not parser.has_option("scheduler", "discover_hosts_in_cells_interval")
    assert not parser.has_option("DEFAULT", "periodic_fuzzy_delay")


def test_a_cell_that_serves_all_cells_has_no_local_metadata() -> None:
    assert not _options(*FILES["metadata"]).has_section("api")


def test_the_node_and_not_nova_conf_says_how_servers_run() -> None:
    parser = _options(*FILES["compute"])
    assert not parser.has_option("libvirt", "virt_type")
    assert not parser.has_option("DEFAULT", "host")


@pytest.mark.parametrize("script", ["NODE", "READY", "LIBVIRT_START", "WRAPPER", "CLEAN"])
def test_scripts_keep_what_the_shell_must_see(script: str) -> None:
    """Python takes backslashes away where nobody sees it; the shell then reads other text."""
    text: str = getattr(compute, script)
    assert text.startswith("#!/bin/sh\n")
    for line in text.splitlines():
        if "printf" in line:
            assert "\\" in line, line
    assert "\t" not in text


def test_python_scripts_compile() -> None:
    for text in (compute.START, config.SCRIPT, config.REMOVAL_SCRIPT, config.UPGRADE_CHECK_SCRIPT):
        compile(text, "script", "exec")


def test_the_boot_sector_that_tries_kvm_is_the_documented_code() -> None:
    assert r"printf '\272\001\005\260\020\356\364'" in compute.NODE
    code = bytes([0o272, 0o001, 0o005, 0o260, 0o020, 0o356, 0o364])
    assert code == b"\xba\x01\x05" + b"\xb0\x10" + b"\xee" + b"\xf4"
