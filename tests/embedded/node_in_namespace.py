"""The life of an embedded node, in network and mount namespaces of its own: run by test_node.py, one fact per line.

usage: unshare --net --mount python node_in_namespace.py DIRECTORY. Control groups are the machine's, so their names
differ from those of a cluster that may be up beside it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from openstack_operator.embedded import addresses, cgroups, host, images, ledger, mounts, network, node, paths, programs

addresses.POD_CGROUP, addresses.GUEST_CGROUP = "openstack-operator-test", "openstack-guests-test"

PRIVATE = ("/run", "/var/lib/kubelet", "/var/lib/cni", "/var/log")


def tell(fact: str, value: object) -> None:
    print(json.dumps({fact: value}), flush=True)


def said(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def snapshot() -> dict[str, object]:
    """What `down` must leave as it was."""
    links = json.loads(said("ip", "-j", "link"))
    # Ids of mounts are never used twice. Those of a cluster beside this one come and go.
    beside = (str(paths.default().state), str(paths.default().run))
    table = [line.split(maxsplit=3)[3] for line in mounts.table().splitlines()]
    table = [line for line in table if not any(path in line for path in beside)]
    return {
        "links": sorted(link["ifname"] for link in links),
        "routes": said("ip", "route"),
        "namespaces": sorted(os.listdir("/run/netns")) if Path("/run/netns").exists() else None,
        "mounts": sorted(table),
        "nft": said("nft", "list", "ruleset"),
        "sysctls": {name: ledger.get(name) for name in ledger.SYSCTLS},
        "groups": sorted(str(p) for p in cgroups.ROOT.glob("*/openstack-*-test")),
        "files": sorted(str(p) for d in PRIVATE for p in Path(d).rglob("*")),
    }


def leave_what_agents_leave() -> subprocess.Popen[bytes]:
    """Interfaces and a namespace of OVN's agents, and a guest in its group, as they are when their pods are gone."""
    for command in (
        "ip link add br-ex type bridge",
        f"ip address add {network.first_host(addresses.FLOATING_RANGE)} dev br-ex",
        "ip link set br-ex up",
        "ip link add br-int type bridge",
        "ip netns add ovnmeta-1a2b",
    ):
        subprocess.run(command.split(), check=True)
    guest = subprocess.Popen(["sleep", "600"], start_new_session=True)
    for tree in cgroups.trees():
        group = tree / addresses.GUEST_CGROUP / "guest"
        group.mkdir()
        for what in ("cpuset.cpus", "cpuset.mems"):
            if (group / what).exists() and not cgroups.is_unified():
                (group / what).write_text((tree / what).read_text())
        (group / "cgroup.procs").write_text(str(guest.pid))
    return guest


def restarts(cluster: node.Node) -> list[int]:
    pods = json.loads(cluster.kubectl("-n", "kube-system", "get", "pods", "-o", "json"))["items"]
    return [c["restartCount"] for p in pods for c in p["status"].get("containerStatuses", []) if c["ready"]]


def main(directory: Path) -> None:
    for path in PRIVATE:
        Path(path).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "test", path], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    where = paths.Paths(paths.default().cache, directory / "state", Path("/run/openstack-operator-test"))
    cluster = node.Node(where, programs.ensure(where.cache), lambda line: None)
    before = snapshot()

    try:
        live(cluster, before)
    finally:
        cluster.stop()


def live(cluster: node.Node, before: dict[str, object]) -> None:
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", 10259))
        foreign.listen()
        try:
            cluster.start()
        except host.HostError as refused:
            tell("refused", str(refused).splitlines()[1:])
    tell("changed by a refusal", [k for k, v in snapshot().items() if v != before[k]])

    cluster.start()
    built = images.build_cluster_images(cluster.where.cache, cluster.programs, lambda line: None)
    images.load(cluster.ctr(), built, lambda line: None)
    cluster.addons()
    started = {name: cluster.daemons.pid(name) for name in cluster.daemons.names()}
    cluster.start()
    tell("daemons", sorted(started))
    tell("same after a second start", started == {name: cluster.daemons.pid(name) for name in started})

    for pid in started.values():
        os.kill(pid or 0, signal.SIGKILL)
    node.kill_shims(cluster.where.containerd_socket)
    cgroups.kill(addresses.POD_CGROUP)
    cluster.start()
    deadline = time.monotonic() + 60
    while sum(restarts(cluster)) < 2 and time.monotonic() < deadline:
        time.sleep(0.5)
    tell("restarts of pods after everything was killed", restarts(cluster))

    guest = leave_what_agents_leave()
    cluster.stop()
    tell("guest", guest.wait(10))
    after = snapshot()
    tell("left", {k: [before[k], v] for k, v in after.items() if v != before[k]})
    tell("state is there", cluster.where.state.exists())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
