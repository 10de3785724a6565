"""The node and its agents: daemons of Kubernetes, agents of the cloud, and everything at once. The VM lives through all
but the last.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import time
import uuid
from collections.abc import Iterator

import lines
import machinery
import paramiko
import pytest
import session
from clusters import Object, is_ready
from guests import until
from scene import QUIET, Scene

from openstack_operator.embedded import addresses, cgroups, node

pytestmark = pytest.mark.usefixtures("again")

GROUP = "node"
SWITCH = "ovn-openvswitch"
# DaemonSet, and how many seconds the VM may be silent: a switch without its own process forwards nothing.
AGENTS = {
    "ovn-controller": QUIET,
    "ovn-gateway": QUIET,
    SWITCH: 3.0,
    "neutron-ovn-agent": QUIET,
    "nova-cell1-compute-libvirt": QUIET,
    "nova-cell1-compute": QUIET,
}
UP_SECONDS = 600
ON_DISK, BOOT = "/mnt/faults", "/proc/sys/kernel/random/boot_id"
# Who asks it waits a minute for each answer.
ASKING, HANGS_SECONDS = 12, 20


def _agents(scene: Scene) -> list[str]:
    found = scene.cluster.items("daemonsets", scene.namespace)
    return sorted(one["metadata"]["name"] for one in found if one["status"]["desiredNumberScheduled"])


def _selector(scene: Scene, daemonset: str) -> str:
    """Of its pods: one agent's name may begin as another's does."""
    labels = scene.cluster.get("daemonsets", daemonset, scene.namespace)["spec"]["selector"]["matchLabels"]
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _delete_pods(scene: Scene, *daemonsets: str) -> None:
    for name in daemonsets:
        selector = _selector(scene, name)
        scene.cluster.kubectl("delete", "pods", "-n", scene.namespace, "-l", selector, "--wait=false")


@pytest.mark.parametrize("daemon", ["containerd", "kubelet", "kube-proxy"])
def test_a_daemon_of_the_node_may_be_killed_and_started_again(scene: Scene, daemon: str) -> None:
    with scene.fault(f"{daemon} killed with -9 and started again", group=GROUP, silence=QUIET):
        machinery.kill_daemons(daemon)
        machinery.start_again()


def test_the_pods_of_an_agent_may_be_deleted(scene: Scene) -> None:
    """Regression r62. Each agent by itself."""
    for name in _agents(scene):
        with scene.fault(f"pod of {name} deleted", group=GROUP, blames=lines.of(name), silence=AGENTS[name]):
            _delete_pods(scene, name)


@pytest.mark.chosen
def test_a_switch_needs_no_controller_to_forward_again(scene: Scene) -> None:
    """What it ended with it knows from its start: its flows, and the groups and meters that they may name."""
    with scene.fault(
        f"pod of {SWITCH} deleted while ovn-controller hangs",
        group=GROUP,
        blames=lines.of(SWITCH),
        silence=AGENTS[SWITCH],
    ) as fault:
        with _controllers_hang(scene):
            (old,) = scene.cluster.items("pods", scene.namespace, _selector(scene, SWITCH))
            _in_switch(scene, old, GROUP_AND_METERS)
            before = _in_switch(scene, old, KNOWN)
            for added in ("group_id=4711", "meter=4711", "meter=4712", "cookie=0x4711"):
                assert any(added in line for line in before), before
            fault.begin()
            _delete_pods(scene, SWITCH)
            is_new = functools.partial(_ready_instead_of, scene, old)
            new = until(is_new, "the switch has another pod that is ready", seconds=60)
            assert _in_switch(scene, new, KNOWN) == before
            assert scene.echoes.answers_now()
            fault.mend()


# As load balancers and limits have them, in a table that nothing goes to.
GROUP_AND_METERS = """
set -e
ofctl() { ovs-ofctl -O OpenFlow15 "$@"; }
group=group_id=4711,type=select,selection_method=dp_hash
ofctl add-group $BR_INT $group,bucket=bucket_id:0,weight:100,actions=drop,bucket=bucket_id:1,weight:50,actions=drop
ofctl add-meter $BR_INT meter=4711,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=800
ofctl add-meter $BR_INT meter=4712,pktps,stats,bands=type=drop,rate=20
ofctl add-flow $BR_INT cookie=0x4711,table=250,priority=1,ip,actions=meter:4711,group:4711
"""
KNOWN = """
for what in tlv-map groups meters "flows --no-names --no-stats"; do
  ovs-ofctl -O OpenFlow15 dump-$what $BR_INT
done
"""


def _in_switch(scene: Scene, pod: Object, script: str) -> list[str]:
    """Lines that the script says, without what tells one call from another. What a text does not tell is not told here
    either: with no list of controllers, `dec_ttl` means the first of them, who is asked for nothing that OVN lets
    through."""
    where = ("-n", scene.namespace, "-c", "ovs-vswitchd", pod["metadata"]["name"])
    environment = "env", "BR_INT=unix:/run/openvswitch/br-int.mgmt"
    said = scene.cluster.kubectl("exec", *where, "--", *environment, "sh", "-c", script)
    return sorted(line for line in said.replace("dec_ttl()", "dec_ttl").splitlines() if "xid=" not in line)


def _ready_instead_of(scene: Scene, old: Object) -> Object | None:
    """The switch's new pod, once it is ready."""
    for pod in scene.cluster.items("pods", scene.namespace, _selector(scene, SWITCH)):
        if pod["metadata"]["uid"] != old["metadata"]["uid"] and is_ready(pod):
            return pod
    return None


@contextlib.contextmanager
def _controllers_hang(scene: Scene) -> Iterator[None]:
    with contextlib.ExitStack() as hanging:
        for name in {"ovn-controller", "ovn-gateway"} & set(_agents(scene)):
            for pod in scene.cluster.items("pods", scene.namespace, _selector(scene, name)):
                hanging.enter_context(machinery.stopped(machinery.main_process(pod)))
        yield


@pytest.mark.chosen
def test_a_compute_that_hangs_takes_no_api_with_it(scene: Scene) -> None:
    """However many want something of it: each keeps a thread of Nova's API waiting."""
    (pod,) = scene.cluster.items("pods", scene.namespace, _selector(scene, "nova-cell1-compute"))
    with scene.fault("nova-compute hangs, and many ask it", group=GROUP, silence=QUIET) as fault:
        with concurrent.futures.ThreadPoolExecutor(ASKING) as users:
            with machinery.stopped(machinery.main_process(pod)):
                asked = [users.submit(_console, scene) for _ in range(ASKING)]
                time.sleep(HANGS_SECONDS)
                assert not any(one.done() for one in asked), "nova-compute answered"
                fault.mend()
            assert all(one.result() is not None for one in asked)
    assert scene.apis.failed(fault.began, fault.mended or 0) == {}


def _console(scene: Scene) -> dict[str, str]:
    """What the VM wrote to its console, which its compute is asked for."""
    found: dict[str, str] = scene.cloud.connect().compute.get_server_console_output(scene.guest.server.id)
    return found


@pytest.mark.chosen
def test_the_pods_of_all_agents_may_be_deleted_at_once(scene: Scene) -> None:
    with scene.fault("pods of all agents deleted at once", group=GROUP, blames=lines.of(*AGENTS), silence=3.0):
        _delete_pods(scene, *_agents(scene))


def test_the_whole_node_may_stop_without_warning(scene: Scene) -> None:
    """Every process of the cluster, of its pods and every guest is killed; `./up` brings it all back, and the VM starts
    anew from its disk. Its root is in memory: what it wrote and synced is on the disk that it starts from."""
    words = uuid.uuid4().hex
    # Of the guest's kernel, `sync` on this file system writes, and does not tell the disk to keep; fsync does.
    write = f"echo {words} > {ON_DISK} && sync && dd if=/dev/null of={ON_DISK}.kept conv=fsync 2> /dev/null"
    written, boot = _in_guest(scene, f"{write} && cat {ON_DISK} {BOOT}").split()
    assert written == words
    with scene.fault("whole node killed, and ./up", group=GROUP, keeps_guest=False, seconds=UP_SECONDS):
        found = machinery.embedded_node()
        machinery.kill_daemons(*found.daemons.names())
        cgroups.kill(addresses.GUEST_CGROUP)
        cgroups.kill(addresses.POD_CGROUP)
        node.kill_shims(found.where.containerd_socket)
        done = session.up()
        assert done.returncode == 0, done.stdout[-3000:]
        assert scene.guest_process(), "the VM was not started again"
    assert _in_guest(scene, f"cat {ON_DISK}") == words
    assert _in_guest(scene, f"cat {BOOT}") not in ("", boot), "it has not started anew"


def _in_guest(scene: Scene, command: str) -> str:
    """What a command in the VM says, over ssh, which a VM that starts has later than it answers echoes."""

    def said() -> str | None:
        try:
            return scene.guest.run(command).strip()
        except (EOFError, OSError, paramiko.SSHException):
            return None

    found: str = until(lambda: (text := said()) is not None and [text], f"ssh to {scene.guest.address}", 120)[0]
    return found
