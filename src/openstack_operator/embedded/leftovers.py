"""Files that the cluster's programs leave outside of our directories, at paths that cannot be configured.

Called by `node` when it stops. What is removed is known to be ours by its name or by where it points; a directory goes
only if it was not there before `up` (see `ledger`) and is empty now.
"""

from __future__ import annotations

from pathlib import Path

from openstack_operator.embedded import configuration, host, ledger, mounts

SHIM_SOCKETS = Path("/run/containerd/s")
KUBELET_SOCKETS = Path("/var/lib/kubelet/device-plugins")
CNI_RESULTS = Path("/var/lib/cni/results")
NAMESPACES = Path("/run/netns")
POD_LOG_LINKS = Path("/var/log/containers")


def remove(state: Path, before: ledger.Ledger, *, keep_data: bool = False) -> None:
    """Removes all of it, once the programs have ended."""
    for directory in (SHIM_SOCKETS, KUBELET_SOCKETS):
        # A socket that nobody listens on; elsewhere than in a directory that we made, it may be about to be used.
        if any(directory.is_relative_to(made) for made in before.absent_directories):
            for path in list(directory.glob("*")):
                if path.is_socket() and not host.answers(str(path)):
                    path.unlink()
    for path in CNI_RESULTS.glob(f"{configuration.CNI_NETWORK}-*-eth0"):
        sandbox = path.name.removeprefix(f"{configuration.CNI_NETWORK}-").removesuffix("-eth0")
        path.unlink()
        (CNI_RESULTS / f"cni-loopback-{sandbox}-lo").unlink(missing_ok=True)
    for path in POD_LOG_LINKS.glob("*.log"):
        if path.is_symlink() and path.readlink().is_relative_to(state):
            path.unlink()
    if str(NAMESPACES) in before.absent_directories and not any(NAMESPACES.glob("*")):
        # `ip netns add` makes it a mount point.
        mounts.unmount(NAMESPACES)
    before.remove_agents(keep_data=keep_data)
    before.remove_directories()
