"""The stage of every fault: the cloud of `./up` with a VM that runs, echoes to it, steady clients of the APIs, and a
reader of `status`.

A test breaks something inside `Scene.fault`. When the block ends, the cloud must become whole by itself: every object
Ready, every workload available, every API and the VM answering, for a few seconds on end. Then it is compared with what
was there before, and what was seen becomes a row of `records`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import demands
import openstack
import records
from clouds import Cloud
from clusters import OPERATOR_NAMESPACE, Cluster, ClusterError, Object, condition, is_available, is_ready
from guests import Guest
from keystoneauth1 import exceptions
from observers import Apis, Blame, Echoes, Login, LoginError

PUBLIC = "public"
# How often `make faults` makes each; for work on the tests.
TIMES = "OPENSTACK_OPERATOR_FAULTS_TIMES"
LOOK_SECONDS = 0.5
# So long everything must be well without a break before it counts as being back.
CALM_SECONDS = 3.0
WHOLE_SECONDS = 300
# So many of the things that were not well last are kept.
MOST_WAITED = 4
BLAME_SECONDS = 60
# Not one echo of ten a second is lost.
QUIET = 0.0
WORKLOADS = "deployments,statefulsets,daemonsets"
TYPES = {"identity": "identity", "image": "image", "placement": "placement", "network": "network", "compute": "compute"}


def unwell(cluster: Cluster, namespace: str) -> list[str]:
    """What of a cloud's objects, and of the operator, is not as it should be; nothing where all is well."""
    try:
        items = [
            *cluster.ours(namespace),
            *cluster.items(f"{WORKLOADS},pods", namespace),
            *cluster.items(f"{WORKLOADS},pods", OPERATOR_NAMESPACE),
        ]
    except (ClusterError, ValueError) as problem:
        return [f"the API server: {problem}"]
    return [what for item in items if (what := _unwell(item))]


def _unwell(item: Object) -> str:
    where = f"{item['kind']} {item['metadata'].get('namespace')}/{item['metadata']['name']}"
    if "deletionTimestamp" in item["metadata"]:
        return f"{where} is going"
    if item["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
        return "" if is_available(item) else f"{where} is not available"
    if item["kind"] == "Pod":
        is_well = item["status"]["phase"] == "Succeeded" or condition(item, "Ready")["status"] == "True"
        # A Job makes another pod for one that failed.
        is_old = item["status"]["phase"] == "Failed"
        return "" if is_well or is_old else f"{where} is not ready"
    if is_ready(item) and condition(item, "Reconciling")["status"] != "True":
        return ""
    return f"{where}: {condition(item, 'Ready')['message']}"


@dataclasses.dataclass(frozen=True)
class Whole:
    """That all is well, since when, and what was not well before."""

    at: float
    missing: dict[str, tuple[float, str]]
    """By object: when it was last seen not to be well, and what was said of it then."""

    def waited(self, since: float) -> dict[str, float]:
        """What was not well for longest, the last one first: seconds from `since` on."""
        latest = sorted(self.missing.values(), reverse=True)[:MOST_WAITED]
        return {what: round(max(0.0, at - since), 1) for at, what in latest}


def until_whole(
    missing: Callable[[], list[str]], diagnosis: Callable[[], str], seconds: float, calm: float = CALM_SECONDS
) -> Whole:
    """Waits until nothing is missing for so long."""
    end = time.monotonic() + seconds
    well: float | None = None
    seen: dict[str, tuple[float, str]] = {}
    while True:
        now = time.monotonic()
        found = missing()
        if found:
            well = None
            # A look takes a moment: it was so at the end of it.
            seen |= {what.partition(":")[0]: (time.monotonic(), what) for what in found}
        else:
            well = now if well is None else well
            if time.monotonic() - well >= calm:
                return Whole(well, seen)
        if now > end:
            raise AssertionError(f"not whole after {seconds:.0f} s:\n" + "\n".join(found) + "\n" + diagnosis())
        time.sleep(LOOK_SECONDS)


@dataclasses.dataclass
class Fault:
    """One fault while it lasts, and what was seen of it."""

    scene: Any
    """The stage it is on: whose ``blame`` reads `status`."""
    name: str
    group: str
    blames: str
    """A pattern of the line of `status` that names what is broken; empty where none is demanded."""
    stage: str = records.CLOUD
    began: float = dataclasses.field(default_factory=time.monotonic)
    mended: float | None = None
    """When what was broken for a while was given back; recovery counts from here."""
    counted: str = ""
    """What else was counted, with its number."""

    def begin(self) -> None:
        """Says that it is broken from now on: what came before it in the block was not felt yet."""
        self.began = time.monotonic()

    def mend(self) -> None:
        """Says that the cause is taken away now."""
        self.mended = time.monotonic()

    def until_blamed(self, seconds: float = BLAME_SECONDS) -> str:
        """Waits until `status` names it; returns the line."""
        end = self.began + seconds
        while (found := self.scene.blame.first(self.blames, self.began)) is None:
            assert time.monotonic() < end, (
                f"status does not name {self.blames!r} within {seconds:.0f} s: {self.scene.blame.said[-3:]}"
            )
            time.sleep(0.1)
        return found[1]

    def record(
        self,
        back: Whole,
        failed: dict[str, list[str]],
        pods: dict[str, tuple[str, int]] | None,
        lost: int | None = None,
        silence: float | None = None,
    ) -> records.Record:
        """What is kept of it: ``back`` is since when all is well again, ``failed`` what went wrong by service, ``pods``
        are those from before. None is for what nobody looked at."""
        since = self.mended or self.began
        found = self.scene.blame.first(self.blames, self.began)
        now = self.scene.cloud.pods()
        return records.Record(
            group=self.group,
            name=self.name,
            stage=self.stage,
            blamed=None if found is None else round(found[0] - self.began, 1),
            told="" if found is None else found[1],
            is_named=bool(self.blames) and found is not None,
            lasted=round(self.mended - self.began, 1) if self.mended else 0.0,
            recovery=round(max(0.0, back.at - since), 1),
            failed={service: len(problems) for service, problems in failed.items()},
            problems=sorted({one for problems in failed.values() for one in problems}),
            lost=lost,
            silence=silence,
            pods=None if pods is None else records.replaced(pods, now),
            ended=self._last_words(pods or {}, now),
            counted=self.counted,
            waited=back.waited(since),
        )

    def _last_words(self, before: dict[str, tuple[str, int]], now: dict[str, tuple[str, int]]) -> list[str]:
        """Of containers that were started again since the fault began: their logs go with their pods."""
        cloud = self.scene.cloud
        again = [name for name, (_, restarts) in now.items() if restarts > before.get(name, ("", 0))[1]]
        pods = (cloud.cluster.find("pods", name, cloud.namespace) for name in again)
        return [line for pod in pods if pod is not None for line in cloud.cluster.last_words(pod)]

    def require_named(self, record: records.Record) -> None:
        """Fails where `status` has not named what it should have, and for the record also where it did so late."""
        if self.blames:
            said = sorted({line for at, lines in self.scene.blame.said if at >= self.began for line in lines})
            assert record.blamed is not None, f"status never named {self.blames!r}: {said}"
            # A machine that does other work as well tells little about seconds.
            if repeats_all():
                most = demands.seconds(self.name)
                assert record.blamed <= most, f"named after {record.blamed} s, not {most:.0f}: {record.told}"


class Scene:
    """See the module. One for the session; a fault at a time."""

    def __init__(self, cloud: Cloud, key: Path) -> None:
        self.cloud, self.cluster, self.namespace = cloud, cloud.cluster, cloud.namespace
        self._login = cloud.login()
        self.guest = Guest(cloud, key, name="faults")
        self.echoes = Echoes(self.guest.address)
        self.apis = Apis(self._log_in)
        self.blame = Blame(self.cluster.kubeconfig, self.namespace)
        self.records: list[records.Record] = []
        self._observers: tuple[Any, ...] = (self.echoes, self.apis, self.blame)

    def start(self) -> None:
        for one in self._observers:
            one.start()
        self.until_whole(time.monotonic())

    def end(self) -> None:
        for one in self._observers:
            one.end()

    # --- users --------------------------------------------------------------------------------------------------------

    def _log_in(self) -> Login:
        """As somebody who reads the Secret with the login anew each time, since passwords may have been made anew, and
        has it still where no API server gives it."""
        with contextlib.suppress(ClusterError, KeyError):
            self._login = self.cloud.login()
        try:
            connection = self.cloud.connect(self._login)
            session = connection.session
            token = session.get_token()
            urls = {name: session.get_endpoint(service_type=kind, interface=PUBLIC) for name, kind in TYPES.items()}
        except (exceptions.ClientException, KeyError, openstack.exceptions.SDKException) as problem:
            raise LoginError(type(problem).__name__) from problem
        if not all(urls.values()):
            raise LoginError("a service is not in the catalogue")
        # Keystone's URL may end in its version.
        urls["identity"] = urls["identity"].rstrip("/").removesuffix("/v3")
        urls["network"] = urls["network"].rstrip("/").removesuffix("/v2.0")
        urls["image"] = urls["image"].rstrip("/").removesuffix("/v2")
        return Login(token, urls)

    def inventory(self) -> dict[str, Any]:
        """What must not be lost, by what it is."""
        connection = self.cloud.connect()
        claims = self.cluster.items("persistentvolumeclaims", self.namespace)
        servers = [one for one in connection.compute.servers(all_projects=True) if one.name == self.guest.server.name]
        return {
            "users": sorted(one.name for one in connection.identity.users()),
            "projects": sorted(one.name for one in connection.identity.projects()),
            "images": sorted((one.name, one.checksum, one.status) for one in connection.image.images()),
            "networks": sorted(one.name for one in connection.network.networks()),
            "ports of the VM": sorted(one.id for one in connection.network.ports(device_id=self.guest.server.id)),
            "the VM": [(one.id, one.status) for one in servers],
            "volumes": sorted((one["metadata"]["name"], one["spec"].get("volumeName", "")) for one in claims),
        }

    def guest_process(self) -> int:
        """pid of the VM's QEMU; 0 where there is none."""
        uuid = self.guest.server.id.encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0].rpartition(b"/")[2].startswith(b"qemu-system") and uuid in words:
                    return int(entry.name)
        return 0

    # --- waiting ------------------------------------------------------------------------------------------------------

    def missing(self, since: float) -> list[str]:
        """What is not well now, of requests only those made after `since`."""
        found = unwell(self.cluster, self.namespace)
        if not self.apis.all_answer_since(since):
            answers = {one.service: [a.problem or "good" for a in one.answers[-3:]] for one in self.apis.each}
            found.append(f"not all APIs answer: {answers}")
        if not self.echoes.answers_now():
            found.append(f"the VM at {self.guest.address} does not answer")
        return found

    def until_whole(self, since: float, seconds: float = WHOLE_SECONDS, calm: float = CALM_SECONDS) -> Whole:
        """Waits until all is well for so long."""
        return until_whole(lambda: self.missing(since), self._diagnosis, seconds, calm)

    def _diagnosis(self) -> str:
        with contextlib.suppress(ClusterError):
            return f"{self.cluster.diagnosis(self.namespace)}\n{self.cluster.operator_log()}"
        return "the API server does not answer"

    # --- faults -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def fault(
        self,
        name: str,
        *,
        group: str,
        blames: str = "",
        keeps_guest: bool = True,
        silence: float | None = None,
        seconds: float = WHOLE_SECONDS,
        changes: Callable[[dict[str, Any]], dict[str, Any]] = lambda inventory: inventory,
    ) -> Iterator[Fault]:
        """Breaks something in the block, and sees to it that it comes back within `seconds`.

        The VM's process stays unless `keeps_guest` is False, and the VM is silent for at most `silence` seconds; QUIET
        lets no echo be lost.
        `changes` turns the inventory from before into the one that is wanted afterwards.
        """
        # It was calm when the one before was over.
        self.until_whole(time.monotonic(), calm=0)
        before, process = self.inventory(), self.guest_process()
        pods = self.cloud.pods()
        assert process, f"the VM {self.guest.server.id} does not run"
        fault = Fault(self, name, group, blames)
        yield fault
        back = self.until_whole(fault.mended or time.monotonic(), seconds)
        # Echoes that were sent last may still be answered.
        time.sleep(1)
        record = fault.record(
            back, self.apis.failed(fault.began, back.at), pods,
            lost=self.echoes.lost(fault.began, back.at), silence=self.echoes.silence(fault.began, back.at),
        )  # fmt: skip
        self.records.append(record)
        assert self.inventory() == changes(before)
        if keeps_guest:
            assert self.guest_process() == process, "the VM's process is another one"
        if silence == QUIET:
            assert record.lost == 0, f"{record.lost} echoes were lost, the VM was silent for {record.silence} s"
        elif silence is not None and repeats_all():
            assert record.silence <= silence, f"the VM was silent for {record.silence} s"
        fault.require_named(record)


def repeats_all() -> bool:
    """Whether this is `make faults`: every fault, and each of them twice."""
    return os.environ.get("OPENSTACK_OPERATOR_FAULTS") == "all"


def times() -> int:
    """How often each fault is made."""
    return int(os.environ.get(TIMES, "2")) if repeats_all() else 1
