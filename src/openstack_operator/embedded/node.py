"""The embedded cluster: one machine that is control plane and node at once. Started, found again, stopped, removed.

Called by `up` and `down`. Every step looks first and does what is left to do, so that `start` serves a fresh machine,
a second run, a machine after a reboot and one whose processes were all killed. What `start` makes, `stop` takes away:

    before.json -> routes, filter, bridges -> mounts, control groups -> etcd, apiserver, managers
        -> containerd -> kubelet, kube-proxy -> node Ready -> labels -> (images) -> add-ons

The pods' images are loaded by `images`, between the last two.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

import openstack_operator
from openstack_operator.embedded import (
    addresses,
    cgroups,
    commandlines,
    configuration,
    existing,
    host,
    ledger,
    leftovers,
    mounts,
    network,
    paths,
    pki,
    processes,
)
from openstack_operator.runtime import errors

Log = Callable[[str], None]

LABELS = {existing.COMPUTE: "true", existing.NETWORK: "true"}

# Ended in this order: first who would start again what is ended next.
KUBELET = ("kubelet",)
REST = ("provisioner", "containerd", "kube-proxy", "kube-scheduler", "kube-controller-manager")
# One after the other: an apiserver that loses its store takes ten seconds to end.
STORE = ("kube-apiserver", "etcd")

POD_GRACE_SECONDS = 10

# By default Go collects garbage whenever a heap has doubled. Here heaps are small and grow much while a cloud comes up:
# a quarter of the API server's CPU time was that. Up to the limit they may grow fivefold instead.
GO_MEMORY = {"GOGC": "400", "GOMEMLIMIT": "768MiB"}


class NodeError(errors.OperatorError):
    """The cluster does not start or stop; the message says at which part and what it said."""


@dataclass
class Node:
    """The cluster whose files are at `where`. `programs` is the directory that `programs.ensure` gives."""

    where: paths.Paths
    programs: Path
    log: Log = print
    daemons: processes.Daemons = field(init=False)

    def __post_init__(self) -> None:
        self.daemons = processes.Daemons(self.where.pids, self.where.logs)

    # --- start ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """From whatever is there to a node that is Ready. Raises HostError before any change if it cannot be."""
        host.require_root()
        found = host.conflicts(self.where) + host.missing_abilities()
        if found:
            raise host.HostError("this machine cannot carry the cluster:\n" + "\n".join(f"  - {one}" for one in found))
        with locked(self.where):
            self.prepare()
            self.start_control_plane()
            self.start_node()
            self.label()

    def prepare(self) -> None:
        """The machine's part: nothing of the cluster runs before the packet filter is in place."""
        self.where.state.mkdir(parents=True, exist_ok=True, mode=0o711)
        before = ledger.Ledger.begin(self.where.state)
        self.where.run.mkdir(parents=True, exist_ok=True, mode=0o711)
        self.where.volumes.mkdir(exist_ok=True, mode=0o711)
        network.prepare(before)
        share_mounts(before, self.where.state, self.where.run, Path("/run/netns"))
        cgroups.make(addresses.POD_CGROUP)
        cgroups.make(addresses.GUEST_CGROUP)

    def start_control_plane(self) -> None:
        cluster = self.cluster()
        cluster.audit_log.parent.mkdir(parents=True, exist_ok=True)
        write_changed(cluster.audit_policy, commandlines.AUDIT_POLICY)
        authority = pki.Authority(self.where.pki, cluster.url)
        service = f"kubernetes.default.svc.{addresses.CLUSTER_DOMAIN}"
        authority.make_cluster(
            [
                *(f"IP:{a}" for a in (addresses.NODE_ADDRESS, addresses.SERVICE_OF_APISERVER, "127.0.0.1")),
                *(
                    f"DNS:{n}"
                    for n in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", service)
                ),
            ]
        )
        authority.make_node(addresses.NODE_NAME, addresses.NODE_ADDRESS)
        shutil.copy(self.where.pki / "admin.kubeconfig", self.where.kubeconfig)
        self.run("etcd", commandlines.etcd(cluster))
        self.run("kube-apiserver", commandlines.kube_apiserver(cluster))
        self.wait_for("kube-apiserver", 60, lambda: self.succeeds("get", "--raw", "/readyz"))
        self.run("kube-controller-manager", commandlines.kube_controller_manager(cluster))
        self.run("kube-scheduler", commandlines.kube_scheduler(cluster))
        self.run("provisioner", self.provisioner())

    def start_node(self) -> None:
        state, run, keys = self.where.state, self.where.run, self.where.pki
        cni = state / "cni.d"
        may_raise = host.has_capability(host.CAP_SYS_RESOURCE)
        write_changed(state / "resolv.conf", "")
        write_changed(cni / "10-pods.conflist", configuration.cni(state))
        write_changed(
            state / "containerd.toml",
            configuration.containerd(
                programs=self.programs, state=state, run=run, cni=cni, may_raise_priority=may_raise
            ),
        )
        write_changed(state / "kubelet.json", configuration.kubelet(pki=keys, state=state, run=run))
        # kube-proxy ends when its file is written again, even with the same content.
        write_changed(state / "kube-proxy.json", configuration.kube_proxy(keys))
        if not self.daemons.is_alive("containerd"):
            # A killed one leaves its socket; a kubelet that finds it comes too early and ends.
            self.where.containerd_socket.unlink(missing_ok=True)
        self.run("containerd", [f"{self.programs}/containerd", "--config", f"{state}/containerd.toml", "-l", "warn"])
        self.wait_for("containerd", 30, lambda: host.answers(str(self.where.containerd_socket)))
        self.run("kube-proxy", [f"{self.programs}/kube-proxy", f"--config={state}/kube-proxy.json"])
        deadline = time.monotonic() + 90
        while not (self.run_kubelet() and self.is_ready()):
            # The kubelet ends when it comes before containerd's other half is ready; it is started again.
            if time.monotonic() > deadline:
                raise NodeError(f"the node is not Ready after 90 s; kubelet says:\n{self.daemons.log_tail('kubelet')}")
            time.sleep(0.2)

    def run_kubelet(self) -> bool:
        """Starts the kubelet unless it runs; whether it ran already."""
        started = self.daemons.start(
            "kubelet",
            [
                f"{self.programs}/kubelet",
                f"--config={self.where.state}/kubelet.json",
                f"--kubeconfig={self.where.pki}/node-{addresses.NODE_NAME}.kubeconfig",
                f"--hostname-override={addresses.NODE_NAME}",
                f"--node-ip={addresses.NODE_ADDRESS}",
                f"--root-dir={self.where.state}/kubelet",
                f"--cert-dir={self.where.state}/kubelet/pki",
                "--v=1",
            ],
            environment=self.environment(),
        )
        return not started

    def is_ready(self) -> bool:
        """Whether the node is Ready, said by this run of the kubelet: not by the one before a crash."""
        try:
            node = self.get("node", addresses.NODE_NAME)
        except NodeError:
            return False
        ready = next((c for c in node.get("status", {}).get("conditions", ()) if c["type"] == "Ready"), None)
        started = self.daemons.started_at("kubelet")
        if ready is None or started is None or ready["status"] != "True":
            return False
        # Kubernetes counts whole seconds.
        return datetime.fromisoformat(ready["lastHeartbeatTime"]).timestamp() >= int(started)

    def label(self) -> None:
        """Labels that the kubelet may not give itself, since their names end in k8s.io."""
        self.kubectl("label", "--overwrite", "node", addresses.NODE_NAME, *(f"{k}={v}" for k, v in LABELS.items()))

    def addons(self) -> None:
        """Cluster DNS, the policy agent and what else is in `manifests/`; waits until they serve."""
        manifests = configuration.manifests()
        for one in yaml.safe_load_all(manifests):
            if one["kind"] == "StorageClass":
                self.make_way_for(one)
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
        for what in ("deployment/coredns", "daemonset/kube-network-policies"):
            self.kubectl("-n", "kube-system", "rollout", "status", "--timeout=120s", what)

    def make_way_for(self, wanted: Mapping[str, Any]) -> None:
        """Removes a StorageClass of an earlier version that differs: none can be changed, and its volumes stay."""
        name, mode = wanted["metadata"]["name"], "volumeBindingMode"
        show = ("-o", f"jsonpath={{.{mode}}}", "--ignore-not-found")
        if self.kubectl("get", "storageclass", name, *show) not in ("", wanted[mode]):
            self.kubectl("delete", "storageclass", name)

    # --- stop -----------------------------------------------------------------------------------------------------

    def stop(self, *, keep_data: bool = False) -> None:
        """Ends everything of the cluster, guests included, and takes away what it made, and nothing else.

        With `keep_data` the state directory stays: volumes, the cluster's objects, images; the next `start` goes on
        with it.
        """
        host.require_root()
        if not self.where.state.exists():
            return
        with locked(self.where):
            before = ledger.Ledger.read(self.where.state)
            if before is None:
                raise NodeError(f"{self.where.state} was not made by `up`: it is left alone")
            self.log("ending pods and guests")
            self.daemons.stop(*KUBELET)
            cgroups.kill(addresses.GUEST_CGROUP)
            # An orderly end matters to data that stays.
            cgroups.kill(addresses.POD_CGROUP, grace=POD_GRACE_SECONDS if keep_data else 0)
            self.log("ending the cluster's programs")
            self.daemons.stop(*REST)
            kill_shims(self.where.containerd_socket)
            for name in STORE:
                self.daemons.stop(name)
            self.log("removing mounts, interfaces and rules")
            mounts.unmount(self.where.state, self.where.run)
            network.remove(before)
            self.remove_groups()
            if before.boot == processes.boot():
                for point in before.made_shared:
                    network.run_if_possible("mount", "--make-private", point)
            shutil.rmtree(self.where.run, ignore_errors=True)
            leftovers.remove(self.where.state, before, keep_data=keep_data)
            if not keep_data:
                self.remove_state()

    def remove_groups(self) -> None:
        left = cgroups.remove(addresses.POD_CGROUP) + cgroups.remove(addresses.GUEST_CGROUP)
        if left:
            self.log(f"these control groups are in use still: {', '.join(left)}")

    def remove_state(self) -> None:
        """The state directory, if nothing is mounted in it: a mount left there would be emptied with it."""
        mounted = mounts.below(self.where.state)
        if mounted:
            raise NodeError(f"these are mounted still, so {self.where.state} stays: {', '.join(mounted)}")
        shutil.rmtree(self.where.state)

    # --- use ------------------------------------------------------------------------------------------------------

    def cluster(self) -> commandlines.Cluster:
        return commandlines.Cluster(
            programs=self.programs,
            pki=self.where.pki,
            etcd_data=self.where.state / "etcd",
            etcd_port=addresses.ETCD_PORT,
            etcd_peer_port=addresses.ETCD_PEER_PORT,
            address=addresses.NODE_ADDRESS,
            port=addresses.API_PORT,
            services=addresses.SERVICE_RANGE,
            domain=addresses.CLUSTER_DOMAIN,
            audit_policy=self.where.state / "audit-policy.yaml",
            audit_log=self.where.logs / "audit.log",
        )

    def provisioner(self) -> list[str]:
        """The command of the daemon that serves the default StorageClass."""
        module = "openstack_operator.embedded.provisioner"
        return [sys.executable, "-m", module, str(self.where.kubeconfig), str(self.where.volumes), addresses.NODE_NAME]

    def environment(self) -> dict[str, str]:
        """For the cluster's programs: containerd finds its shim, kube-proxy nft, and the provisioner its modules."""
        search = f"{self.programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        modules = Path(openstack_operator.__file__).parents[1]
        return {"PATH": search, "HOME": "/root", "LANG": "C.UTF-8", "PYTHONPATH": str(modules), **GO_MEMORY}

    def run(self, name: str, command: list[str]) -> None:
        if self.daemons.start(name, command, environment=self.environment()):
            self.log(f"started {name}")

    def wait_for(self, name: str, seconds: float, is_there: Callable[[], bool]) -> None:
        """Waits until a daemon serves. Raises NodeError with its last words when it ends or takes longer."""
        deadline = time.monotonic() + seconds
        while not is_there():
            if not self.daemons.is_alive(name):
                raise NodeError(f"{name} ended:\n{self.daemons.log_tail(name)}")
            if time.monotonic() > deadline:
                raise NodeError(f"{name} does not serve after {seconds:.0f} s:\n{self.daemons.log_tail(name)}")
            time.sleep(0.1)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Runs kubectl as administrator. Raises NodeError with what it said."""
        done = subprocess.run(
            [f"{self.programs}/kubectl", f"--kubeconfig={self.where.kubeconfig}", *arguments],
            input=stdin, check=False, capture_output=True, text=True, env=os.environ | self.environment(),
        )  # fmt: skip
        if done.returncode:
            raise NodeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def succeeds(self, *arguments: str) -> bool:
        try:
            self.kubectl("--request-timeout=2s", *arguments)
        except NodeError:
            return False
        return True

    def get(self, kind: str, name: str, *, namespace: str = "") -> Mapping[str, Any]:
        where = ["-n", namespace] if namespace else []
        found: dict[str, Any] = json.loads(self.kubectl(*where, "get", kind, name, "-o", "json"))
        return found

    def ctr(self) -> list[str]:
        """The command that speaks to this containerd, ready for its arguments."""
        return [f"{self.programs}/ctr", "-a", str(self.where.containerd_socket)]


# --- files, mounts, processes -----------------------------------------------------------------------------------------


@contextmanager
def locked(where: paths.Paths) -> Iterator[None]:
    """Only one `up` or `down` at a time. The lock is beside the state directory, which `down` removes."""
    where.state.parent.mkdir(parents=True, exist_ok=True)
    path = Path("/run") / f"{where.state.name}.lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NodeError("another `up` or `down` is at work on this machine") from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def write_changed(path: Path, text: str) -> bool:
    """Writes a file in one step unless it has this text already; whether it was written."""
    try:
        if path.read_text() == text:
            return False
    except OSError:
        path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f"{path.name}.new")
    staging.write_text(text)
    staging.rename(path)
    return True


def share_mounts(before: ledger.Ledger, *directories: Path) -> None:
    """Lets mounts below some directories pass between the machine and pods, where they do not; `before` remembers."""
    for point in sorted({mounts.point_of(directory) for directory in directories}):
        if not mounts.is_shared(point):
            before.made_shared.append(point)
            before.write()
            network.run("mount", "--make-shared", point)


def kill_shims(socket: Path) -> None:
    """Ends what containerd leaves of its pods: one shim process each, known by the socket it was started for."""
    for entry in processes.PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if arguments[0].endswith(b"containerd-shim-runc-v2") and str(socket).encode() in arguments:
            pid = int(entry.name)
            started = processes.start_time(pid)
            if started is not None:
                processes.kill(processes.Identity(pid, started, processes.boot()))
