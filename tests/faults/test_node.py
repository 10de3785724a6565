"""The node and its agents: daemons of Kubernetes, agents of the cloud, and everything at once. The VM lives through all
but the last.
"""

from __future__ import annotations

import concurrent.futures
import time

import machinery
import pytest
import session
from scene import Scene

from openstack_operator.embedded import addresses, cgroups, node

GROUP = "node"
# DaemonSet, and how many seconds the VM may be silent: a switch without its own process forwards nothing.
AGENTS = {
    "ovn-controller": 0.2,
    "ovn-gateway": 0.2,
    "ovn-openvswitch": 3.0,
    "neutron-ovn-agent": 0.2,
    "nova-cell1-compute-libvirt": 0.2,
    "nova-cell1-compute": 0.2,
}
UP_SECONDS = 600
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
    for _ in range(scene.times):
        with scene.fault(f"{daemon} killed with -9 and started again", group=GROUP, silence=0.2):
            machinery.kill_daemons(daemon)
            machinery.start_again()


def test_the_pods_of_an_agent_may_be_deleted(scene: Scene) -> None:
    """Each agent by itself."""
    for name in _agents(scene):
        for _ in range(scene.times):
            with scene.fault(f"pod of {name} deleted", group=GROUP, blames=name, silence=AGENTS[name]):
                _delete_pods(scene, name)


@pytest.mark.chosen
def test_a_compute_that_hangs_takes_no_api_with_it(scene: Scene) -> None:
    """However many want something of it: each keeps a thread of Nova's API waiting."""
    for _ in range(scene.times):
        (pod,) = scene.cluster.items("pods", scene.namespace, _selector(scene, "nova-cell1-compute"))
        with scene.fault("nova-compute hangs, and many ask it", group=GROUP, silence=0.2) as fault:
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
    for _ in range(scene.times):
        with scene.fault("pods of all agents deleted at once", group=GROUP, blames="|".join(AGENTS), silence=3.0):
            _delete_pods(scene, *_agents(scene))


def test_the_whole_node_may_stop_without_warning(scene: Scene) -> None:
    """Every process of the cluster, of its pods and every guest is killed; `./up` brings it all back."""
    for _ in range(scene.times):
        with scene.fault("whole node killed, and ./up", group=GROUP, keeps_guest=False, seconds=UP_SECONDS) as fault:
            found = machinery.embedded_node()
            machinery.kill_daemons(*found.daemons.names())
            cgroups.kill(addresses.GUEST_CGROUP)
            cgroups.kill(addresses.POD_CGROUP)
            node.kill_shims(found.where.containerd_socket)
            done = session.up()
            assert done.returncode == 0, done.stdout[-3000:]
            assert fault.scene.guest_process(), "the VM was not started again"
