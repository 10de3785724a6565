"""OpenStack APIs under uWSGI: one launch style for every service and release (``<service>.wsgi.*`` modules).

Builds the ini file and the container; each service's ``resources.py`` calls it.
"""

from __future__ import annotations

from collections.abc import Mapping

from openstack_operator.kit import config, probes, workloads

FILE = "uwsgi.ini"
SERVING = "/tmp/serving"
"""Is there once the application is loaded."""
START = f"#!/bin/sh\nrm -f {SERVING}\nexec uwsgi --ini {config.MERGED}/{FILE}\n"
START_NAME = "start.sh"

# uWSGI allocates memory per possible descriptor, and container runtimes allow up to a billion of them.
MAX_FD = 4096
# A request keeps its thread for as long as somebody else takes to answer: a compute that hangs keeps each for
# MERCY_SECONDS, an image's transfer takes minutes. Probes need one too, so that who has none left is taken for broken.
# More would cost little memory; but each may hold a connection to each of its service's databases.
THREADS = 16

# As long as the slowest request waits for an answer from the message bus (rpc_response_timeout).
MERCY_SECONDS = 60
# Endpoints are told that a pod goes while it still serves.
PRE_STOP_SECONDS = 3
# A worker that is told to finish while it loads its application does not hear it, and is killed after the mercy that is
# for requests. Loading takes 2 to 8 s, and one that hangs in it has nobody to wait for.
LOAD_SECONDS = 30
PRE_STOP = (
    f"for _ in $(seq {LOAD_SECONDS * 5}); do [ -e {SERVING} ] && break; sleep 0.2; done; exec sleep {PRE_STOP_SECONDS}"
)
GRACE_SECONDS = PRE_STOP_SECONDS + MERCY_SECONDS + 5
"""Of the pods: a server that has loaded gives up by itself before Kubernetes kills it."""


def ini(module: str, port: int, *, extra: tuple[str, ...] = ()) -> str:
    """The ini file; ``extra`` are further lines."""
    lines = (
        "[uwsgi]",
        f"module = {module}:application",
        f"http-socket = :{port}",
        "master = true",
        "die-on-term = true",
        # On SIGTERM requests in progress finish; die-on-term alone cuts them.
        "hook-master-start = unix_signal:15 gracefully_kill_them_all",
        f"hook-accepting1-once = creat:{SERVING}",
        "need-app = true",
        "lazy-apps = true",
        "enable-threads = true",
        "processes = 1",
        f"threads = {THREADS}",
        f"max-fd = {MAX_FD}",
        "buffer-size = 65535",
        "add-header = Connection: close",
        # Longer than any client's patience between two pieces of a request body.
        "socket-timeout = 60",
        "chunked-input-timeout = 60",
        f"worker-reload-mercy = {MERCY_SECONDS}",
        "disable-logging = true",
        "log-4xx = true",
        "log-5xx = true",
        *extra,
    )
    return "\n".join(lines) + "\n"


def container(
    name: str,
    port: int,
    probe_path: str,
    *,
    env: Mapping[str, str] | None = None,
    cpu: str = workloads.CPU_COMMON,
    memory: str = "200Mi",
    port_name: str = "api",
) -> workloads.Container:
    """The container that serves; a home for caches stands in /tmp, since the root is read-only."""
    return workloads.Container(
        name=name,
        command=("sh", f"{config.SCRIPTS}/{START_NAME}"),
        env={"XDG_CACHE_HOME": "/tmp", "HOME": "/tmp", **(env or {})},
        ports={port_name: port},
        probe=probes.http(probe_path, port),
        # A busy API answers late; only one that does not even accept is worth a restart.
        liveness=probes.tcp(port),
        cpu=cpu,
        memory=memory,
        pre_stop=probes.command("sh", "-c", PRE_STOP),
    )
