"""Passwords of every character: what the service, the database and the message bus read is what the Secret holds."""

from __future__ import annotations

import configparser
import json
import string
from pathlib import Path
from typing import Any

import hypothesis
import pydantic
import pymysql.converters
import pytest
from hypothesis import strategies
from oslo_config import cfg
from paper import Paper, read

from openstack_operator.kit import credentials, database, ini, messaging, names
from openstack_operator.kit.types import DatabaseRequest, VhostRequest
from openstack_operator.services import SERVICES
from openstack_operator.services.nova import removal
from openstack_operator.services.nova.parts import CellName
from openstack_operator.services.rabbitmq import config as rabbitmq

# Judges that are no dependency of the operator itself.
sqlalchemy = pytest.importorskip("sqlalchemy")
alembic_config = pytest.importorskip("alembic.config")
oslo_messaging = pytest.importorskip("oslo_messaging")

URL_PASSWORD = "p@s:s/w?o#r,d&+[x]%20"
SQL_PASSWORD = "q\"w'e`r\\t$(id)!{u};--"
PASSWORDS = (
    "Zq$my_ip7",
    "a$b",
    "end$",
    "x${y}z",
    "two$$signs",
    "$",
    "50%off%(x)s",
    URL_PASSWORD,
    SQL_PASSWORD,
    "abc#123",
    "-leading",
    "; not a comment",
    "# not a comment",
    '"quoted"',
    "'",
    '"',
    " blanks around ",
    "tab\tinside",
    "[section]",
    "a=b:c",
    "ünïcödé 密码",
    "{{ jinja }}",
    "a\\$b",
)


def values(password: str) -> dict[str, str]:
    return {"user": "nova_cell1", "password": password, "hostname": "db.cloud.svc", "database": "d", "vhost": "cell1"}


async def read_password(directory: Path, password: str) -> str:
    paper = Paper(facts={"secret": password})
    # Names of options that a careless substitution would find.
    await paper.write(rows=(ini.fixed("DEFAULT", "my_ip", "192.0.2.1", ""), ini.fact("a", "p", "secret", secret=True)))
    options = {"DEFAULT": [cfg.StrOpt("my_ip"), cfg.StrOpt("b"), cfg.StrOpt("y")], "a": [cfg.StrOpt("p")]}
    return str(read(paper.merge(directory), options).a.p)


@pytest.mark.parametrize("password", PASSWORDS)
async def test_a_service_reads_the_password_that_the_secret_holds(tmp_path: Path, password: str) -> None:
    """Case 6, case 7, case 64. Regression r87."""
    assert await read_password(tmp_path, password) == password


PRINTABLE = strategies.text(strategies.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)


@hypothesis.settings(
    max_examples=200, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(text=PRINTABLE)
def test_any_text_without_control_characters_is_read_back(tmp_path: Path, text: str) -> None:
    """Case 6: the whole kind, not only the reported ones."""
    row = ini.fact("a", "p", "secret", secret=True)
    file = tmp_path / "service.conf"
    file.write_bytes(ini.render((row,), None, {"secret": text}).secret.encode())

    assert read(file, {"a": [cfg.StrOpt("p")]}).a.p == text


def test_a_line_break_in_a_value_is_refused_with_the_option_and_without_the_value() -> None:
    """Case 6: no line of a file can hold it."""
    row = ini.fact("keystone_authtoken", "password", "service_user.password", secret=True)

    with pytest.raises(ini.errors.Stalled) as raised:
        ini.render((row,), None, {"service_user.password": "leak-me\n123"})

    assert raised.value.message == ("[keystone_authtoken] password (fact service_user.password) contains a line break")


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_database_url_gives_sqlalchemy_the_password(password: str) -> None:
    """Case 27, case 7: encoded once."""
    url = sqlalchemy.engine.make_url(database.url(values(password)))

    assert (url.username, url.password, url.host, url.port, url.database) == (
        "nova_cell1",
        password,
        "db.cloud.svc",
        3306,
        "d",
    )


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_database_url_survives_the_migrations_of_alembic(password: str) -> None:
    """Case 7: the services double the percent sign for it; a URL that they read must stay the same through that."""
    url = database.url(values(password))
    config = alembic_config.Config()
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))

    assert config.get_main_option("sqlalchemy.url") == url


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_transport_url_gives_oslo_messaging_the_password_of_every_member(password: str) -> None:
    """Case 27, case 71: every member with the same credentials."""
    members = ["mq-0.mq.cloud.svc", "mq-1.mq.cloud.svc", "mq-2.mq.cloud.svc"]
    text = messaging.url(values(password) | {"hostname": ",".join(members)})
    conf = cfg.ConfigOpts()
    conf([])
    url = oslo_messaging.TransportURL.parse(conf, text)

    assert [(host.hostname, host.port, host.username, host.password) for host in url.hosts] == [
        (member, 5672, "nova_cell1", password) for member in members
    ]
    assert url.virtual_host == "cell1"


def test_a_plus_sign_stays_one() -> None:
    """Case 27: quote, never quote_plus."""
    assert ":a%2Bb%20c@" in database.url(values("a+b c"))
    assert ":a%2Bb%20c@" in messaging.url(values("a+b c"))


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_url_is_read_from_the_file_as_it_was_made(password: str) -> None:
    """Case 27: percent-encoding first, then the file's own rules: none of the two undoes the other."""
    url = database.url(values(password))
    row = ini.fact("database", "connection", "database.url", secret=True)

    assert ini.literal(url, row) == url, "an encoded URL has nothing left that the file would change"


@pytest.mark.parametrize("password", PASSWORDS)
def test_the_administrator_of_rabbitmq_gets_the_password_through_json(password: str) -> None:
    """Case 64: no default_pass line, in which '#' begins a comment."""
    imported = json.loads(rabbitmq.definitions("user_@#$%", password))

    assert [(user["name"], user["password"]) for user in imported["users"]] == [("user_@#$%", password)]
    assert "default_pass" not in rabbitmq.CONF


def test_sql_text_with_the_root_password_cannot_be_broken_out_of() -> None:
    """Case 28: the server's own rules of quoting, as PyMySQL knows them."""
    from openstack_operator.services.mariadb import config as mariadb

    literal = "'" + pymysql.converters.escape_string(SQL_PASSWORD).replace('\\"', '"') + "'"

    assert mariadb.init_sql(SQL_PASSWORD).count(f"IDENTIFIED BY {literal};") == 3


def test_generated_passwords_need_no_quoting_anywhere_and_fit_every_limit() -> None:
    """Case 34: bcrypt takes 72 bytes."""
    made = {credentials.generate() for _ in range(200)}

    assert len(made) == 200
    assert {len(password) for password in made} == {32}
    assert {letter for password in made for letter in password} <= set(string.ascii_letters + string.digits)


@pytest.mark.parametrize("part", ["api", "cell0", "c" * 16, "c" * 14 + "-c"])
def test_names_of_schemas_and_of_their_users_fit_the_servers(part: str) -> None:
    """Case 34, case 68: MariaDB takes 80 characters in a user name and 64 in a schema's, and the entry of the list that
    asks for it no more. The longest names that admission lets through have to fit."""
    longest = [kind.max_name_length for service in SERVICES for kind in service.kinds if kind.max_name_length]
    nova = "n" * max(longest)
    schemas = [names.schema("s" * max(longest)), removal.schema(nova, part)]
    vhosts = [nova, removal.vhost(nova, pydantic.TypeAdapter(CellName).validate_python(part))]
    secret = {"secretRef": {"name": "s"}}

    assert len(longest) == sum(len(service.kinds) for service in SERVICES), "a kind has names of any length"
    assert [DatabaseRequest.model_validate({"name": one} | secret).name for one in schemas] == schemas
    assert [VhostRequest.model_validate({"name": one} | secret).name for one in vhosts] == vhosts
    assert max(map(len, schemas)) <= 64


def test_percent_signs_of_users_are_no_interpolation_in_the_servers_configuration() -> None:
    """Case 7: whoever reads our files with configparser must not interpolate; what we write ourselves has none."""
    from openstack_operator.services.glance import resources

    parser = configparser.ConfigParser(strict=False)
    parser.read_string(resources.uwsgi())

    assert dict(parser["uwsgi"])["module"] == "glance.wsgi.api:application"


def secret(data: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"namespace": "cloud", "name": "mine"}, "data": data}


def test_a_fingerprint_tells_passwords_apart_and_does_not_show_them() -> None:
    """Case 128: it stands in status for everybody to read."""
    one = credentials.fingerprint(secret(credentials.encode({"user": "a", "password": "leak-me-123"})))
    other = credentials.fingerprint(secret(credentials.encode({"user": "a", "password": "leak-me-124"})))

    assert one != other
    assert "leak" not in one
    assert credentials.encode({"password": "leak-me-123"})["password"] not in one
