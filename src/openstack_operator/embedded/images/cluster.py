"""Layers of the embedded cluster's own pods: pause, CoreDNS and the network policy agent.

CoreDNS and the agent are static programs that `embedded/programs.py` builds; pause is compiled from `images/pause`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from openstack_operator.embedded.images import chroot, debian, layers


def build_pause(cache: Path, log: layers.Log) -> layers.Layer:
    """The static program that holds a pod's namespaces, alone in its layer."""
    recipe, tools = layers.recipe("pause"), debian.build_tools(cache, log)

    def build(directory: Path) -> None:
        log("pause: compile")
        output = f"{chroot.INPUTS}/layer"
        inside = chroot.Root(tools.root, directory / "work", {debian.RECIPE: recipe}, {output: directory / "root"})
        chroot.run(inside, ["sh", f"{debian.RECIPE}/build.sh"], debian.logfile_of(cache, "pause"))
        debian.discard(directory / "work")

    return layers.cached_layer(cache, "pause", layers.content_key(recipe, tools.key), build)


def build_program(cache: Path, program: Path, log: layers.Log) -> layers.Layer:
    """A layer with one static program at its top."""

    def build(directory: Path) -> None:
        log(f"{program.name}: image")
        shutil.copy2(program, directory / "root" / program.name)

    return layers.cached_layer(cache, program.name, layers.content_key(program), build)
