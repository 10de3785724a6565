"""Where the embedded default keeps its files. Every other module of `embedded` asks here; nothing else knows a path.

Three places, by how long they live:

    cache  built things, named by the hash of what they are made from; survives `down` and is shared by clones
    state  everything of the running cluster; `down` removes it
    run    sockets; gone after a reboot by itself
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Paths:
    """The three roots, and the files below them that more than one module uses."""

    cache: Path
    state: Path
    run: Path

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        return self.state / "log"

    @property
    def pids(self) -> Path:
        return self.state / "pid"

    @property
    def kubeconfig(self) -> Path:
        """The cluster administrator's kubeconfig, for `kubectl` and for the user."""
        return self.state / "kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def tools(self) -> Path:
        """Commands for the user's PATH."""
        return self.state / "bin"

    @property
    def volumes(self) -> Path:
        """Directories of the default StorageClass' volumes."""
        return self.state / "volumes"


def default() -> Paths:
    """The paths of this machine; each root can be moved by an environment variable."""
    return Paths(
        cache=Path(os.environ.get("OPENSTACK_OPERATOR_CACHE", "/var/cache/openstack-operator")),
        state=Path(os.environ.get("OPENSTACK_OPERATOR_STATE", "/var/lib/openstack-operator")),
        run=Path(os.environ.get("OPENSTACK_OPERATOR_RUN", "/run/openstack-operator")),
    )
