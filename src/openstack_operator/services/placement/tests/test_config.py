"""placement.conf: what a service reads from the two parts that the operator writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oslo_config import cfg

from openstack_operator.kit import ini
from openstack_operator.services.placement import config
from openstack_operator.services.placement.types import PlacementSpec

FACTS: dict[str, Any] = {
    "database.url": "mysql+pymysql://placement:p%24w@mariadb.cloud.svc:3306/placement",
    "cache.servers": "memcached-0.memcached.cloud.svc:11211",
    "identity.url": "http://keystone-api.cloud.svc:5000/v3",
    "identity.public_url": "http://192.0.2.1:30500/v3",
    "service_user.user": "placement",
    "service_user.password": "x$$y ",
}


def test_the_api_reads_its_database_and_its_login(tmp_path: Path) -> None:
    rendered = ini.render(config.ROWS, PlacementSpec(region="north"), FACTS)
    file = tmp_path / "placement.conf"
    file.write_text(f"{rendered.public}\n{rendered.secret}\n")
    conf = cfg.ConfigOpts()
    for section, option in {(row.section, row.option) for row in config.ROWS}:
        conf.register_opt(cfg.StrOpt(option), group=None if section == "DEFAULT" else section)
    conf([], default_config_files=[str(file)])

    assert conf.placement_database.connection == FACTS["database.url"]
    assert conf.keystone_authtoken.password == FACTS["service_user.password"]
    assert conf.keystone_authtoken.region_name == "north"
    assert conf.keystone_authtoken.service_type == "placement"
    assert conf.api.auth_strategy == "keystone"


def test_credentials_stand_in_the_secret_part_alone() -> None:
    rendered = ini.render(config.ROWS, PlacementSpec(), FACTS)
    options = [line.partition(" =")[0] for line in rendered.secret.splitlines() if " = " in line]

    assert options == ["connection", "password"]
    assert not any(line.startswith(("connection =", "password =")) for line in rendered.public.splitlines())
