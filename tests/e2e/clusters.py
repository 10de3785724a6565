"""A Kubernetes cluster as the end-to-end tests see it: through kubectl, with waits that are watches and say what is
unmet when their time is over. Knows Kubernetes and nothing of OpenStack; `clouds` has the rest.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openstack_operator.embedded import audit

Object = dict[str, Any]

OPERATOR_NAMESPACE = "openstack-operator-system"
OPERATOR = "deployment/openstack-operator"
MANAGED = "app.kubernetes.io/managed-by=openstack-operator"
API_GROUPS = ("openstack.k8s.io", "nova.openstack.org")

CALL_SECONDS = 120
WATCH_SECONDS = 10


class ClusterError(AssertionError):
    """kubectl failed, or something that was waited for did not come."""


def condition(item: Object | None, name: str) -> Object:
    """A condition; one that says nothing where there is none."""
    found = (item or {}).get("status", {}).get("conditions") or []
    return next((one for one in found if one["type"] == name), {"status": "Unknown", "reason": "", "message": ""})


def is_ready(item: Object | None) -> bool:
    """Ready for the generation that stands in the spec."""
    ready = condition(item, "Ready")
    return item is not None and ready["status"] == "True" and _is_current(item, ready)


def is_stalled(item: Object | None) -> bool:
    """Stalled, as of the present spec."""
    stalled = condition(item, "Stalled")
    return item is not None and stalled["status"] == "True" and _is_current(item, stalled)


def _is_current(item: Object, found: Object) -> bool:
    return bool(found.get("observedGeneration") == item["metadata"]["generation"])


def container_statuses(pod: Object) -> list[Object]:
    """Of all its containers, those that come first included."""
    status = pod["status"]
    return [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]


def is_available(item: Object | None) -> bool:
    """A workload that runs what its spec says."""
    if item is None or item.get("status", {}).get("observedGeneration", 0) < item["metadata"]["generation"]:
        return False
    status = item["status"]
    if item["kind"] == "DaemonSet":
        wanted = status["desiredNumberScheduled"]
        return bool(wanted == status.get("numberAvailable", 0) == status.get("updatedNumberScheduled", 0))
    wanted = item["spec"]["replicas"]
    return bool(wanted == status.get("availableReplicas", 0) == status.get("updatedReplicas", 0) == status["replicas"])


def owner(item: Object) -> tuple[str, str]:
    """Kind and name of the object that controls this one."""
    references = item["metadata"].get("ownerReferences", [])
    return next(((one["kind"], one["name"]) for one in references if one.get("controller")), ("", ""))


@dataclass(frozen=True)
class Cluster:
    """One cluster. `state` is where the embedded one keeps its files."""

    kubectl_program: Path
    kubeconfig: Path
    state: Path

    @property
    def audit_log(self) -> Path:
        return self.state / "log" / "audit.log"

    # --- asking -------------------------------------------------------------------------------------------------------

    def command(self, *arguments: str) -> list[str]:
        return [str(self.kubectl_program), f"--kubeconfig={self.kubeconfig}", *arguments]

    def kubectl(self, *arguments: str, stdin: str | None = None, seconds: float = CALL_SECONDS) -> str:
        """Output of a call. Raises ClusterError with kubectl's words, or where it has none for so long."""
        try:
            done = subprocess.run(
                self.command(*arguments), check=False, capture_output=True, text=True, input=stdin, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"kubectl {' '.join(arguments[:6])}: no answer within {seconds:.0f} s") from None
        if done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(arguments[:6])}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def items(self, resource: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        """All objects of one or more kinds (comma-separated), in one namespace or in all."""
        where = ["-n", namespace] if namespace else ["-A"]
        labels = ["-l", selector] if selector else []
        found: list[Object] = json.loads(self.kubectl("get", resource, *where, *labels, "-o", "json"))["items"]
        return found

    def find(self, resource: str, name: str, namespace: str) -> Object | None:
        """One object, or None."""
        text = self.kubectl("get", resource, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text else None

    def get(self, resource: str, name: str, namespace: str) -> Object:
        found = self.find(resource, name, namespace)
        if found is None:
            raise ClusterError(f"{resource} {namespace}/{name} does not exist")
        return found

    def kinds_in(self, namespaced: bool = True) -> list[str]:
        """Every resource that can be listed, as resource.group."""
        flag = f"--namespaced={str(namespaced).lower()}"
        return self.kubectl("api-resources", "--verbs=list", flag, "-o", "name").split()

    # --- changing -----------------------------------------------------------------------------------------------------

    def apply(self, *objects: Object) -> None:
        text = "---\n".join(json.dumps(one) + "\n" for one in objects)
        self.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=e2e", "-f", "-", stdin=text)

    def patch(self, resource: str, name: str, namespace: str, change: Object) -> None:
        """A merge patch, as somebody at a keyboard would send."""
        self.kubectl("patch", resource, name, "-n", namespace, "--type=merge", "-p", json.dumps(change))

    def delete(self, resource: str, name: str, namespace: str, *, wait: bool = False) -> None:
        self.kubectl("delete", resource, name, "-n", namespace, f"--wait={str(wait).lower()}", "--ignore-not-found")

    # --- waiting ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def watch(self, resource: str, *arguments: str, seconds: float) -> Iterator[Iterator[tuple[str, Object]]]:
        """Events (type, object) of a watch, the present objects first; it ends by itself when the time is over."""
        command = self.command("get", resource, *arguments, "-w", "--output-watch-events", "-o", "json")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        timer = threading.Timer(seconds, process.kill)
        timer.start()

        def events() -> Iterator[tuple[str, Object]]:
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith("\n"):
                    event = json.loads(line)
                    yield event["type"], event["object"]

        try:
            yield events()
        finally:
            timer.cancel()
            process.kill()
            process.communicate()

    def until(
        self,
        resource: str,
        name: str,
        namespace: str,
        is_met: Callable[[Object | None], bool],
        what: str,
        seconds: float = 120,
    ) -> Object | None:
        """Watches one object until `is_met`; returns it (None: it is gone). Raises ClusterError that names what is
        unmet and what stands there instead."""
        end = time.monotonic() + seconds
        only = ("-n", namespace, "--field-selector", f"metadata.name={name}")
        while True:
            found = self.find(resource, name, namespace)
            if is_met(found):
                return found
            left = end - time.monotonic()
            if left <= 0:
                break
            # A watch of what went before it began tells nothing, so none lasts long.
            with self.watch(resource, *only, seconds=min(left, WATCH_SECONDS)) as events:
                for kind, item in events:
                    found = None if kind == "DELETED" else item
                    if is_met(found):
                        return found
        ready = condition(found, "Ready")
        there = "it does not exist" if found is None else f"Ready is {ready['status']}: {ready['message']}"
        raise ClusterError(f"{resource} {namespace}/{name}: not {what} after {seconds:.0f} s: {there}")

    def until_ready(self, resource: str, name: str, namespace: str, seconds: float = 180) -> Object:
        item = self.until(resource, name, namespace, is_ready, "Ready", seconds)
        assert item is not None
        return item

    def until_available(self, resource: str, name: str, namespace: str, seconds: float = 180) -> Object:
        item = self.until(resource, name, namespace, is_available, "available", seconds)
        assert item is not None
        return item

    def until_gone(self, resource: str, name: str, namespace: str, seconds: float = 120) -> None:
        self.until(resource, name, namespace, lambda item: item is None, "gone", seconds)

    # --- what a person would look at after a failure ------------------------------------------------------------------

    def diagnosis(self, namespace: str) -> str:
        """Conditions of our objects that are not as they should be, pods that are not ready with their last lines, and
        the latest warnings."""
        lines = []
        for item in self.ours(namespace):
            where = f"{item['kind']} {namespace}/{item['metadata']['name']}"
            for one in item.get("status", {}).get("conditions", []):
                if (one["type"] in ("Stalled", "Reconciling")) != (one["status"] != "True"):
                    lines.append(f"{where}: {one['type']}={one['status']} {one['reason']}: {one['message'][:400]}")
        for pod in self.items("pods", namespace):
            name = pod["metadata"]["name"]
            for status in container_statuses(pod):
                ended = status["state"].get("terminated", {})
                if status["ready"] or ended.get("exitCode") == 0:
                    continue
                state = next(iter(status["state"].items()), ("?", {}))
                lines.append(f"pod {namespace}/{name} container {status['name']}: {state[0]} {state[1]}")
                with contextlib.suppress(ClusterError):
                    text = self.kubectl("logs", "-n", namespace, name, "-c", status["name"], "--tail=15")
                    lines += [f"    {line[:300]}" for line in text.splitlines()]
            lines += self.last_words(pod)
        warnings = [one for one in self.items("events", namespace) if one["type"] == "Warning"]
        for one in sorted(warnings, key=lambda event: str(event.get("lastTimestamp")))[-12:]:
            about = one["involvedObject"]
            lines.append(f"event {about['kind']} {about['name']}: {one['reason']}: {one['message'][:300]}")
        return "\n".join(lines)

    def last_words(self, pod: Object, tail: int = 15) -> list[str]:
        """What the containers of a pod that ended and were started again said before that, and how they ended."""
        where, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        found = []
        for status in pod["status"].get("containerStatuses", []):
            if ended := status.get("lastState", {}).get("terminated"):
                found.append(
                    f"pod {where}/{name} container {status['name']}: ended at {ended.get('finishedAt')} with "
                    f"{ended.get('exitCode')} ({ended.get('reason')})"
                )
                with contextlib.suppress(ClusterError):
                    words = ("-n", where, name, "-c", status["name"], "--previous", f"--tail={tail}")
                    found += [f"    {line[:300]}" for line in self.kubectl("logs", *words).splitlines()]
        return found

    def ours(self, namespace: str | None) -> list[Object]:
        """All objects of the operator's own kinds."""
        names = [name for name in self.kinds_in() if name.partition(".")[2] in API_GROUPS]
        return self.items(",".join(names), namespace) if names else []

    def operator_log(self, lines: int = 30) -> str:
        return self.kubectl("logs", "-n", OPERATOR_NAMESPACE, OPERATOR, f"--tail={lines}")

    # --- the operator -------------------------------------------------------------------------------------------------

    def operator_pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._operator_pods()]

    def _operator_pods(self) -> list[Object]:
        pods = self.items("pods", OPERATOR_NAMESPACE, "app.kubernetes.io/name=openstack-operator")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def kill_operator(self) -> None:
        """Ends it without a chance to say goodbye."""
        for name in self.operator_pods():
            self.kubectl("delete", "pod", name, "-n", OPERATOR_NAMESPACE, "--grace-period=0", "--force")

    def until_operator_runs(self, seconds: float = 90) -> None:
        """Its Deployment is available, and not only on the word of pods that were just killed."""

        def is_met(item: Object | None) -> bool:
            if item is None or not is_available(item):
                return False
            ready = [condition(pod, "Ready")["status"] == "True" for pod in self._operator_pods()]
            return sum(ready) == item["spec"]["replicas"]

        self.until("deployments", "openstack-operator", OPERATOR_NAMESPACE, is_met, "available", seconds)

    def audited(self, since: audit.Place | None = None) -> list[Object]:
        """Requests in the audit log from a position (`audit_position`) on, without one all that are kept."""
        return list(audit.events(self.audit_log, since))

    def audit_position(self) -> audit.Place:
        return audit.end(self.audit_log)


WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def writes(entries: Sequence[Object], user: str) -> list[str]:
    """What a user wrote, without the Lease of the leader election."""
    return [
        f"{entry['verb']} {entry['requestURI']} {entry.get('responseStatus', {}).get('code')}"
        for entry in entries
        if entry["user"]["username"] == user
        and entry["verb"] in WRITES
        and entry.get("objectRef", {}).get("resource") != "leases"
    ]
