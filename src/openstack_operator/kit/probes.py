"""How kubelet sees whether a container has started, takes requests, and still answers.

A handler says how to look (``http``, ``tcp``, ``command``, ``greeting``, ``connected``); ``of`` says how often.
``greeted`` waits, and belongs before the end of a container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A new pod is looked at often until it serves; from then on rarely, because each look costs CPU. A command in a
# container is the dearest kind of look, and many pods start at once. Most of the 45 ms of CPU time that it costs is its
# start: so it begins when something can be there, and then looks for a while. Later it is no more seldom than others. A
# kubelet asks for the first look at readiness in the moment in which the start is over, and may find that it is not:
# its worker reads a status that is written right after. Then a whole period passes until the next look. With one of
# 30 s, that happened to nova-compute in one of five bring-ups.
STARTUP_SECONDS = 300
STARTUP_PERIOD, STARTUP_EXEC_PERIOD, STARTUP_EXEC_DELAY = 1, 8, 2
LOOK_FOR_A_WHILE = (
    f'for _ in {" ".join(map(str, range(8)))}; do said=$("$@") && exit; sleep 1; done; echo "$said"; exit 1'
)
READINESS_PERIOD = 10
LIVENESS_PERIOD = 30
# What has not answered for minutes will not end by itself either.
HUNG_GRACE_SECONDS = 30
ANSWER_SECONDS = 3


def of(
    start: Mapping[str, Any] | None,
    readiness: Mapping[str, Any] | None = None,
    liveness: Mapping[str, Any] | None = None,
    timeout: int = 10,
    *,
    only_start: bool = False,
) -> dict[str, Any]:
    """The probes of a container, by these handlers: ``start`` is for readiness too unless that has one of its own, or
    ``only_start``. ``timeout`` in seconds."""

    def probe(handler: Mapping[str, Any], period: int, failures: int) -> dict[str, Any]:
        return {**handler, "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": timeout}

    body: dict[str, Any] = {}
    if start and "exec" in start:
        often = command("sh", "-c", LOOK_FOR_A_WHILE, "sh", *start["exec"]["command"])
        startup = probe(often, STARTUP_EXEC_PERIOD, STARTUP_SECONDS // STARTUP_EXEC_PERIOD + 1)
        body["startupProbe"] = startup | {"initialDelaySeconds": STARTUP_EXEC_DELAY}
    elif start:
        body["startupProbe"] = probe(start, STARTUP_PERIOD, STARTUP_SECONDS // STARTUP_PERIOD)
    if start and not only_start:
        # What waits for an answer is patient in itself.
        body["readinessProbe"] = probe(readiness or start, READINESS_PERIOD, 2 if readiness else 3)
    if liveness:
        alive = probe(liveness, LIVENESS_PERIOD, 6)
        body["livenessProbe"] = alive | {"terminationGracePeriodSeconds": HUNG_GRACE_SECONDS}
    return body


def http(path: str, port: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": port, "scheme": "HTTP"}}


def tcp(port: int) -> dict[str, Any]:
    return {"tcpSocket": {"port": port}}


def command(*words: str) -> dict[str, Any]:
    return {"exec": {"command": list(words)}}


def greeting(port: int, then: str = "exit") -> dict[str, Any]:
    """For servers that speak first, such as MariaDB: the kernel takes connections for one that hangs, but greets
    nobody. The shell's own means, because a client program costs several times as much. ``then`` is what bash does
    when it was greeted."""
    script = (
        f"if {_hear(port)}; then {then}; exit; fi; echo port {port} does not answer within {ANSWER_SECONDS} s; exit 1"
    )
    return command("bash", "-c", script)


def greeted(port: int) -> dict[str, Any]:
    """Waits until the server that speaks first has greeted somebody: for what has to have started before it is told to
    finish."""
    return command("bash", "-c", f"until ({_hear(port)}) 2> /dev/null; do sleep 0.1; done")


def _hear(port: int) -> str:
    return f"exec 3<> /dev/tcp/localhost/{port} && read -r -n 1 -t {ANSWER_SECONDS} -u 3"


def taken(port: int) -> str:
    """In a shell: how many connections the server has at ``port``, the one that looks included. From the kernel's
    table: a server that has no connection left tells nobody how many there are."""
    theirs = f"^ *[0-9]+: [0-9A-F]+:{port:04X} [0-9A-F]+:[0-9A-F]+ 01 "
    return f"$(cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | grep -cE '{theirs}')"


def connected(port: int) -> dict[str, Any]:
    """For daemons without a port of their own: the pod holds an established connection to ``port`` elsewhere (the
    message bus). Read from the kernel's table, because a probe in Python costs two CPU seconds."""
    look = f"grep -qE ':{port:04X} 01 ' /proc/net/tcp /proc/net/tcp6"
    return command("sh", "-c", f"{look} && exit; echo no connection to port {port}; exit 1")
