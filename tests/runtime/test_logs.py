"""What log lines hold, in both formats and from both kinds of loggers. In a process of its own: it is global."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import logging, sys
from openstack_operator.runtime import logs
logs.configure("info", sys.argv[1])
log = logs.get("test").bind(kind="Toy")
log.info("said", number=1)
log.debug("not said")
logging.getLogger("aiohttp").warning("from a library %d", 2)
password = "hunter2"
try:
    raise ZeroDivisionError("oops")
except ZeroDivisionError:
    log.exception("failed")
"""


def lines(form: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM, form], check=True, capture_output=True, text=True)
    assert done.stdout == ""
    return done.stderr


def test_json_lines_have_their_data_in_keys() -> None:
    said, foreign, failed = [json.loads(line) for line in lines("json").splitlines()]
    assert said.pop("timestamp").endswith("Z")
    assert said == {"event": "said", "level": "info", "component": "test", "kind": "Toy", "number": 1}
    assert (foreign["event"], foreign["level"], foreign["logger"]) == ("from a library 2", "warning", "aiohttp")
    assert failed["exception"].endswith("ZeroDivisionError: oops")


@pytest.mark.parametrize("form", ["json", "human"])
def test_a_traceback_shows_no_values_of_variables(form: str) -> None:
    text = lines(form)
    assert "ZeroDivisionError: oops" in text
    assert "hunter2" not in text
