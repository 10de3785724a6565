"""The machine before the cluster: packages it needs, abilities it has, and what on it belongs to somebody else.

Called by `up`, `node` and `./test`. Nothing here starts anything: packages are installed with their services held
back, and conflicts are found by looking, all of them at once, before the first change is made.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from openstack_operator.embedded import addresses, cgroups, ledger, network, paths, processes
from openstack_operator.runtime import errors

Log = Callable[[str], None]

# Debian's and Ubuntu's names. procps, mount and util-linux are essential there.
NODE_PACKAGES = ("conntrack", "iproute2", "iptables", "kmod", "nftables", "openssl", "runc")
# The pause image is one small static program; root file systems are made by mmdebstrap.
IMAGE_PACKAGES = ("ca-certificates", "debian-archive-keyring", "gcc", "libc6-dev", "mmdebstrap", "xz-utils")

CAP_SYS_RESOURCE = 24
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_ASIDE = Path("/usr/sbin/policy-rc.d.before-openstack-operator")
DENY = "#!/bin/sh\n# Placed by openstack-operator while it installs packages: no service starts.\nexit 101\n"


# In the state directory, for the user: see `tools` and `cloud`.
USER_FILES = ("bin", "clouds.yaml", "environment.json", "id_ed25519", "id_ed25519.pub", "tempest")


class HostError(errors.OperatorError):
    """The machine cannot carry the cluster; the message names every reason found and what to do about it."""


# --- packages ---------------------------------------------------------------------------------------------------------


def missing_packages(wanted: Iterable[str]) -> list[str]:
    """The packages of `wanted` that are not installed."""
    wanted = sorted(set(wanted))
    said = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    installed = {line.split()[0] for line in said.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in wanted if name not in installed]


def install(wanted: Iterable[str], log: Log) -> None:
    """Installs what is missing, after saying so; no service is started by it.

    Raises HostError with apt's words when a package cannot be had.
    """
    missing = missing_packages(wanted)
    if not missing:
        return
    log(f"installing packages: {' '.join(missing)}")
    command = ["apt-get", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120", "install", *missing]
    with services_held_back():
        # The lists may be old or, on a fresh machine, not there: they are fetched when they are needed.
        if apt(command) is not None:
            log("fetching the lists of packages")
            trouble = apt(["apt-get", "-qq", "update"])
            trouble = apt(command) or (trouble if missing_packages(missing) else None)
            if trouble is not None:
                raise HostError(f"apt-get cannot install {' '.join(missing)}:\n{trouble}")


def apt(command: Sequence[str]) -> str | None:
    """Runs apt-get without questions; None, or the end of what it said when it failed."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env=environment,
    )  # fmt: skip
    return None if done.returncode == 0 else "\n".join(done.stdout.splitlines()[-15:])


@contextmanager
def services_held_back() -> Iterator[None]:
    """A policy-rc.d that denies every start. The machine's own is set aside and comes back, also after a crash here."""
    if POLICY_ASIDE.exists():
        POLICY_ASIDE.replace(POLICY)
    elif POLICY.exists() and POLICY.read_text() == DENY:
        POLICY.unlink()
    if POLICY.exists():
        POLICY.replace(POLICY_ASIDE)
    POLICY.write_text(DENY)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
        if POLICY_ASIDE.exists():
            POLICY_ASIDE.replace(POLICY)


# --- abilities --------------------------------------------------------------------------------------------------------


def require_root() -> None:
    if os.geteuid() != 0:
        raise HostError("this needs root: it makes network interfaces, mounts and control groups")


def has_capability(number: int, status: str | None = None) -> bool:
    """Whether a capability is in this process' bounding set, which is all that its children can get."""
    text = status if status is not None else Path("/proc/self/status").read_text()
    bounding = next(line.split()[1] for line in text.splitlines() if line.startswith("CapBnd:"))
    return bool(int(bounding, 16) >> number & 1)


def missing_abilities() -> list[str]:
    """What the kernel or the machine lacks that nothing here can add."""
    lacking = []
    if not cgroups.trees():
        lacking.append("no control groups are mounted below /sys/fs/cgroup")
    filesystems = Path("/proc/filesystems").read_text().split()
    if "overlay" not in filesystems and not network.succeeds("modprobe", "-q", "overlay"):
        lacking.append("the kernel has no overlay file system")
    if not Path("/dev/net/tun").exists() and not network.succeeds("modprobe", "-q", "tun"):
        lacking.append("the kernel has no tun devices (/dev/net/tun), which guests' interfaces are made of")
    return lacking


# --- conflicts --------------------------------------------------------------------------------------------------------


def conflicts(where: paths.Paths) -> list[str]:
    """What is in the way and is not ours: ports, interfaces, ranges, directories, sockets. Empty where all is well."""
    ours = ledger.Ledger.read(where.state) is not None
    daemons = processes.Daemons(where.pids, where.logs)
    found = [*conflicting_directories(where, ours=ours)]
    for daemon, ports in addresses.PORTS.items():
        if not daemons.is_alive(daemon):
            found += [f"port {a}:{p}, needed by {daemon}, {holder(p)}" for a, p in ports if stays_taken(a, p)]
    if shutil.which("ip"):
        found += conflicting_network(ours=ours)
    if not ours:
        found += conflicting_clouds()
    return found


def conflicting_directories(where: paths.Paths, *, ours: bool) -> list[str]:
    found = []
    # What `up --kubeconfig` writes is ours as well, though nothing was started.
    foreign = where.state.is_dir() and any(p.name not in USER_FILES for p in where.state.iterdir())
    if not ours and foreign:
        found.append(
            f"{where.state} holds files and was not made by `up`: move it away, or set OPENSTACK_OPERATOR_STATE"
        )
    if not where.state.parent.is_dir():
        found.append(f"{where.state.parent} does not exist")
    socket_ = where.containerd_socket
    if not ours and socket_.exists():
        found.append(f"{socket_} exists and was not made by `up`")
    return found


def conflicting_network(*, ours: bool) -> list[str]:
    found = []
    for bridge in (addresses.NODE_BRIDGE, addresses.POD_BRIDGE):
        if network.interface(bridge) is not None and not network.is_ours(bridge):
            found.append(f"interface {bridge} exists and was not made by `up`")
    if not ours:
        found += [
            f"interface {name} exists: Open vSwitch or OVN is in use on this machine already"
            for name in addresses.OVN_INTERFACES
            if network.interface(name) is not None
        ]
        tables = network.nft_tables() if shutil.which("nft") else []
        found += [
            f"nft table {table!r} exists: another Kubernetes uses this machine as a node"
            for table in network.PROGRAM_TABLES
            if table in tables
        ]
    links = (addresses.NODE_BRIDGE, addresses.POD_BRIDGE, *(addresses.OVN_INTERFACES if ours else ()))
    for use in network.uses_of_ours(network.routes(), links):
        found.append(f"addresses {use.range} are in use: {use.what}")
    return found


def conflicting_clouds() -> list[str]:
    """Services of the machine whose files and sockets the node agents need for themselves."""
    wanted = {
        "libvirtd": "/run/libvirt/libvirt-sock",
        "Open vSwitch": "/run/openvswitch/db.sock",
    }
    return [
        f"{what} of this machine listens on {path}: stop it first" for what, path in wanted.items() if answers(path)
    ]


def answers(path: str) -> bool:
    """Whether somebody listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        try:
            one.connect(path)
        except OSError:
            return False
    return True


def stays_taken(address: str, port: int, seconds: float = 3) -> bool:
    """Whether somebody holds the port. A process that was killed holds it until its memory is given back."""
    deadline = time.monotonic() + seconds
    while is_taken(address, port):
        if "pid=" in holder(port) or time.monotonic() > deadline:
            return True
        time.sleep(0.1)
    return False


def is_taken(address: str, port: int) -> bool:
    """Whether somebody listens on the port at this address or at all addresses."""
    wanted = {hex_address(address), hex_address("0.0.0.0")}
    return any(a in wanted or len(a) > 8 for a in listeners().get(port, ()))


def listeners() -> dict[int, set[str]]:
    """Listening TCP ports with the addresses they are on, in the kernel's own notation.

    An IPv6 listener is reported only where it is on all addresses, since that one takes IPv4 as well.
    """
    found: dict[int, set[str]] = {}
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            address, _, port = fields[1].rpartition(":")
            if fields[3] == "0A" and (name == "tcp" or not address.strip("0")):
                found.setdefault(int(port, 16), set()).add(address)
    return found


def hex_address(address: str) -> str:
    """An IPv4 address as /proc/net/tcp writes it: the bytes of memory, so in the machine's own order."""
    packed = socket.inet_aton(address)
    return f"{int.from_bytes(packed, 'little'):08X}"


def holder(port: int) -> str:
    """Who holds a port, for the message."""
    if shutil.which("ss") is None:
        return "is taken"
    said = subprocess.run(["ss", "-Hltnp", f"sport = :{port}"], check=False, capture_output=True, text=True).stdout
    _, _, users = said.partition("users:((")
    return f"is taken by {users.split(')')[0]}" if users else "is taken"
