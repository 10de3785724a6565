"""Runs commands inside a root file system that is being built.

Called by the builders of this package. Every mount is made in a mount namespace of the command's own, so a build that
is killed leaves no mount behind; /dev is private, so no package script reaches the machine's devices; what is mounted
from outside is read-only unless the build made it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from openstack_operator.embedded.images import layers

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
TAIL_LINES = 15


INPUTS = "/run/build"
"""Where a build's inputs and outputs are mounted: /run is the command's own, so no mount point stays in the tree."""

CERTIFICATES = f"{INPUTS}/certificates.pem"


@dataclass(frozen=True)
class Root:
    """A root file system and what is mounted into it for a command.

    No overlay mounts: package installation on one met stale file handles, and a copy of the base takes two seconds.
    """

    directory: Path
    work: Path
    """Scratch directory; holds the mount point."""
    inputs: Mapping[str, Path] = field(default_factory=dict)
    """Files and directories seen inside read-only, by their path inside; the mount points are made if missing."""
    outputs: Mapping[str, Path] = field(default_factory=dict)
    """Directories of the build that commands inside write to, by their path inside. Never a path of the machine."""
    read_only: bool = False

    def having(self, inputs: Mapping[str, Path], outputs: Mapping[str, Path]) -> Root:
        return replace(self, inputs={**self.inputs, **inputs}, outputs={**self.outputs, **outputs})


def copy(source: Path, target: Path, logfile: Path) -> None:
    """Copies a root file system, owners and attributes kept. No hard links: package scripts edit files in place."""
    target.mkdir(parents=True, exist_ok=True)
    execute(["cp", "-a", "--reflink=auto", f"{source}/.", str(target)], logfile, "cp")


def run(
    root: Root, command: Sequence[str], logfile: Path, env: Mapping[str, str] | None = None, *, network: bool = False
) -> None:
    """Runs a command inside; its output goes to the end of `logfile`. Raises ImageError with the last lines.

    Without `network` it has none, and no file of the machine is visible. With it, the machine's resolver and trust are
    there, read-only: a script that means the image's /etc/resolv.conf must not be able to write the machine's.
    """
    if network:
        root = root.having(_network_files(), {})
    target = root.work / "mount"
    target.mkdir(parents=True, exist_ok=True)
    inside = [f"{name}={value}" for name, value in (_environment() | dict(env or {})).items()]
    script = [mount_script(root, target), shlex.join(["exec", "chroot", str(target), "env", "-i", *inside, *command])]
    isolate = ISOLATE if network else (*ISOLATE, "--net")
    execute([*isolate, "sh", "-euc", "\n".join(script)], logfile, command[0])


ISOLATE = (
    # a build whose caller is killed ends with it: the next run starts by removing the half-made tree
    *("setpriv", "--pdeathsig", "KILL"),
    *(
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--ipc",
        "--uts",
    ),
)
"""Command prefix: own mounts and processes, all gone when the command ends."""


def execute(command: Sequence[str], logfile: Path, what: str, env: Mapping[str, str] | None = None) -> None:
    """Runs a program of the machine with its output appended to `logfile`. Raises ImageError with the last lines."""
    logfile.parent.mkdir(parents=True, exist_ok=True)
    try:
        with logfile.open("ab") as out:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, check=False)
    except FileNotFoundError as error:
        raise layers.ImageError(f"{what} cannot start: {error.filename} is not installed") from error
    if done.returncode:
        tail = logfile.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        lines = "\n  ".join(tail)
        raise layers.ImageError(f"{what} failed with exit code {done.returncode}; log {logfile}:\n  {lines}")


def mount_script(root: Root, target: Path) -> str:
    """Shell lines that mount the root file system at `target`, for a mount namespace that is private already."""
    here = shlex.quote(str(target))
    lines = [f"mount --bind {shlex.quote(str(root.directory))} {here}"]
    if root.read_only:
        lines.append(f"mount -o remount,bind,ro {here}")
    lines += [
        f"cd {here}",
        "mount -t proc proc proc",
        "mount -t tmpfs -o mode=755 tmpfs dev",
        "mkdir dev/pts dev/shm",
        "mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts",
        "ln -s pts/ptmx dev/ptmx",
        "ln -s /proc/self/fd dev/fd",
        "mount -t tmpfs -o mode=1777 tmpfs dev/shm",
        "mount -t tmpfs -o mode=755 tmpfs run",
        "mount -t tmpfs -o mode=1777 tmpfs tmp",
    ]
    lines += [f"touch dev/{name}; mount --bind /dev/{name} dev/{name}" for name in DEVICES]
    for inside, outside in {**root.inputs, **root.outputs}.items():
        relative, source = shlex.quote(inside.lstrip("/")), shlex.quote(str(outside))
        make = (
            f"mkdir -p {relative}"
            if outside.is_dir()
            else f"mkdir -p $(dirname {relative}); [ -e {relative} ] || : > {relative}"
        )
        lines.append(f"{make}; mount --bind {source} {relative}")
        if inside in root.inputs:
            lines.append(f"mount -o remount,bind,ro {relative}")
    lines.append("cd /")
    return "\n".join(lines)


def certificates() -> Path | None:
    """The machine's certificate authorities: a package index may be signed by one that only this machine knows."""
    candidates = (os.environ.get("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt")
    return next((Path(path) for path in candidates if path and Path(path).is_file()), None)


def _network_files() -> dict[str, Path]:
    """Name resolution and trust of the machine, mounted over the image's own during a command, never copied."""
    files = {name: Path(name) for name in ("/etc/resolv.conf", "/etc/hosts") if Path(name).exists()}
    bundle = certificates()
    return files | ({CERTIFICATES: bundle} if bundle else {})


def _environment() -> dict[str, str]:
    """The least environment, plus the machine's proxies and trust."""
    kept = {name: os.environ[name] for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "no_proxy")}
    base = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    if certificates():
        base["SSL_CERT_FILE"] = CERTIFICATES
    return base | kept
