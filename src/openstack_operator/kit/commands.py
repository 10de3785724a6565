"""Several commands of one Python program for the price of one start.

Importing an OpenStack program costs one to three CPU seconds, far more than most of its commands take. The script below
imports it once and forks for each command; Jobs mount it with their other scripts (``SCRIPTS``).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from openstack_operator.kit import config, first_sync

NAME = "commands.py"

SCRIPT = '''\
"""usage: commands.py MODULE:FUNCTION '[{"argv": […], "files": {"NAME": "/path"}, "ok": [0]}, …]' FILE SECTION

Imports the program once and forks for each command. "files" become environment variables of that command alone, set
after the fork, so that a password is seen neither in a command line nor in /proc/PID/environ. FILE and SECTION are
where the configuration names the schema that the commands fill.
"""
import importlib
import json
import os
import sys
import traceback

import first_sync

module, _, function = sys.argv[1].partition(":")
commands = json.loads(sys.argv[2])
program = getattr(importlib.import_module(module), function)
first_sync.begin(*sys.argv[3:])
for command in commands:
    print("running:", *command["argv"], flush=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for name, path in command.get("files", {}).items():
                with open(path) as file:
                    os.environ[name] = file.read()
            sys.argv = command["argv"]
            code = program() or 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else (0 if end.code is None else 1)
            if code and not isinstance(end.code, int):
                print(end.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in command.get("ok", [0]):
        # What the program said last becomes the pod's message, so nothing is added to it.
        sys.exit(code if code > 0 else f"{command['argv'][0]} was ended by signal {-code}")
first_sync.end(*sys.argv[3:])
'''

SCRIPTS: Mapping[str, str] = {NAME: SCRIPT, first_sync.NAME: first_sync.SCRIPT}


@dataclasses.dataclass(frozen=True)
class Command:
    """One command: program name and arguments; ``files``: environment variable to file; ``ok``: good exit codes."""

    argv: tuple[str, ...]
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ok: tuple[int, ...] = (0,)


def line(program: str, *commands: Command, conf: str, section: str = "database") -> tuple[str, ...]:
    """The container's command; ``program`` is ``module:function`` of the console script, ``conf`` and ``section`` are
    where the connection of the schema stands that the commands fill."""
    plan = [{"argv": one.argv, "files": dict(one.files), "ok": one.ok} for one in commands]
    return ("python3", f"{config.SCRIPTS}/{NAME}", program, json.dumps(plan), conf, section)
