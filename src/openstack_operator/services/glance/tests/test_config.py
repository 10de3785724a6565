"""glance-api.conf: what a service reads from the two parts that the operator writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from openstack_operator.kit import ini
from openstack_operator.services.glance import config, resources
from openstack_operator.services.glance.types import GlanceSpec

PASSWORD = "a$b%(c)s#'\""
FACTS: dict[str, Any] = {
    "database.url": "mysql+pymysql://glance:p%24w@mariadb.cloud.svc:3306/glance",
    "cache.servers": "memcached-0.memcached.cloud.svc:11211",
    "identity.url": "http://keystone-api.cloud.svc:5000/v3",
    "identity.public_url": "http://192.0.2.1:30500/v3",
    "service_user.user": "glance",
    "service_user.password": PASSWORD,
    "url.self": resources.self_url("glance", "cloud"),
}


def read(directory: Path, spec: GlanceSpec) -> dict[tuple[str, str], Any]:
    """Every option of the file with the value that oslo.config reads."""
    rendered = ini.render(config.ROWS, spec, FACTS)
    file = directory / "glance-api.conf"
    file.write_text(f"{rendered.public}\n{rendered.secret}\n")
    conf = cfg.ConfigOpts()
    names = {(row.section, row.option) for row in config.ROWS}
    for section, option in names:
        kind = (
            cfg.ListOpt(option, bounds=True) if option == "enabled_import_methods" else cfg.StrOpt(option)
        )  # Glance declares this one so.
        conf.register_opt(kind, group=None if section == "DEFAULT" else section)
    conf([], default_config_files=[str(file)])
    return {
        (section, option): getattr(conf if section == "DEFAULT" else conf[section], option) for section, option in names
    }


def test_the_api_reads_the_store_the_volume_and_itself_from_the_file(tmp_path: Path) -> None:
    values = read(tmp_path, GlanceSpec(region="north"))

    assert values[("DEFAULT", "enabled_backends")] == "file:file"
    assert values[("glance_store", "default_backend")] == "file"
    assert {section: value for (section, option), value in values.items() if option == "filesystem_store_datadir"} == {
        "file": "/var/lib/glance/images",
        "os_glance_staging_store": "/var/lib/glance/staging",
        "os_glance_tasks_store": "/var/lib/glance/tasks",
    }
    assert values[("DEFAULT", "worker_self_reference_url")] == "http://glance-api.cloud.svc:9292"
    assert values[("paste_deploy", "flavor")] == "keystone"
    assert values[("keystone_authtoken", "region_name")] == "north"
    assert values[("keystone_authtoken", "service_type")] == "image"
    assert values[("keystone_authtoken", "auth_url")] == FACTS["identity.url"]
    assert values[("keystone_authtoken", "www_authenticate_uri")] == FACTS["identity.public_url"]


def test_credentials_are_read_back_as_they_are_and_stand_in_the_secret_part_alone(tmp_path: Path) -> None:
    values = read(tmp_path, GlanceSpec())
    rendered = ini.render(config.ROWS, GlanceSpec(), FACTS)

    assert values[("keystone_authtoken", "password")] == PASSWORD
    assert values[("database", "connection")] == FACTS["database.url"]
    options = [line.partition(" =")[0] for line in rendered.secret.splitlines() if " = " in line]
    assert options == ["connection", "password"]
    assert not any(line.startswith(("connection =", "password =")) for line in rendered.public.splitlines())


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        (("glance-direct", "web-download"), ["glance-direct", "web-download"]),
        (("web-download",), ["web-download"]),
        ((), []),
    ],
)
def test_import_methods_reach_the_list_that_glance_reads(
    tmp_path: Path, methods: tuple[Any, ...], expected: list[str]
) -> None:
    assert read(tmp_path, GlanceSpec(import_methods=methods))[("DEFAULT", "enabled_import_methods")] == expected
