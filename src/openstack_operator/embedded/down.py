"""`down`: takes away what `up` made on this machine, and nothing else.

Called by `cli.machine`. Built programs and images stay in the cache, for the next `up`; installed packages stay too,
since something else may use them by now. On a cluster that the user brought there is nothing of ours to stop: see
docs/how-to/uninstall.md.
"""

from __future__ import annotations

from pathlib import Path

from openstack_operator.embedded import ledger, node, paths, progress


def run(*, keep_data: bool = False, where: paths.Paths | None = None) -> bool:
    """Stops the cluster and removes it. False where there was none. Raises NodeError where something stays."""
    where = where or paths.default()
    if ledger.Ledger.read(where.state) is None:
        return False
    with progress.Progress() as shown, shown.stage("cluster") as stage:
        # Stopping needs none of the cluster's programs.
        node.Node(where, Path(), stage.log).stop(keep_data=keep_data)
    return True
