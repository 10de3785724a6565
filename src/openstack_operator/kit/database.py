"""A service's database: its credentials, the request to MariaDB, the connection URL as a fact."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import config, credentials, kinds, names, requests, storage, verified
from openstack_operator.kit.types import SecretKeyRef
from openstack_operator.runtime import errors
from openstack_operator.runtime.controller import Scope

FIELD = "databases"
CLIENT_FILE = "database.cnf"
"""Whole secret file of a service whose connection URL must not hold a password (``client_file``)."""


def url(values: Mapping[str, str]) -> str:
    """SQLAlchemy URL of a database Secret (user, password, hostname, port, database)."""
    user, password = (urllib.parse.quote(values[key], safe="") for key in ("user", "password"))
    return f"mysql+pymysql://{user}:{password}@{values['hostname']}:{values.get('port', '3306')}/{values['database']}"


def file_url(values: Mapping[str, str]) -> str:
    """The URL without a password, which the client reads from ``CLIENT_FILE``."""
    address = f"{values['hostname']}:{values.get('port', '3306')}"
    return f"mysql+pymysql://{values['user']}@{address}/{values['database']}?read_default_file={config.MERGED}/{CLIENT_FILE}"


def client_file(password: str) -> str:
    """``CLIENT_FILE`` as PyMySQL reads it: outer quotes go, everything between them is meant."""
    return f'[client]\npassword = "{password}"\n'


async def ensure(
    scope: Scope[Any],
    service: str,
    mariadb: str,
    schema: str,
    *,
    supplied: SecretKeyRef | None = None,
    secret: str = "",
    fact: str = "database",
) -> str:
    """Makes the Secret and the database; returns the Secret's name.

    Sets ``<fact>.url``, ``<fact>.secret``, and for clients with a password file ``<fact>.file_url`` and
    ``<fact>.password``.

    Raises ``errors.Waiting`` until MariaDB has set up both the schema and the user with this password, and
    ``errors.Stalled`` for a password that clients could not send.
    """
    item = requests.server(scope, kinds.MARIADB, mariadb)
    secret = secret or names.database_secret(scope.name)
    password = await credentials.password(scope, secret, supplied, "spec.credentials.database")
    if supplied is not None and not password.isascii():
        # PyMySQL sends passwords in Latin-1, whatever the connection's character set is: no login would succeed.
        raise errors.Stalled(
            "SecretInvalid",
            f"spec.credentials.database: Secret {supplied.name}: key {supplied.key!r} "
            "holds a character that is not ASCII",
        )
    values = {
        # MariaDB allows 80 characters in a user name, and the schema's name is unique in the server already.
        "user": schema,
        "password": password,
        "hostname": names.dns(item["metadata"]["name"], scope.namespace),
        "port": "3306",
        "database": schema,
    }
    await credentials.ensure(scope, secret, service, values)
    scope.facts[f"{fact}.url"] = url(values)
    scope.facts[f"{fact}.file_url"] = file_url(values)
    scope.facts[f"{fact}.password"] = password
    scope.facts[f"{fact}.secret"] = secret
    # Another server starts with nothing in it: Jobs that fill the schema run again (kit/jobs).
    scope.facts[f"{fact}.server"] = item["metadata"]["uid"]
    await requests.ask(scope, kinds.MARIADB, mariadb, FIELD, {"name": schema, "secretRef": {"name": secret}})
    return secret


async def drop(scope: Scope[Any], mariadb: str, schema: str) -> None:
    """For finalizers: the schema and its user go, unless the whole server goes."""
    item = scope.get(kinds.MARIADB, mariadb)
    if item is not None and any(one["name"] == schema for one in item.get("status", {}).get(FIELD, [])):
        verified.note(scope, f"stands {schema}", item["metadata"]["uid"])
    await requests.withdraw(scope, kinds.MARIADB, mariadb, FIELD, schema)


def is_kept(scope: Scope[Any], mariadb: str, schema: str) -> bool:
    """Whether a schema may be there again one day, after ``drop``: nobody saw the server drop it, and the server's
    volume outlives the server."""
    item = scope.get(kinds.MARIADB, mariadb)
    if item is None or "deletionTimestamp" in item["metadata"]:
        return storage.is_retained(scope, mariadb)
    # Only what stood in this server was dropped by it. One that has not come up yet over a volume of an earlier one
    # says nothing of what is in there.
    is_dropped = verified.is_current(scope, f"stands {schema}", item["metadata"]["uid"])
    return not is_dropped and storage.is_retained(scope, mariadb)
