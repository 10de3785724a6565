"""Root file systems from Debian packages: the base and the infrastructure layer, and build tools for the others.

The package lists and the scripts that run inside are in `images/base` and `images/infrastructure`. Packages come from
the mirror that this machine's own apt uses where the machine is a Debian, else from mmdebstrap's default one.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from openstack_operator.embedded.images import chroot, layers

SUITE = "trixie"
COMPONENTS = "main"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
HOST_PACKAGES = ("mmdebstrap", "debian-archive-keyring")
"""What the machine itself needs to build images; everything else runs inside them."""

RECIPE = f"{chroot.INPUTS}/recipe"
UNPACKED = f"{chroot.INPUTS}/unpacked"
SETTINGS = f"{chroot.INPUTS}/apt.conf"

# Documentation is a third of a minimal system; copyright files stay.
EXCLUDED = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/lintian/*",
    "force-unsafe-io",
)
DENY_SERVICES = 'printf "#!/bin/sh\\nexit 101\\n" > "$1/usr/sbin/policy-rc.d"; chmod +x "$1/usr/sbin/policy-rc.d"'


def build_base(cache: Path, log: layers.Log) -> layers.Layer:
    """The layer under every image: Debian, Python and Kolla's users."""
    recipe = layers.recipe("base")
    packages = layers.words(recipe / "packages.txt")

    def build(directory: Path) -> None:
        log(f"base: Debian {SUITE} with {', '.join(packages)}")
        root, logfile = directory / "root", logfile_of(cache, "base")
        chroot.execute(_mmdebstrap(root, packages), logfile, "mmdebstrap", _without_temporary_directory())
        # The image names no mirror; builds on top of it get the list mounted.
        apt = root / "etc/apt"
        shutil.copy(apt / "sources.list", directory / "sources.list")
        (apt / "sources.list").write_text("")
        (apt / "apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
        inside = chroot.Root(root, directory / "work", {RECIPE: recipe})
        chroot.run(inside, ["/bin/sh", f"{RECIPE}/setup.sh"], logfile)
        discard(directory / "work")

    return layers.cached_layer(cache, "base", layers.content_key(recipe, SUITE, *EXCLUDED), build)


def build_infrastructure(cache: Path, log: layers.Log) -> layers.Layer:
    """The base with databases, message bus, OVS, OVN, libvirt and QEMU: a whole root file system."""
    recipe, base = layers.recipe("infrastructure"), build_base(cache, log)
    packages = layers.words(recipe / "packages.txt")
    unpacked = layers.words(recipe / "unpacked.txt")

    def build(directory: Path) -> None:
        log(f"infrastructure: {', '.join(packages)}")
        logfile, downloads = logfile_of(cache, "infrastructure"), directory / "unpacked"
        downloads.mkdir()
        chroot.copy(base.root, directory / "root", logfile)
        root = chroot.Root(directory / "root", directory / "work", {RECIPE: recipe}, {UNPACKED: downloads})
        install(cache, "infrastructure", root, base, packages, logfile)
        apt(
            cache,
            "infrastructure",
            root,
            base,
            ["sh", "-c", f'cd {UNPACKED} && apt-get -q download "$@"', "sh", *unpacked],
            logfile,
        )
        chroot.run(root, ["/bin/sh", f"{RECIPE}/setup.sh"], logfile)
        discard(directory / "work", downloads)

    return layers.cached_layer(cache, "infrastructure", layers.content_key(recipe, base.key), build)


def build_tools(cache: Path, log: layers.Log) -> layers.Layer:
    """The base with compilers and disk tools: other layers are made inside it; it never becomes an image."""
    recipe, base = layers.recipe("tools"), build_base(cache, log)
    packages = layers.words(recipe / "packages.txt")

    def build(directory: Path) -> None:
        log(f"build tools: {', '.join(packages)}")
        logfile = logfile_of(cache, "tools")
        chroot.copy(base.root, directory / "root", logfile)
        install(cache, "tools", chroot.Root(directory / "root", directory / "work"), base, packages, logfile)
        shutil.copy(base.path / "sources.list", directory / "sources.list")
        discard(directory / "work")

    return layers.cached_layer(cache, "tools", layers.content_key(recipe, base.key), build)


def install(
    cache: Path, name: str, root: chroot.Root, base: layers.Layer, packages: Sequence[str], logfile: Path
) -> None:
    """Installs Debian packages into a root file system that stands on the base layer."""
    apt(cache, name, root, base, ["apt-get", "-q", "update", "-o", "APT::Update::Error-Mode=any"], logfile)
    apt(cache, name, root, base, ["apt-get", "-q", "install", "--yes", "--no-install-recommends", *packages], logfile)


def apt(cache: Path, name: str, root: chroot.Root, base: layers.Layer, command: Sequence[str], logfile: Path) -> None:
    """Runs a command that uses apt inside, with this machine's mirror and settings.

    Lists and archives stay in the cache under `name`, one build's apart from another's: apt locks them.
    """
    lists, archives = cache / "apt" / name / "lists", cache / "apt" / name / "archives"
    for path in (lists / "partial", archives / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    settings = cache / "apt" / name / "settings"
    # downloads go to directories of the build, which apt's own user may not write
    own = ('APT::Sandbox::User "root";', 'Dir::Cache::pkgcache "";', 'Dir::Cache::srcpkgcache "";')
    trust = [f'Acquire::https::CaInfo "{chroot.CERTIFICATES}";'] if chroot.certificates() else []
    settings.write_text("\n".join([*_apt_settings(), *trust, *own, ""]))
    inputs = {"/etc/apt/sources.list": base.path / "sources.list", SETTINGS: settings, str(KEYRING): KEYRING}
    outputs = {"/var/lib/apt/lists": lists, "/var/cache/apt/archives": archives}
    chroot.run(root.having(inputs, outputs), command, logfile, {"APT_CONFIG": SETTINGS}, network=True)


def logfile_of(cache: Path, name: str) -> Path:
    """Log of a build; a new build starts a new one."""
    path = cache / "logs" / f"image-{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return path


def discard(*paths: Path) -> None:
    """Removes scratch directories and mount points of a build."""
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def _mmdebstrap(root: Path, packages: Sequence[str]) -> list[str]:
    command = [
        *chroot.ISOLATE,
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        f"--components={COMPONENTS}",
        f"--include={','.join(packages)}",
    ]
    command += [f"--dpkgopt={option}" for option in EXCLUDED]
    command += [f"--aptopt={setting.rstrip(';')}" for setting in _apt_settings()]
    command += [f"--essential-hook={DENY_SERVICES}", SUITE, str(root)]
    sources = _sources_of_this_machine()
    return command + ([sources] if sources else [])


def _apt_settings() -> list[str]:
    """How this machine's apt downloads: proxies, certificates, validity checks; as lines of apt.conf."""
    wanted = (
        "Acquire::http",
        "Acquire::https",
        "Acquire::Check-",
        "Acquire::Retries",
        "Acquire::ForceIPv4",
        "Acquire::Proxy",
    )
    dump = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [line for line in dump if line.startswith(wanted) and not line.endswith('"";')]


def _sources_of_this_machine() -> str:
    """sources.list for SUITE on the mirrors that this machine uses, empty where it is no Debian."""
    release = platform.freedesktop_os_release()
    if release.get("ID") != "debian":
        return ""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    known = [
        line.split() for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    ]
    here = release.get("VERSION_CODENAME", "")
    lines = []
    for suffix in ("", "-updates", "-security"):
        uri = next((uri for uri, suite, component in known if suite == here + suffix and component == COMPONENTS), None)
        if uri:
            lines.append(f"deb [signed-by={KEYRING}] {uri} {SUITE}{suffix} {COMPONENTS}")
    return "\n".join(lines) if lines and lines[0].endswith(f" {SUITE} {COMPONENTS}") else ""


def _without_temporary_directory() -> dict[str, str]:
    """mmdebstrap's hooks run inside the new root, where a private TMPDIR of this machine does not exist."""
    return {name: value for name, value in os.environ.items() if name not in ("TMPDIR", "TMP", "TEMP")}
