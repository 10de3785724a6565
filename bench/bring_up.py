"""How long from `kubectl apply` of a control plane to a VM that answers, beside the same processes started bare.

Each round does both on one machine, one after the other:

  operator  the embedded cluster and the operator are up, and there is no control plane. The clock runs from
            `kubectl apply` over Ready to the first VM's answer, with the code that `up` itself uses.
  bare      no Kubernetes runs. The containers of that very cloud, with its bytes of configuration, are started as plain
            processes by a program that knows the order (`bare/plan.py`), two chains at a time, from the same root file
            systems, on empty volumes. The same VM is asked for.

Both begin on a node without anything of an earlier cloud. What is not the same: bare processes share the machine's
network, where Services' addresses are on the loopback interface; they are in no process namespace and under no seccomp
filter; those that run as root keep all capabilities; their root file systems and volumes are laid out before the clock
runs; the node's agents get private directories in both.

Needs root and what `./up` needs; brings up what is missing with `./up --until operator`. Deletes the control plane
`openstack` with its data. Leaves the cluster with the operator and without a control plane, also on ^C.

    python bench/bring_up.py --rounds 3 --output bench/results/bring-up.json --docs docs
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import bring_up_page
import report
import rollout
from bare import network as bare_network
from bare import snapshot as snapshots
from bare.plan import BringUp
from bare.processes import GROUP, Machine, cpu_seconds
from bare.roots import Roots
from openstack_operator.embedded import addresses, cgroups, cloud, images, ledger, network, node, paths, programs, up
from openstack_operator.kit import names

# After a start of the cluster: its controllers have looked at everything by then.
SETTLE_SECONDS = 15
GONE_SECONDS = 300


def say(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S}  {text}", flush=True)


class Bench:
    """The machine that both sides run on."""

    def __init__(self) -> None:
        self.where = paths.default()
        self.target = up.run(up.Options(source=report.SOURCE, until="operator")).cloud
        built = images.build_all(self.where.cache, self.target.release, report.SOURCE, say)
        self.guest = built.guest
        directory = programs.ensure(self.where.cache, log=say)
        self.cluster = node.Node(self.where, directory, say)
        self.roots = Roots(self.where.state / "bench", built.images)
        self.machine = Machine(self.roots, Path("/tmp/openstack-bench-logs"))

    # --- states of the machine ----------------------------------------------------------------------------------------

    def remove_cloud(self) -> None:
        """Deletes the control plane with everything that is its, and what its agents left on the node."""
        where = ("-n", self.target.namespace)
        kinds = cloud.kubectl(self.target, "api-resources", "--namespaced", "-o", "name", check=False).split()
        ours = [kind for kind in kinds if kind.partition(".")[2].endswith(("openstack.k8s.io", "openstack.org"))]
        for kind in ("openstackcontrolplanes", ",".join(ours)):
            timeout = f"--timeout={GONE_SECONDS}s"
            cloud.kubectl(self.target, "delete", kind, "--all", *where, "--ignore-not-found", timeout)
        cloud.kubectl(
            self.target,
            "delete",
            "namespace",
            self.target.namespace,
            "--ignore-not-found",
            f"--timeout={GONE_SECONDS}s",
        )
        self.clear_node()

    def clear_node(self) -> None:
        """What OVN, OVS and libvirt leave on a node."""
        cgroups.kill(addresses.GUEST_CGROUP)
        for name in addresses.OVN_INTERFACES:
            if network.interface(name) is not None:
                network.run("ip", "link", "delete", name)
        for path in sorted(Path("/run/netns").glob(f"{addresses.OVN_NAMESPACE_PREFIX}*")):
            network.run("ip", "netns", "delete", path.name)
        before = ledger.Ledger.read(self.where.state)
        assert before is not None, "`up` has written it"
        before.remove_agents(keep_data=False)

    def halt_cluster(self) -> None:
        """Ends the cluster's processes and pods; its data, mounts, bridges and packet filter stay."""
        self.cluster.daemons.stop(*node.KUBELET)
        cgroups.kill(addresses.POD_CGROUP, grace=node.POD_GRACE_SECONDS)
        self.cluster.daemons.stop(*node.REST)
        node.kill_shims(self.where.containerd_socket)
        for name in node.STORE:
            self.cluster.daemons.stop(name)

    def resume_cluster(self) -> None:
        self.cluster.start()
        self.cluster.addons()
        wait = ("rollout", "status", "deployment/openstack-operator", "--timeout=120s")
        cloud.kubectl(self.target, "-n", cloud.SYSTEM_NAMESPACE, *wait)

    # --- the two sides ------------------------------------------------------------------------------------------------

    async def operator(self) -> tuple[dict[str, Any], snapshots.Snapshot]:
        """Figures of a rollout by the operator, and what it made."""
        used = rollout.Cpu(lambda: rollout.operator_parts(self.cluster, self.target))
        begin = time.monotonic()
        clock = rollout.monotonic_since(begin)
        said: list[tuple[float, str]] = []

        def log(line: str) -> None:
            said.append((round(clock(), 2), line))
            say(line)

        async with rollout.watched(self.target, clock) as timeline:
            begin_apply = clock()
            await asyncio.to_thread(cloud.deploy, self.target, log)
            ready = clock()
            await asyncio.to_thread(cloud.first_vm, self.target, self.guest, log)
            answers = clock()
        figures = {
            "ready": round(ready - begin_apply, 1),
            "answers": round(answers - begin_apply, 1),
            "cpu": used.used(),
            "memory": round(rollout.operator_memory(), 1),
            "messages": said,
            "objects": {
                name: {"seen": round(at, 2)} | {key: round(value, 2) for key, value in timeline.reached[name].items()}
                for name, at in timeline.seen.items()
            },
        }
        return figures, await asyncio.to_thread(snapshots.take, self.target)

    async def bare(self, taken: snapshots.Snapshot) -> dict[str, Any]:
        """Figures of the same processes without Kubernetes."""
        self.roots.prepare(taken)
        bare_network.prepare(taken)
        self.target.clouds_yaml.touch(mode=0o600)
        self.target.clouds_yaml.write_text(taken.secret(names.admin_secret("keystone"))["clouds.yaml"])
        used = rollout.Cpu(lambda: bare_parts(taken))
        begin = time.monotonic()
        clock = rollout.monotonic_since(begin)
        said: list[tuple[float, str]] = []
        spans = await BringUp(taken, self.machine).run(begin)
        ready = clock()
        say(f"bare: services after {ready:.1f} s")

        def log(line: str) -> None:
            said.append((round(clock(), 2), line))
            say(line)

        await asyncio.to_thread(cloud.first_vm, self.target, self.guest, log)
        answers = clock()
        cpu = used.used()
        steps = {one.name: [round(one.begin, 2), round(one.end, 2)] for one in spans}
        return {"ready": round(ready, 1), "answers": round(answers, 1), "cpu": cpu, "messages": said, "steps": steps}

    def clear_bare(self) -> None:
        self.machine.stop()
        bare_network.clear()
        self.roots.clear()
        self.clear_node()

    @contextlib.contextmanager
    def without_cluster(self) -> Iterator[None]:
        """The machine as the bare side needs it; the cluster is back afterwards, whatever happens."""
        self.halt_cluster()
        try:
            yield
        finally:
            self.clear_bare()
            self.resume_cluster()

    def round(self) -> dict[str, Any]:
        say("operator: apply")
        operator, taken = asyncio.run(self.operator())
        say(f"operator: Ready after {operator['ready']} s, a VM answers after {operator['answers']} s")
        self.remove_cloud()
        say("bare: start")
        with self.without_cluster():
            bare = asyncio.run(self.bare(taken))
            say(f"bare: services after {bare['ready']} s, a VM answers after {bare['answers']} s")
        return {"operator": operator, "bare": bare}


def bare_parts(taken: snapshots.Snapshot) -> dict[str, float]:
    """CPU time by part of a bare control plane, with the names that the operator's side has."""
    jobs = sum(cpu_seconds(f"{GROUP}/{pod.name}") for pod in taken.pods.values() if pod.is_job)
    return {
        "services": cpu_seconds(GROUP) - jobs,
        "Jobs": jobs,
        "guest": cpu_seconds(addresses.GUEST_CGROUP),
        "whole machine": rollout.machine_seconds(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("bring-up.json"), help="JSON file with everything measured")
    parser.add_argument("--docs", type=Path, help="directory whose benchmarks.md and bring-up.svg are written")
    arguments = parser.parse_args()
    # An ordinary end of the program takes everything back, as ^C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    bench = Bench()
    bench.remove_cloud()
    result: dict[str, Any] = {"machine": report.machine() | {"release": bench.target.release}, "rounds": []}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    for number in range(arguments.rounds):
        # The same for the first round, whose cluster may have started a moment ago, and for the others.
        time.sleep(SETTLE_SECONDS)
        say(f"round {number + 1} of {arguments.rounds}")
        result["rounds"].append(bench.round())
        # After each round: what was measured outlives a failure in the next one.
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(bring_up_page.table(result))
    if arguments.docs:
        bring_up_page.write(result, arguments.docs)


if __name__ == "__main__":
    main()
