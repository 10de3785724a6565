"""Rows of Neutron's files: fields and facts reach their options, and credentials stay in the secret part."""

from __future__ import annotations

import configparser

import pytest

from openstack_operator.kit import ini, releases
from openstack_operator.services.neutron import config
from openstack_operator.services.neutron.types import NeutronSpec

FACTS = {
    "database.url": "mysql+pymysql://neutron:dbpw@mariadb/neutron",
    "messaging.url": "rabbit://neutron:mqpw@rabbitmq:5672/neutron",
    "identity.url": "http://keystone-api.openstack.svc:5000/v3",
    "identity.public_url": "http://192.0.2.1:30500/v3",
    "service_user.user": "neutron",
    "service_user.password": "userpw",
    "cache.servers": "memcached-0:11211",
    "ovn.nb": "tcp:10.96.0.1:6641",
    "ovn.sb": "tcp:10.96.0.2:6642",
    "metadata.host": "nova-metadata.openstack.svc",
    "metadata.secret": "sharedpw",
}
SECRETS = ("dbpw", "mqpw", "userpw", "sharedpw")
ROWS = config.rows(releases.load("2026.1"))


def _options(rows: tuple[ini.Row, ...], spec: NeutronSpec) -> configparser.ConfigParser:
    rendered = ini.render(rows, spec, FACTS)
    parser = configparser.ConfigParser(interpolation=None, strict=False, default_section="none")
    parser.read_string(rendered.public + rendered.secret)
    return parser


@pytest.mark.parametrize(
    ("spec", "section", "option", "value"),
    [
        (NeutronSpec(), "ml2", "mechanism_drivers", "ovn"),
        (NeutronSpec(distributed_floating_ips=False), "ovn", "enable_distributed_floating_ip", "false"),
        (NeutronSpec(physical_network_mtu=9000), "DEFAULT", "global_physnet_mtu", "9000"),
        (NeutronSpec(vlan_ranges=("a:1:2", "b")), "ml2_type_vlan", "network_vlan_ranges", "a:1:2,b"),
        (NeutronSpec(vni_ranges=("1:9", "20:29")), "ml2_type_geneve", "vni_ranges", "1:9,20:29"),
        (NeutronSpec(region="Two"), "nova", "region_name", "Two"),
        (NeutronSpec(region="Two"), "placement", "region_name", "Two"),
        (NeutronSpec(region="Two"), "keystone_authtoken", "region_name", "Two"),
        (NeutronSpec(), "ovn", "ovn_nb_connection", "tcp:10.96.0.1:6641"),
        (NeutronSpec(), "ovn", "ovn_sb_connection", "tcp:10.96.0.2:6642"),
        (NeutronSpec(), "ml2", "project_network_types", "geneve"),
    ],
)
def test_a_field_reaches_its_option(spec: NeutronSpec, section: str, option: str, value: str) -> None:
    """Regression r32."""
    assert _options(ROWS, spec)[section][option] == value


def test_no_vlan_ranges_leave_the_option_out() -> None:
    assert not _options(ROWS, NeutronSpec()).has_section("ml2_type_vlan")


@pytest.mark.parametrize("rows", [ROWS, config.AGENT_ROWS])
def test_credentials_stand_in_the_secret_part_only(rows: tuple[ini.Row, ...]) -> None:
    public = ini.render(rows, NeutronSpec(), FACTS).public
    assert [word for word in SECRETS if word in public] == []


def test_the_agent_knows_no_password_but_the_shared_one() -> None:
    rendered = ini.render(config.AGENT_ROWS, NeutronSpec(), FACTS)
    text = rendered.public + rendered.secret
    assert [word for word in SECRETS if word in text] == ["sharedpw"]


def test_every_privileged_context_of_the_agent_starts_without_sudo() -> None:
    options = _options(config.AGENT_ROWS, NeutronSpec())
    command = "privsep-helper --config-file /var/lib/config-data/merged/neutron-ovn-agent.ini"
    assert {name: options[name]["helper_command"] for name in config.PRIVSEP_SECTIONS} == dict.fromkeys(
        config.PRIVSEP_SECTIONS, command
    )
