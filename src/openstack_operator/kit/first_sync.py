"""The first migrations of a service's schema, again from nothing when they were cut off.

MariaDB commits each CREATE and ALTER TABLE by itself, and the migrations of OpenStack's services do not expect what a
run left behind that ended halfway, with its pod, its node or the database: each later one fails with "Table ... already
exists". A schema that was empty gets a mark before its first migrations and loses it after the last one. One that still
has it was used by nobody, so that its tables may go. Nothing is touched in a schema without the mark: one in use, one
whose data was kept or restored, one that somebody else has filled. What an upgrade of one in use leaves when it is cut
off is not mended here: its data is worth more than a way on (docs/adr/0009-first-migrations.md).

The scripts of Jobs import it beside them (``commands``, Nova's ``cells.py``); it needs SQLAlchemy and oslo.config,
which every service has.
"""

from __future__ import annotations

NAME = "first_sync.py"

MARK = "openstack_operator_first_sync"
"""The table that is the mark."""

SCRIPT = f'''\
import sqlalchemy
from oslo_config import cfg

MARK = "{MARK}"


def engine(file, section):
    """Of the connection that a section of a configuration file names."""
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("connection")], section)
    conf([], project="first-sync", default_config_files=[file], default_config_dirs=[])
    return sqlalchemy.create_engine(conf[section].connection, poolclass=sqlalchemy.pool.NullPool)


def begin(file, section):
    """Marks an empty schema, and empties a marked one."""
    with engine(file, section).begin() as connection:
        run = connection.exec_driver_sql
        tables = [row[0] for row in run("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")]
        if not tables:
            run(f"CREATE TABLE {{MARK}} (since TIMESTAMP)")
        elif MARK in tables and len(tables) > 1:
            print(f"dropping {{len(tables) - 1}} tables of a first run that was cut off", flush=True)
            run("SET FOREIGN_KEY_CHECKS = 0")
            for table in tables:
                if table != MARK:
                    run(f"DROP TABLE `{{table}}`")


def end(file, section):
    """The schema is as it should be."""
    with engine(file, section).begin() as connection:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {{MARK}}")
'''
