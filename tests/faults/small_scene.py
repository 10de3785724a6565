"""The stage of faults that a small cloud is enough for: an identity service in a namespace of its own, with a steady
client of it and a reader of `status`. What breaks the whole cloud, or shall be seen by a VM, is in `scene`.

A test that breaks a running cloud uses `fault`, one that breaks the making of a cloud uses `rollout`. Both end when all
is well, and leave a row of `records`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import clouds
import openstack
import records
import scene as whole
from clouds import Cloud
from clusters import Cluster, ClusterError, Object
from keystoneauth1 import exceptions
from observers import Api, Blame, Login, LoginError

CLOUD = "small"
GONE_SECONDS = 240


@dataclasses.dataclass
class SmallFault(whole.Fault):
    """One fault while it lasts."""

    stage: str = records.SMALL
    asked: float | None = None
    """When a cloud that was taken away was asked for again: who asks it something before it is there gets no answer."""
    pods: dict[str, tuple[str, int]] | None = None
    """Those from before; None where there was no cloud before."""

    def begin(self) -> None:
        self.pods = self.scene.cloud.pods()
        super().begin()

    def ask_again(self) -> None:
        """Says that what was deleted is gone, and is made again now."""
        self.mended = self.asked = time.monotonic()


class SmallScene:
    """See the module. One for a namespace; a fault at a time."""

    def __init__(self, cluster: Cluster, namespace: str, found: list[records.Record]) -> None:
        self.cluster, self.namespace, self.records = cluster, namespace, found
        self.cloud = Cloud(cluster, namespace, CLOUD)
        self.blame = Blame(cluster.kubeconfig, namespace)
        self.api = Api("identity", self._log_in)

    def start(self) -> None:
        self.blame.start()
        self.api.start()

    def end(self) -> None:
        self.blame.end()
        self.api.end()

    def make(self, enabled: tuple[str, ...] = ("keystone",), **spec: Any) -> list[Object]:
        """Applies a small cloud, and returns what was applied."""
        objects = clouds.small(self.cluster, self.namespace, enabled, **spec)
        self.cluster.apply(*objects)
        return objects

    # --- its users ----------------------------------------------------------------------------------------------------

    def _log_in(self) -> Login:
        try:
            session = self.cloud.connect().session
            token, url = session.get_token(), session.get_endpoint(service_type="identity", interface=whole.PUBLIC)
        except (exceptions.ClientException, ClusterError, KeyError, openstack.exceptions.SDKException) as problem:
            raise LoginError(type(problem).__name__) from problem
        return Login(token, {"identity": (url or "").rstrip("/").removesuffix("/v3")})

    def inventory(self) -> dict[str, Any]:
        """What must neither be lost nor be there twice."""
        identity = self.cloud.connect().identity
        return {
            "users": sorted(one.name for one in identity.users()),
            "projects": sorted(one.name for one in identity.projects()),
            "services": sorted((one.type, one.name) for one in identity.services()),
            "endpoints": sorted((one.service_id, one.interface) for one in identity.endpoints()),
        }

    # --- waiting ------------------------------------------------------------------------------------------------------

    def missing(self, since: float) -> list[str]:
        """What is not well now, of requests only those made after `since`."""
        found = whole.unwell(self.cluster, self.namespace)
        try:
            if self.cluster.find(clouds.CONTROL_PLANE, CLOUD, self.namespace) is None:
                found.append("there is no control plane")
        except (ClusterError, ValueError) as problem:
            found.append(f"the API server: {problem}")
        if not self.api.answers_since(since, 3):
            found.append(f"Keystone does not answer: {[one.problem or 'good' for one in self.api.answers[-3:]]}")
        return found

    def until_whole(self, since: float, seconds: float = whole.WHOLE_SECONDS) -> whole.Whole:
        """Waits until all is well for a while."""
        return whole.until_whole(lambda: self.missing(since), self._diagnosis, seconds)

    def _diagnosis(self) -> str:
        return f"{self.cluster.diagnosis(self.namespace)}\n{self.cluster.operator_log()}"

    def until_gone(self, seconds: float = GONE_SECONDS) -> None:
        """The namespace has ended by itself."""
        self.cluster.until_gone("namespaces", self.namespace, "", seconds)

    # --- faults -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def fault(
        self,
        name: str,
        *,
        group: str,
        blames: str = "",
        seconds: float = whole.WHOLE_SECONDS,
        changes: Callable[[dict[str, Any]], dict[str, Any]] = lambda inventory: inventory,
    ) -> Iterator[SmallFault]:
        """Breaks something of a running cloud in the block; see `Scene.fault`."""
        self.until_whole(time.monotonic())
        before = self.inventory()
        fault = SmallFault(self, name, group, blames, pods=self.cloud.pods())
        yield fault
        back = self.until_whole(fault.mended or time.monotonic(), seconds)
        self._note(fault, back, fault.began)
        assert self.inventory() == changes(before)

    @contextlib.contextmanager
    def rollout(
        self, name: str, *, group: str, blames: str = "", seconds: float = whole.WHOLE_SECONDS
    ) -> Iterator[SmallFault]:
        """Makes a cloud in the block, and breaks something of that. What fails before the API has answered once is no
        fault."""
        fault = SmallFault(self, name, group, blames)
        yield fault
        back = self.until_whole(fault.mended or time.monotonic(), seconds)
        good = [one.at for one in self.api.answers if one.at >= (fault.asked or fault.began) and not one.problem]
        self._note(fault, back, min(good, default=back.at))

    def _note(self, fault: SmallFault, back: whole.Whole, since: float) -> None:
        failed = self.api.failed(since, back.at)
        record = fault.record(back, {"identity": failed} if failed else {}, fault.pods)
        self.records.append(record)
        fault.require_named(record)


@contextlib.contextmanager
def played(cluster: Cluster, namespace: str, found: list[records.Record]) -> Iterator[SmallScene]:
    """A scene with its observers, in a namespace that is made and removed here. The cloud is left to the block."""
    present = cluster.find("namespaces", namespace, "")
    if present is not None and "deletionTimestamp" in present["metadata"]:
        # Of an earlier run.
        cluster.until_gone("namespaces", namespace, "", GONE_SECONDS)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    scene = SmallScene(cluster, namespace, found)
    scene.start()
    try:
        yield scene
    finally:
        scene.end()
        if cluster.find("namespaces", namespace, "") is not None:
            clouds.remove_namespace(cluster, namespace, wait=False)
