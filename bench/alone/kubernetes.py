"""An API server with an audit log that is never rotated, and counts of the requests of one program in it.

Called by the scenarios, which start a fresh one for each operator.
"""

from __future__ import annotations

import collections
import contextlib
import json
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from openstack_operator.embedded.apiserver import ControlPlane

Counts = dict[str, int]
"""Requests by verb and resource."""

# The Lease, and Events, which nobody waits for, are counted apart.
LEASES, EVENTS = "leases", "events"


@contextlib.contextmanager
def started(programs: Path) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, with an empty store."""
    with tempfile.TemporaryDirectory() as directory:
        with ControlPlane(programs, Path(directory)) as cluster:
            yield cluster


def requests(cluster: ControlPlane, agents: Collection[str], since: int) -> Counts:
    """Requests of a program from a place in the audit log on, answered ones. The further pages of a LIST are
    "list (next page)", watches count when they begin."""
    found: collections.Counter[str] = collections.Counter()
    known = [agent.encode() for agent in agents]
    with cluster.audit_log.open("rb") as lines:
        lines.seek(since)
        for line in lines:
            if not any(agent in line for agent in known) or not line.endswith(b"\n"):
                continue
            event = json.loads(line)
            stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
            reference = event.get("objectRef")
            is_theirs = any(event.get("userAgent", "").startswith(agent) for agent in agents)
            if not is_theirs or event["stage"] != stage or reference is None:
                continue
            verb = event["verb"]
            query = parse_qs(urlsplit(event["requestURI"]).query)
            if verb == "list" and "continue" in query:
                verb = "list (next page)"
            elif verb == "watch" and query.get("sendInitialEvents") == ["true"]:
                # A LIST that comes as a stream.
                verb = "list (streamed)"
            found[" ".join(filter(None, (verb, reference["resource"], reference.get("subresource"))))] += 1
    return dict(sorted(found.items()))


def work(counts: Counts) -> int:
    """How many requests there are beside watches, the Lease and Events."""
    return sum(
        number
        for what, number in counts.items()
        if what.split()[0] != "watch" and resource(what) not in (LEASES, EVENTS)
    )


def events(counts: Counts) -> int:
    """How many Events were written."""
    return sum(number for what, number in counts.items() if resource(what) == EVENTS)


def lists(counts: Counts) -> Counts:
    """How often each kind was listed."""
    found: collections.Counter[str] = collections.Counter()
    for what, number in counts.items():
        if what.startswith("list ") and "next page" not in what:
            found[resource(what)] += number
    return dict(found)


def resource(what: str) -> str:
    """The resource in one of the keys of ``Counts``."""
    words = what.replace("(next page) ", "").replace("(streamed) ", "").split()
    return words[1]
