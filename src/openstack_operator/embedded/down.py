"""`down`: takes away what `up` made on this machine, and nothing else.

Called by `cli.machine`. Built programs and images stay in the cache, for the next `up`; installed packages stay too,
since something else may use them by now. On a cluster that the user brought there is nothing of ours to stop: what
`up` wrote for a person on this machine goes, and the cloud stays; docs/how-to/uninstall.md tells how it goes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from openstack_operator.embedded import host, ledger, node, paths, progress, tools


def run(*, keep_data: bool = False, where: paths.Paths | None = None) -> str:
    """Stops the cluster and removes it; what else there is to say of it. Raises NodeError where something stays."""
    where = where or paths.default()
    if ledger.Ledger.read(where.state) is None:
        return forget_given_cluster(where, keep_data=keep_data)
    with progress.Progress() as shown, shown.stage("cluster") as stage:
        # Stopping needs none of the cluster's programs.
        node.Node(where, Path(), stage.log).stop(keep_data=keep_data)
    return ""


def forget_given_cluster(where: paths.Paths, *, keep_data: bool) -> str:
    """Removes the commands, the login and the key that `up --kubeconfig` wrote, and nothing else."""
    try:
        kubeconfig = json.loads((where.state / tools.RECORD).read_text())["KUBECONFIG"]
    except FileNotFoundError:
        return "there is nothing to take down"
    if not keep_data:
        for name in host.USER_FILES:
            path = where.state / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if not any(where.state.iterdir()):
            where.state.rmdir()
    return f"nothing runs on this machine; the cloud on the cluster of {kubeconfig} stays: docs/how-to/uninstall.md"
