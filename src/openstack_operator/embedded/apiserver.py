"""A control plane of one etcd and one kube-apiserver on loopback, for tests of controllers and of their faults.

Called by the fixtures in tests/conftest.py. It is a real apiserver with an audit log, ready in four seconds. There
is no node and, unless asked for, no kube-controller-manager: nothing collects garbage, finishes the deletion of a
namespace or fills the status of a Deployment, so a test does that itself. The whole cluster is in `node`.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from openstack_operator.embedded import commandlines, pki
from openstack_operator.runtime import errors

READY_SECONDS = 60
LARGEST_LOG_MEGABYTES = 20_000


class ApiserverError(errors.OperatorError):
    """The control plane does not start or refused a request; the message says why."""


class RequestError(ApiserverError):
    """The apiserver answered a request with an error."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body[:1000]}")
        self.status = status
        self.body = body


class ControlPlane:
    """etcd and kube-apiserver with their files below `directory`; a context manager.

    The names of the components are the programs' names: `kill("kube-apiserver")`, then `run("kube-apiserver")`. Ports
    stay the same over a restart, so that a client under test can come back. All methods block.
    """

    def __init__(self, programs: Path, directory: Path, *, controller_manager: bool = False) -> None:
        self.directory = directory
        self.controller_manager = controller_manager
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        etcd_port, peer_port, port, self.manager_port = free_ports(4)
        self.cluster = commandlines.Cluster(
            programs=programs,
            pki=directory / "pki",
            etcd_data=directory / "etcd",
            etcd_port=etcd_port,
            etcd_peer_port=peer_port,
            address="127.0.0.1",
            port=port,
            services="10.96.0.0/16",
            audit_policy=directory / "audit-policy.yaml",
            audit_log=directory / "audit.log",
            # Nothing makes the service account "default" without the controller manager, and pods would be refused.
            disabled_admission=() if controller_manager else ("ServiceAccount",),
            # A test that counts requests reads the log as soon as it has its answer.
            # Its size is a place in it, so it is never rotated; it goes with the directory.
            extra_apiserver=("--audit-log-mode=blocking", f"--audit-log-maxsize={LARGEST_LOG_MEGABYTES}"),
        )
        self._tls: ssl.SSLContext | None = None

    # --- life -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Starts what does not run and waits until the apiserver is ready."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.cluster.audit_policy.write_text(commandlines.AUDIT_POLICY)
        pki.Authority(self.cluster.pki, self.url).make_cluster(["IP:127.0.0.1", "DNS:localhost"])
        self.run("etcd")
        self.run("kube-apiserver")
        self.wait_ready()
        if self.controller_manager:
            self.run("kube-controller-manager")

    def stop(self) -> None:
        """Ends everything that was started, the apiserver before its store."""
        for name in reversed(list(self.processes)):
            self.terminate(name)

    def run(self, name: str) -> None:
        """Starts one component, unless it runs."""
        if self.is_running(name):
            return
        argv = {
            "etcd": commandlines.etcd(self.cluster),
            "kube-apiserver": commandlines.kube_apiserver(self.cluster),
            "kube-controller-manager": commandlines.kube_controller_manager(self.cluster, self.manager_port),
        }[name]
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                # The kernel ends the component when the test run ends in a way that runs no clean-up.
                ["setpriv", "--pdeathsig", "KILL", *argv],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def terminate(self, name: str) -> None:
        """Ends a component in an orderly way; kills it after ten seconds."""
        process = self.processes.pop(name, None)
        if process is None:
            return
        # A paused process handles no signal but SIGKILL until it goes on.
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self, name: str) -> None:
        """Kills a component as a crash would: SIGKILL, and its connections are cut."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def pause(self, name: str) -> None:
        """Stops a component without closing its connections: a hang."""
        self.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Kills a component, starts it again and waits until the apiserver is ready."""
        self.kill(name)
        self.run(name)
        self.wait_ready()

    def is_running(self, name: str) -> bool:
        return name in self.processes and self.processes[name].poll() is None

    def wait_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise ApiserverError(f"{name} ended with {process.returncode}: {self.log_tail(name)}")
            try:
                self.request("GET", "/readyz", timeout=2)
                return
            except (RequestError, OSError, http.client.HTTPException) as error:
                if time.monotonic() > deadline:
                    raise ApiserverError(f"kube-apiserver is not ready: {error}") from error
            time.sleep(0.05)

    def log_tail(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")[-1500:]

    # --- use ------------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self.cluster.url

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, certificates included."""
        return self.cluster.pki / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON object (audit.k8s.io/v1 Event) per line; lines are there when the request is answered."""
        return self.cluster.audit_log

    def audit_events(self, since: int = 0) -> list[dict[str, Any]]:
        """The audit log's events from byte `since` on; `audit_size()` before an action gives that number."""
        with self.audit_log.open("rb") as file:
            file.seek(since)
            return [json.loads(line) for line in file if line.endswith(b"\n")]

    def audit_size(self) -> int:
        return self.audit_log.stat().st_size if self.audit_log.exists() else 0

    def tls(self) -> ssl.SSLContext:
        """A client context with the administrator's certificate."""
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self.cluster.pki / "ca.crt")
            self._tls.load_cert_chain(self.cluster.pki / "admin.crt", self.cluster.pki / "admin.key")
        return self._tls

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        content_type: str = "application/json",
        timeout: float = 30,
    ) -> Any:
        """One HTTP request as administrator: the decoded JSON answer, or text. Raises RequestError from 400 on."""
        target = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            target.hostname or "", target.port, context=self.tls(), timeout=timeout
        )
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": content_type, "Accept": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 400:
            raise RequestError(answer.status, text)
        return json.loads(text) if text.startswith("{") else text

    def apply(self, *objects: Mapping[str, Any], namespace: str = "", manager: str = "test") -> None:
        """Server-side apply through kubectl, which knows every kind's path. Raises ApiserverError with what it said."""
        text = "\n---\n".join(json.dumps(o) for o in objects)
        where = ["-n", namespace] if namespace else []
        self.kubectl("apply", "--server-side", f"--field-manager={manager}", *where, "-f", "-", stdin=text)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Runs kubectl as administrator; its output. Raises ApiserverError with what it said."""
        done = subprocess.run(
            [str(self.cluster.programs / "kubectl"), *arguments],
            input=stdin, check=False, capture_output=True, text=True,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.directory)},
        )  # fmt: skip
        if done.returncode:
            raise ApiserverError(done.stderr.strip())
        return done.stdout


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now. They are held together, so that all differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
