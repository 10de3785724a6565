"""Layers that are Python virtual environments: one per OpenStack release, and the operator's own.

Both use the Python of the base layer and lock files with hashes: `images/locks/<release>.txt` and
`requirements/runtime.txt`. uv installs them inside the base layer, from the package index that this machine's pip or
uv is set up for; nothing of that set-up gets into a layer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from openstack_operator.embedded.images import chroot, debian, layers

OPENSTACK_VENV = "/var/lib/kolla/venv"
OPERATOR_VENV = "/opt/openstack-operator"
LOCK = f"{chroot.INPUTS}/lock.txt"
LAYER = f"{chroot.INPUTS}/layer"


def build_openstack(cache: Path, release: str, log: layers.Log) -> layers.Layer:
    """Every OpenStack service of a release in one venv at Kolla's path, with the /etc files that the wheels ship.

    One venv for all services: they share their dependencies by upstream's constraints, and pods share the page cache.
    """
    recipe, tools = layers.recipe("openstack"), debian.build_tools(cache, log)
    lock = layers.recipe(f"locks/{release}.txt")
    name = f"openstack-{release}"

    def build(directory: Path) -> None:
        logfile, root = debian.logfile_of(cache, name), directory / "root"
        pins = sum("==" in line for line in lock.read_text().splitlines())
        log(f"{name}: {pins} Python packages")
        venv = root / OPENSTACK_VENV.lstrip("/")
        venv.mkdir(parents=True)
        inside = chroot.Root(
            tools.root, directory / "work", {debian.RECIPE: recipe, LOCK: lock}, {LAYER: root, OPENSTACK_VENV: venv}
        )
        _run_with_uv(cache, inside, logfile, log)
        debian.discard(directory / "work")

    return layers.cached_layer(cache, name, layers.content_key(recipe, lock, tools.key), build)


def build_operator(cache: Path, source: Path, log: layers.Log) -> tuple[layers.Layer, layers.Layer]:
    """Two layers, the operator's dependencies and its source: a change of source makes only the second again."""
    recipe, base, tools = layers.recipe("operator"), debian.build_base(cache, log), debian.build_tools(cache, log)
    lock = source / "requirements" / "runtime.txt"
    if not lock.exists():
        raise layers.ImageError(f"{lock} not found: the operator's image needs the lock file of its dependencies")

    def build_dependencies(directory: Path) -> None:
        log("operator: dependencies")
        venv = directory / "root" / OPERATOR_VENV.lstrip("/")
        venv.mkdir(parents=True)
        inside = chroot.Root(tools.root, directory / "work", {debian.RECIPE: recipe, LOCK: lock}, {OPERATOR_VENV: venv})
        _run_with_uv(cache, inside, debian.logfile_of(cache, "operator"), log)
        debian.discard(directory / "work")

    dependencies = layers.cached_layer(
        cache, "operator-dependencies", layers.content_key(recipe, lock, base.key), build_dependencies
    )
    package = source / "src" / "openstack_operator"

    def build_source(directory: Path) -> None:
        log("operator: source")
        venv = directory / "root" / OPERATOR_VENV.lstrip("/")
        (python,) = (dependencies.root / OPERATOR_VENV.lstrip("/") / "lib").glob("python3.*")
        site = venv / "lib" / python.name / "site-packages"
        for file in layers.files_below(package):
            target = site / "openstack_operator" / file.relative_to(package)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)
        start = venv / "bin" / "openstack-operator"
        start.parent.mkdir()
        start.write_text(START_SCRIPT)
        start.chmod(0o755)
        # A read-only root file system cannot keep what the first start compiles. Timestamps go by copy2, so they fit.
        inside = chroot.Root(base.root, directory / "work", {}, {LAYER: site}, read_only=True)
        compiled = f"{OPERATOR_VENV}/lib/{python.name}/site-packages"
        command = ["python3", "-m", "compileall", "-q", "-s", LAYER, "-p", compiled, LAYER]
        chroot.run(inside, command, debian.logfile_of(cache, "operator-source"))
        debian.discard(directory / "work")

    key = layers.content_key(package, START_SCRIPT, dependencies.key)
    return dependencies, layers.cached_layer(cache, "operator-source", key, build_source)


START_SCRIPT = f"""#!{OPERATOR_VENV}/bin/python
import sys

from openstack_operator.cli.main import main

sys.exit(main())
"""


def _run_with_uv(cache: Path, root: chroot.Root, logfile: Path, log: layers.Log) -> None:
    """Runs the recipe's build.sh inside, with uv in PATH and its cache kept between builds."""
    downloads = cache / "uv" / "cache"
    downloads.mkdir(parents=True, exist_ok=True)
    inside = root.having({f"{chroot.INPUTS}/uv": _uv(cache, log)}, {f"{chroot.INPUTS}/uv-cache": downloads})
    # the cache is another mount than the venv, so uv could not link files anyway
    env = {
        "UV_CACHE_DIR": f"{chroot.INPUTS}/uv-cache",
        "UV_LINK_MODE": "copy",
        "UV_PYTHON_DOWNLOADS": "never",
        **_index_of_this_machine(),
    }
    chroot.run(inside, ["/bin/sh", f"{debian.RECIPE}/build.sh"], logfile, env, network=True)


def _uv(cache: Path, log: layers.Log) -> Path:
    """The uv program of the pinned wheel."""
    lock = layers.recipe("uv.txt")

    def build(directory: Path) -> None:
        log("uv: download")
        wheels = directory / "wheels"
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
        ]
        chroot.execute(
            [*pip, "--dest", str(wheels), "--requirement", str(lock)], debian.logfile_of(cache, "uv"), "pip download"
        )
        (wheel,) = wheels.glob("uv-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith("/scripts/uv"))
            (directory / "uv").write_bytes(archive.read(member))
        (directory / "uv").chmod(0o755)
        shutil.rmtree(wheels)

    return layers.cached(cache / "uv", "program", layers.content_key(lock), build) / "uv"


def _index_of_this_machine() -> Mapping[str, str]:
    """uv's settings for this machine's package index: uv's own variables, else what pip is configured with."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("UV_") and ("INDEX" in name or name == "UV_HTTP_TIMEOUT")
    }
    env.setdefault("UV_HTTP_TIMEOUT", "180")
    if any("INDEX" in name for name in env):
        return env
    for setting, variable in (("global.index-url", "UV_DEFAULT_INDEX"), ("global.extra-index-url", "UV_INDEX")):
        command = [sys.executable, "-m", "pip", "config", "get", setting]
        value = os.environ.get("PIP_" + setting.partition(".")[2].replace("-", "_").upper())
        if not value:
            value = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if value:
            env[variable] = value
    return env
