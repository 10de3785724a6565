"""Files of the Job that brings schemas up to date and registers cells."""

from __future__ import annotations

import json
from collections.abc import Iterable

from openstack_operator.kit import ini
from openstack_operator.services.nova import rows

AMQP_PORT = 5672
CELLS = "cells.json"
CELLS_NAME = "cells.py"
NO_CELLS = "-"
"""In the place of the file with the cells: they stay as they are."""
REMOVAL_NAME = "remove.py"
UPGRADE_CHECK_NAME = "upgrade_check.py"

TOP_ROWS = (
    *rows.BASE,
    *rows.LOCKS,
    *rows.API_DATABASE,
    *rows.CELL_DATABASE,
    ini.fact("DEFAULT", "transport_url", "messaging.url", secret=True),
)

SERVICE_ROWS = (*TOP_ROWS, *rows.CLIENTS)
"""Of the Jobs that speak to other services as well: the one that takes a cell out, and the upgrade check."""


def cell_rows(cell: str) -> tuple[ini.Row, ...]:
    """The file of one cell: what its mapping says."""
    return (
        *rows.BASE,
        *rows.LOCKS,
        *ini.database("database", f"cells.{cell}.database"),
        ini.fact("DEFAULT", "transport_url", f"cells.{cell}.messaging.url", secret=True),
    )


def cell_file(cell: str) -> str:
    return f"cell-{cell}.conf"


def cells(names: Iterable[str]) -> str:
    """What the script reads: cells and their files."""
    return json.dumps({name: cell_file(name) for name in sorted(names)})


SCRIPT = '''\
"""usage: cells.py NOVA_CONF CELLS_JSON|- [CELL/HOST...]

Brings the schemas of the API, of cell0 and of every cell up to date, all at the same time, then makes the mappings of
the cells say what the files say, and those of the hosts what the command says; with - those of the hosts alone. Can be
repeated. Connections come from files alone, so that no password is seen in a command line. Nova is imported once; each
task is a fork.
"""
import json
import os
import sys
import traceback
from uuid import uuid4

# First: it chooses how Nova runs threads, which whatever is imported before would have chosen otherwise.
from nova.cmd import manage

import first_sync
from nova import config, context, objects
from oslo_config import cfg

TOP, PLAN, *HOSTS = sys.argv[1:]
FOLDER = os.path.dirname(PLAN)


def start(name, function, *arguments):
    child = os.fork()
    if child:
        return name, child
    code = 1
    try:
        code = function(*arguments) or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr, flush=True)
    except BaseException:
        traceback.print_exc()
    finally:
        print(f"{name}: {'done' if code == 0 else f'failed ({code})'}", flush=True)
        sys.stderr.flush()
        os._exit(code)


def finish(children):
    failed = [name for name, child in children if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def nova_manage(file, *arguments):
    sys.argv = ["nova-manage", "--config-file", file, *arguments]
    return manage.main()


def sync(file, section, *arguments):
    first_sync.begin(file, section)
    code = nova_manage(file, *arguments) or 0
    if code == 0:
        first_sync.end(file, section)
    return code


def connections(file):
    """URLs of database and message bus as a file has them."""
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("transport_url")])
    conf.register_opts([cfg.StrOpt("connection")], "database")
    conf([], project="nova", default_config_files=[file], default_config_dirs=[])
    return conf.database.connection, conf.transport_url


def connect():
    config.parse_args(["nova-manage", "--config-file", TOP])
    objects.register_all()
    return context.get_admin_context()


def register(cells):
    admin = connect()
    known = list(objects.CellMappingList.get_all(admin))

    def ensure(name, found, uuid, database, bus):
        if found is None:
            mapping = objects.CellMapping(
                admin, uuid=uuid, name=name, database_connection=database, transport_url=bus
            )
            mapping.create()
            print(f"cell {name} {mapping.uuid}: registered", flush=True)
        elif (found.database_connection, found.transport_url, found.name) != (database, bus, name):
            found.database_connection, found.transport_url, found.name = database, bus, name
            found.save()
            print(f"cell {name} {found.uuid}: changed", flush=True)
        else:
            print(f"cell {name} {found.uuid}: unchanged", flush=True)

    cell0 = objects.CellMapping.CELL0_UUID
    ensure("cell0", next((one for one in known if one.uuid == cell0), None), cell0, connections(TOP)[0], "none:///")
    for name, file in cells.items():
        # The database compares names without regard to case; here they are compared exactly.
        found = [one for one in known if one.name == name and one.uuid != cell0]
        ensure(name, found[0] if found else None, str(uuid4()), *connections(os.path.join(FOLDER, file)))
    map_hosts(admin)


def map_hosts(admin):
    cell0 = objects.CellMapping.CELL0_UUID
    cells = {one.name: one for one in objects.CellMappingList.get_all(admin) if one.uuid != cell0}
    known = {one.host: one for one in objects.HostMappingList.get_all(admin)}
    for name, host in (one.split("/", 1) for one in HOSTS):
        cell, found = cells[name], known.get(host)
        if found is None:
            objects.HostMapping(admin, host=host, cell_mapping=cell).create()
            print(f"host {host}: mapped to cell {name}", flush=True)
        elif found.cell_mapping.uuid == cell.uuid:
            print(f"host {host}: unchanged", flush=True)
        else:
            before = found.cell_mapping
            with context.target_cell(admin, before) as old:
                servers = objects.InstanceList.get_uuids_by_host(old, host)
            if servers:
                sys.exit(
                    f"host {host} has {len(servers)} servers of cell {before.name} and now belongs to cell {name}: "
                    "move or delete them, or let the node have its old labels"
                )
            found.cell_mapping = cell
            found.save()
            print(f"host {host}: mapped to cell {name} instead of {before.name}", flush=True)


if PLAN == "-":
    map_hosts(connect())
    sys.exit()
with open(PLAN) as plan:
    cells = json.load(plan)
tasks = [
    start("schema of the API", sync, TOP, "api_database", "api_db", "sync"),
    start("schema of cell0", sync, TOP, "database", "db", "sync", "--local_cell"),
]
tasks += [
    start(f"schema of {name}", sync, os.path.join(FOLDER, file), "database", "db", "sync", "--local_cell")
    for name, file in cells.items()
]
finish(tasks)
finish([start("registration", register, cells)])
'''

REMOVAL_SCRIPT = '''\
"""usage: remove.py NOVA_CONF CELL MODE [HOST...]

MODE check: says what is in a cell: servers, and hosts that work and are not among the cell's own, which are named.
MODE remove: takes the cell out of Nova when no server is in it. MODE force: takes it out whatever is in it.
The answer is the termination message: "gone", or what was found as JSON. Can be repeated.
"""
import json
import sys

# First: it chooses how Nova runs threads, which whatever is imported before would have chosen otherwise.
from nova.cmd import manage  # noqa: F401

from nova import config, context, objects, servicegroup
from nova.objects import aggregate
from nova.scheduler.client import report
from oslo_db import exception

FILE, CELL, MODE, *OWN = sys.argv[1:]
LISTED = 10
BATCH = 1000

config.parse_args(["nova-manage", "--config-file", FILE])
objects.register_all()
admin = context.get_admin_context()


def answer(text):
    print(text, flush=True)
    with open("/dev/termination-log", "w") as file:
        file.write(text)
    sys.exit()


def take_out(cell, nodes, servers):
    placement = report.report_client_singleton()
    for server in servers:
        placement.delete_allocation_for_instance(cell, server.uuid, force=True)
    for node in nodes:
        url = f"/resource_providers/{node.uuid}"
        # The client cannot delete one that is gone, and keeps quiet about one that it could not delete.
        if placement.get(url).status_code != 404:
            placement.delete_resource_provider(cell, node, cascade=True)
        if placement.get(url).status_code != 404:
            sys.exit(f"the resource provider {node.uuid} of host {node.host} cannot be deleted from Placement")


mapping = [
    one
    for one in objects.CellMappingList.get_all(admin)
    # The database compares names without regard to case; here they are compared exactly.
    if one.name == CELL and one.uuid != objects.CellMapping.CELL0_UUID
]
if not mapping:
    answer("gone")
mapping = mapping[0]
try:
    with context.target_cell(admin, mapping) as cell:
        servers = list(objects.InstanceList.get_all(cell))
        up = servicegroup.API()
        foreign = [
            one.host
            for one in objects.ServiceList.get_by_binary(cell, "nova-compute", include_disabled=True)
            if one.host not in OWN and up.service_is_up(one)
        ]
        found = {
            "servers": [(one.uuid, one.display_name or "") for one in servers[:LISTED]],
            "count": len(servers),
            "hosts": sorted(foreign)[:LISTED] if MODE == "check" else [],
        }
        if MODE != "force" and (found["servers"] or found["hosts"]):
            answer(json.dumps(found))
        if MODE == "check":
            answer("gone")
        take_out(cell, list(objects.ComputeNodeList.get_all(cell)), servers)
except exception.DBError as problem:
    if MODE != "force":
        raise
    # A database that is lost is a reason to force the removal; what stands in Placement cannot be known then.
    print(f"the database of the cell does not answer: {problem}", file=sys.stderr, flush=True)

for host in objects.HostMappingList.get_by_cell_id(admin, mapping.id):
    for group in objects.AggregateList.get_by_host(admin, host.host):
        aggregate._host_delete_from_db(admin, group.id, host.host)
    host.destroy()
uuids = [one.instance_uuid for one in objects.InstanceMappingList.get_by_cell_id(admin, mapping.id)]
for start in range(0, len(uuids), BATCH):
    batch = uuids[start : start + BATCH]
    objects.InstanceGroup.destroy_members_bulk(admin, batch)
    objects.RequestSpec.destroy_bulk(admin, batch)
    objects.InstanceMappingList.destroy_bulk(admin, batch)
mapping.destroy()
answer("gone")
'''

UPGRADE_CHECK_SCRIPT = '''\
"""usage: upgrade_check.py NOVA_CONF

Runs `nova-status upgrade check`. Its verdicts are the termination message: a list of name, verdict and details of each
check. A check that cannot be made (a database that does not answer) is no verdict: the program fails.
"""
import json
import sys

# First: it chooses how Nova runs threads.
from nova.cmd import status

from nova import config

LONGEST = 400
"""A termination message has 4096 bytes."""

found = []


def noting(name, function, arguments):
    def check(commands):
        result = function(commands, **arguments)
        found.append((str(name), result.code.name.capitalize(), str(result.details or "").strip()[:LONGEST]))
        return result

    return check


class Commands(status.UpgradeCommands):
    _upgrade_checks = tuple(
        (name, noting(name, *(check if isinstance(check, tuple) else (check, {}))))
        for name, check in status.UpgradeCommands._upgrade_checks
    )


config.parse_args(["nova-status", "--config-file", sys.argv[1]])
# Shows the table that people know.
Commands().check()
with open("/dev/termination-log", "w") as file:
    json.dump(found, file)
'''
