"""Images of the embedded default, built on this machine from Debian packages and Python wheels, given to containerd
without copying.

Called by `embedded/up.py`, in threads. Everything is kept in the cache by the hash of its inputs, so that a second
call does nothing.

    base ---- infrastructure            Debian + Python + Kolla's users;  databases, bus, OVN, libvirt, QEMU
      |  `--- tools ----- openstack     compilers (in no image);          a release's services in a venv at Kolla's path
      |          |------- guest, pause
      `------ operator dependencies --- operator source

Modules: `layers` (cached directories), `chroot` (commands inside them), `debian`, `venvs`, `guest`, `cluster` (what
is built), `catalogue` (names), `containerd` (loading). The programs in the cluster's images come from
`embedded/programs.py`.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from openstack_operator.embedded.images import catalogue, cluster, containerd, debian, guest, venvs
from openstack_operator.embedded.images.catalogue import IMAGES, Image, Images
from openstack_operator.embedded.images.layers import ImageError, Layer, Log

__all__ = [
    "HOST_PACKAGES",
    "IMAGES",
    "Image",
    "ImageError",
    "Images",
    "Layer",
    "Log",
    "build_all",
    "build_cluster_images",
    "build_operator_image",
    "load",
]

HOST_PACKAGES = debian.HOST_PACKAGES


def build_all(cache: Path, release: str, source: Path, log: Log) -> Images:
    """Every image of the operator and of a cloud of `release`, and the guest image. `source`: top of its tree."""
    debian.build_base(cache, log)
    # Two chains for two cores: one waits mostly for dpkg, the other for downloads and compilers.
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="images") as pool:
        infrastructure = pool.submit(debian.build_infrastructure, cache, log)
        debian.build_tools(cache, log)
        venv = venvs.build_openstack(cache, release, log)
        operator = build_operator_image(cache, source, log)
        guest_image = guest.build_guest(cache, log)
        images = catalogue.openstack_images(release, infrastructure.result(), venv)
    return Images(release, [*images, operator], guest_image)


def build_operator_image(cache: Path, source: Path, log: Log) -> Image:
    """The operator's image alone; a change of its source costs a second."""
    dependencies, code = venvs.build_operator(cache, source, log)
    return catalogue.operator_image(_version(source), debian.build_base(cache, log), dependencies, code)


def build_cluster_images(cache: Path, programs: Path, log: Log) -> list[Image]:
    """Images of the cluster's own pods: `localhost/{pause,coredns,kube-network-policies}:1`.

    `programs` is the directory of built Kubernetes programs; one that is not there has no image.
    """
    built = [cluster.build_pause(cache, log)]
    for name in ("coredns", "kube-network-policies"):
        if (programs / name).exists():
            built.append(cluster.build_program(cache, programs / name, log))
    return [catalogue.program_image(layer) for layer in built]


def load(ctr: Sequence[str], images: Images | Sequence[Image], log: Log) -> int:
    """Gives images to a containerd; returns how many were new. `ctr`: command prefix, e.g. `[CTR, "-a", SOCKET]`."""
    return containerd.load(containerd.Containerd(ctr), images.images if isinstance(images, Images) else images, log)


def _version(source: Path) -> str:
    """The operator's version, from the source tree it is built from."""
    project = source / "pyproject.toml"
    if project.exists():
        return str(tomllib.loads(project.read_text())["project"]["version"])
    return importlib.metadata.version("openstack-operator")
