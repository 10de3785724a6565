"""Connection URLs with passwords of any kind, read back by the libraries that services use; credentials."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oslo_config import cfg

from openstack_operator.kit import credentials, database, ini, messaging, releases
from openstack_operator.kit.types import Images
from openstack_operator.runtime import errors

EVERYTHING = "$%@/#+\"':-&?=[]{} ä\\"
passwords = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)


@given(passwords)
@example(EVERYTHING)
@example("-leading")
def test_a_database_url_keeps_any_password(password: str) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    values = {"user": "nova_cell0", "password": password, "hostname": "mariadb.openstack.svc", "database": "nova_cell0"}
    found = sqlalchemy.engine.make_url(database.url(values))
    assert (found.username, found.password, found.host, found.port, found.database) == (
        "nova_cell0", password, "mariadb.openstack.svc", 3306, "nova_cell0",
    )  # fmt: skip


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"), codec="ascii"), min_size=1, max_size=30))
@example(EVERYTHING.encode("ascii", "ignore").decode())
@example('"quoted"')
@example(" blank ")
@example("#;")
def test_a_password_file_keeps_any_password_and_its_url_has_none(
    tmp_path_factory: pytest.TempPathFactory, password: str
) -> None:
    optionfile = pytest.importorskip("pymysql.optionfile")
    file = tmp_path_factory.getbasetemp() / "database.cnf"
    file.write_text(database.client_file(password))
    parser = optionfile.Parser()
    parser.read(file)
    assert parser.get("client", "password") == password
    values = {"user": "keystone", "password": password, "hostname": "mariadb.x.svc", "database": "keystone"}
    assert database.file_url(values) == (
        "mysql+pymysql://keystone@mariadb.x.svc:3306/keystone"
        "?read_default_file=/var/lib/config-data/merged/database.cnf"
    )


@given(passwords, st.sampled_from(["nova", "nova-cell1", "/", "a b"]))
@example(EVERYTHING, "nova")
def test_a_transport_url_keeps_any_password_and_lists_all_members(password: str, vhost: str) -> None:
    """Regression r27."""
    oslo_messaging = pytest.importorskip("oslo_messaging")
    values = {"user": "nova", "password": password, "hostname": "bus-0.x.svc, bus-1.x.svc", "vhost": vhost}
    found = oslo_messaging.TransportURL.parse(cfg.ConfigOpts(), messaging.url(values))
    assert found.virtual_host == vhost
    assert [(host.hostname, host.port, host.username, host.password) for host in found.hosts] == [
        ("bus-0.x.svc", 5672, "nova", password),
        ("bus-1.x.svc", 5672, "nova", password),
    ]


def test_a_url_in_a_configuration_file_needs_no_quoting_beyond_its_own() -> None:
    values = {"user": "u", "password": EVERYTHING, "hostname": "h", "database": "d"}
    row = ini.fact("database", "connection", "database.url", secret=True)
    assert ini.literal(database.url(values), row) == database.url(values)


def test_generated_passwords_are_long_plain_and_differ() -> None:
    found = {credentials.generate() for _ in range(100)}
    assert len(found) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9]{32}", one) for one in found)


def test_values_of_a_secret_survive_their_encoding() -> None:
    values = {"password": EVERYTHING, "empty": ""}
    assert credentials.decode({"data": credentials.encode(values)}) == values
    assert credentials.decode({}) == {}


def test_a_fingerprint_follows_user_and_password_alone() -> None:
    def secret(**values: str) -> dict[str, dict[str, str]]:
        return {"data": credentials.encode(values)}

    one = credentials.fingerprint(secret(user="u", password="p", hostname="h"))
    assert one == credentials.fingerprint(secret(user="u", password="p", hostname="elsewhere"))
    assert one != credentials.fingerprint(secret(user="u", password="q"))
    assert one != credentials.fingerprint(secret(user="v", password="p"))


# --- releases and images --------------------------------------------------------------------------------------------

DEFAULTS = ("localhost", "openstack.kolla")


@pytest.mark.parametrize(
    ("images", "override", "expected"),
    [
        (Images(), None, "localhost/openstack.kolla/keystone:2026.1"),
        (Images(registry="r.example:5000"), None, "r.example:5000/openstack.kolla/keystone:2026.1"),
        (Images(prefix="kolla/ubuntu"), None, "localhost/kolla/ubuntu/keystone:2026.1"),
        (Images(prefix=""), None, "localhost/keystone:2026.1"),
        (Images(registry="", prefix="kolla"), None, "kolla/keystone:2026.1"),
        (Images(tag="t"), None, "localhost/openstack.kolla/keystone:t"),
        (Images(overrides={"keystone": "x/y:z"}, tag="t"), None, "x/y:z"),
        (Images(overrides={"nova-api": "x/y:z"}), None, "localhost/openstack.kolla/keystone:2026.1"),
        (Images(overrides={"keystone": "x/y:z"}), "mine@sha256:0", "mine@sha256:0"),
    ],
)
def test_an_image_is_named_by_the_nearest_setting(images: Images, override: str | None, expected: str) -> None:
    assert releases.image(releases.load("2026.1"), "keystone", images, DEFAULTS, override) == expected


def test_every_release_that_the_schema_offers_has_a_file_and_all_files_have_the_same_keys() -> None:
    from typing import get_args

    from openstack_operator.kit import types

    assert get_args(types.ReleaseName) == releases.available()
    loaded = [releases.load(name) for name in releases.available()]
    assert len({(frozenset(one.images), frozenset(one.options)) for one in loaded}) == 1


def test_an_unknown_release_is_refused_with_the_known_ones() -> None:
    with pytest.raises(errors.Stalled) as raised:
        releases.load("1999.1")
    assert raised.value.reason == "UnknownRelease"
    assert raised.value.message.startswith("spec.openstackRelease: no 1999.1 in this operator; it has 202")
