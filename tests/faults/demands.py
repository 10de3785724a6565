"""When `status` must have named what is broken, and which faults may be named later. Asserted by `scene` where faults
are made for the record; the page shows the same words (`records`).
"""

from __future__ import annotations

NAMED_SECONDS = 5.0

# A probe asks every ten seconds and waits three for an answer. The first time without one begins ten seconds after the
# fault at most, the second ends 13 s later; kubelet's word and a reader's look take some seconds more.
PROBED = 30.0

LATER: dict[str, dict[str, float]] = {
    "what hangs looks like what is busy. A probe asks every ten seconds, and waits three for an answer; after the "
    "second time without one the pod is not ready. So is a database whose connections are all taken. What hangs is "
    "ended after three minutes, since nothing is lost by a wait, and transactions are by an end.": {
        "mariadb-0 hangs": PROBED,
        "rabbitmq-0 hangs": PROBED,
        "connections of MariaDB exhausted": PROBED,
    },
    "so does an operator that hangs; its probe asks every five seconds, and three times without an answer count.": {
        "operator hangs": PROBED,
    },
    "nothing is wrong before somebody writes, and then a probe has to see it.": {
        "volume of MariaDB full, then freed": PROBED,
    },
    "nova-compute, told to finish, ends what it has begun first (`shutdownSeconds`, ten seconds if nothing else is "
    "asked for); until then its pod is there and ready.": {
        "pod of nova-cell1-compute deleted": 25.0,
    },
    "containerd asks the registry itself until it gives up. Until then `status` says which pod is starting.": {
        "image that cannot be pulled, then mended": 20.0,
    },
    "whoever had a connection finds out by its heartbeat, and a probe asks after that.": {
        "a virtual host of RabbitMQ deleted": 45.0,
    },
    "`status` asks an API server that does not answer for a second whether it is ready. One that has not seen yet that "
    "its store is gone says that it is, and whoever asked so early waits until his question is given up.": {
        "etcd killed with -9, and started again": 15.0,
    },
}
"""Seconds by fault, by the reason."""


def seconds(fault: str) -> float:
    """How long it may take until `status` names a fault."""
    return next((faults[fault] for faults in LATER.values() if fault in faults), NAMED_SECONDS)
