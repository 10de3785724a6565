"""The SQL that the controller runs as root. Blocking (PyMySQL): called in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pymysql
from pymysql.cursors import Cursor

from openstack_operator.runtime import errors
from openstack_operator.services.mariadb.config import CHARACTER_SET, COLLATION, PORT


@contextlib.contextmanager
def session(host: str, password: str) -> Iterator[Cursor]:
    """A cursor as root. Raises ``errors.Unavailable`` when the server cannot be used, never with a password in it."""
    try:
        connection = pymysql.connect(
            host=host, port=PORT, user="root", password=password, connect_timeout=5, read_timeout=15, autocommit=True
        )
    except (pymysql.MySQLError, OSError) as problem:
        raise errors.Unavailable("DatabaseUnreachable", f"MariaDB {host}:{PORT}: {_plain(problem)}") from None
    try:
        with connection.cursor() as cursor:
            yield cursor
    except pymysql.MySQLError as problem:
        raise errors.Unavailable("DatabaseError", f"MariaDB {host}:{PORT}: {_plain(problem)}") from None
    finally:
        connection.close()


def _plain(problem: BaseException) -> str:
    # A syntax error quotes the statement, which holds a password: only code and class are told.
    code = problem.args[0] if problem.args else ""
    if isinstance(problem, pymysql.err.ProgrammingError):
        return f"{type(problem).__name__} {code}"
    return f"{type(problem).__name__} {problem.args[1] if len(problem.args) > 1 else problem}"


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def grant(cursor: Cursor, schema: str, user: str, password: str) -> None:
    """Makes schema and user where they are missing, and sets password and rights."""
    cursor.execute(f"CREATE DATABASE IF NOT EXISTS {_name(schema)} CHARACTER SET {CHARACTER_SET} COLLATE {COLLATION}")
    cursor.execute("CREATE USER IF NOT EXISTS %s@'%%' IDENTIFIED BY %s", (user, password))
    cursor.execute("ALTER USER %s@'%%' IDENTIFIED BY %s", (user, password))
    cursor.execute(f"GRANT ALL PRIVILEGES ON {_name(schema)}.* TO %s@'%%'", (user,))


def drop(cursor: Cursor, schema: str, user: str) -> None:
    """Drops schema and user; both may be gone already."""
    cursor.execute(f"DROP DATABASE IF EXISTS {_name(schema)}")
    cursor.execute("DROP USER IF EXISTS %s@'%%'", (user,))
