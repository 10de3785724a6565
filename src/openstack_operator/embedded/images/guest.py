"""The guest image: what the first VM boots, and the tests' VMs.

The recipe is `images/guest`: Debian's cloud kernel, busybox and dropbear in an initramfs on a bootable FAT disk.
Small because every test copies and boots it without KVM; it does DHCP, metadata, user data, ssh with the server's key
pair, and a web page.
"""

from __future__ import annotations

from pathlib import Path

from openstack_operator.embedded.images import chroot, debian, layers

DEBS = f"{chroot.INPUTS}/debs"
OUTPUT = f"{chroot.INPUTS}/layer"
FILE_NAME = "guest.qcow2"


def build_guest(cache: Path, log: layers.Log) -> Path:
    """Path of the qcow2 image (disk format qcow2, container format bare, about 15 MB)."""
    recipe, base, tools = layers.recipe("guest"), debian.build_base(cache, log), debian.build_tools(cache, log)

    def build(directory: Path) -> None:
        log("guest: kernel, busybox and dropbear on a bootable disk")
        logfile, debs = debian.logfile_of(cache, "guest"), directory / "debs"
        debs.mkdir()
        inside = chroot.Root(tools.root, directory / "work", {debian.RECIPE: recipe}, {DEBS: debs, OUTPUT: directory})
        debian.apt(cache, "tools", inside, base, ["sh", f"{debian.RECIPE}/download.sh"], logfile)
        chroot.run(inside, ["sh", f"{debian.RECIPE}/build.sh"], logfile)
        debian.discard(debs, directory / "work")

    return layers.cached(cache / "guest", "guest", layers.content_key(recipe, tools.key), build) / FILE_NAME
