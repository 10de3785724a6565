"""What brings new values of mutable options to running processes: which options, which pods, the script in a pod."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli import trace
from openstack_operator.kit import (
    catalogues,
    config,
    effective,
    first_process,
    ini,
    releases,
    rereading,
    workloads,
)
from openstack_operator.kit.types import DEFAULT_RELEASE
from openstack_operator.runtime import client, errors, kinds
from openstack_operator.runtime.kinds import Resource
from openstack_operator.services import SERVICES

ROWS = (ini.fixed("DEFAULT", "use_stderr", True, "of a test"),)
DEBUG = "[DEFAULT]\ndebug = true\n"
TIMEOUT = "[DEFAULT]\nrpc_response_timeout = 90\n"


class Recorder:
    """What writing a file needs of a scope."""

    name, spec, facts = "nova", None, {}  # type: ignore[var-annotated]

    def __init__(self) -> None:
        self.data: dict[str, str] = {}

    async def apply(self, resource: Resource, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if resource.kind == "ConfigMap" and body["metadata"]["name"].endswith("config-data"):
            self.data = body["data"]
        return body


async def sources(*texts: str, rows: tuple[ini.Row, ...] = ROWS, secret: str = "") -> config.Sources:
    scope: Any = Recorder()
    found = [config.Text("spec.customServiceConfig", text) for text in texts]
    if secret:
        found.append(config.Text("spec.configSecrets[0]", secret, is_secret=True))
    return await config.ensure(scope, "nova", [config.File("nova.conf", rows, config.Custom(tuple(found)))])


def pod(found: config.Sources, *, rereads: bool = True) -> workloads.Pod:
    container = workloads.Container(name="nova-compute", command=("nova-compute",), rereads=rereads)
    return workloads.Pod(
        service="nova", instance="nova", component="compute", owner_kind="NovaCompute", image="i", user=1,
        sources=found, containers=(container,),
    )  # fmt: skip


def hashes(found: config.Sources, *, rereads: bool = True) -> tuple[str, str]:
    annotations = workloads.template(pod(found, rereads=rereads))["metadata"]["annotations"]
    return annotations[config.HASH], annotations.get(config.MUTABLE_HASH, "")


# --- which options --------------------------------------------------------------------------------------------------


async def test_a_mutable_option_is_no_part_of_what_is_read_at_start() -> None:
    plain, debug, quiet = await sources(), await sources(DEBUG), await sources(DEBUG.replace("true", "false"))
    assert hashes(plain)[0] == hashes(debug)[0] == hashes(quiet)[0]
    assert len({hashes(plain)[1], hashes(debug)[1], hashes(quiet)[1]}) == 3
    assert (plain.mutable, plain.mutable_digest, debug.mutable) == ((), "", ("DEFAULT/debug",))


async def test_a_secret_text_counts_as_any_other() -> None:
    assert hashes(await sources(secret=DEBUG)) == hashes(await sources(DEBUG))


async def test_any_other_option_is_read_at_start_with_a_mutable_one_beside_it_or_without() -> None:
    debug, both, other = await sources(DEBUG), await sources(DEBUG, TIMEOUT), await sources(TIMEOUT)
    assert hashes(debug)[0] != hashes(both)[0] == hashes(other)[0]
    assert hashes(debug)[1] == hashes(both)[1]


async def test_what_rows_set_is_read_at_start_whatever_the_catalogue_says() -> None:
    rows = (*ROWS, ini.fixed("DEFAULT", "debug", False, "of a test"))
    without, unrelated, own = (
        await sources(rows=rows),
        await sources(TIMEOUT, rows=rows),
        await sources(DEBUG, rows=rows),
    )
    assert {one.mutable_digest for one in (without, unrelated, own)} == {""}
    assert hashes(own)[0] != hashes(without)[0]


async def test_a_process_that_does_not_read_again_is_replaced_for_every_option() -> None:
    found = [hashes(await sources(*texts), rereads=False) for texts in ((), (DEBUG,))]
    assert found[0][0] != found[1][0]
    assert [mutable for _, mutable in found] == ["", ""]


async def test_only_a_container_that_reads_again_can_write_its_files() -> None:
    def is_read_only(*, rereads: bool) -> bool:
        (container,) = workloads.template(pod(plain, rereads=rereads))["spec"]["containers"]
        return any(one["mountPath"] == config.MERGED and one.get("readOnly") for one in container["volumeMounts"])

    plain = await sources()
    assert [is_read_only(rereads=True), is_read_only(rereads=False)] == [False, True]


@pytest.mark.parametrize("release", releases.available())
def test_whoever_has_processes_that_read_again_may_bring_it_to_them(release: str) -> None:
    sighup = releases.load(release).sighup
    for service in SERVICES:
        if releases.REREADS in sighup.get(service.name, {}).values():
            assert any(set(map(str, rereading.RULES)) <= set(map(str, one.rules)) for one in service.controllers)


async def test_the_text_for_running_pods_is_what_the_init_container_makes(tmp_path: Path) -> None:
    scope: Any = Recorder()
    texts = (config.Text("spec.a", DEBUG), config.Text("spec.b", TIMEOUT.rstrip()))
    found = await config.ensure(scope, "nova", [config.File("nova.conf", ROWS, config.Custom(texts))])
    source, target = tmp_path / "source", tmp_path / "merged"
    for directory in (source, target):
        directory.mkdir()
    for key, text in scope.data.items():
        (source / key).write_text(text)
    script = config.MERGE.replace(config.SOURCE, str(source)).replace(config.MERGED, str(target))
    process = await asyncio.create_subprocess_exec("sh", "-c", script)
    assert await process.wait() == 0
    assert found.merged == {"nova.conf": (target / "nova.conf").read_text()}
    assert "use_stderr" not in repr(found), "it has passwords"


@pytest.mark.parametrize("release", catalogues.releases())
def test_every_release_marks_debug_and_no_password_as_mutable(release: str) -> None:
    catalogue = catalogues.load("nova", release)
    assert catalogue is not None
    mutable = [(name, option.secret) for _, name, option in catalogue if option.mutable]
    assert ("debug", False) in mutable
    assert not any(is_secret for _, is_secret in mutable)


def test_a_service_without_a_catalogue_has_no_mutable_option() -> None:
    assert effective.mutable({"DEFAULT/debug": ["true"]}, {}, "nobody", DEFAULT_RELEASE) == {}


# --- which template -------------------------------------------------------------------------------------------------


async def test_a_workload_keeps_its_template_while_mutable_options_alone_change() -> None:
    plain, debug, both = await sources(), await sources(DEBUG), await sources(DEBUG, TIMEOUT)

    def body(found: config.Sources) -> dict[str, Any]:
        return workloads.deployment(pod(found), "nova", 1)

    assert rereading.kept(body(debug), None) == body(debug)
    assert rereading.kept(body(debug), body(plain)) == body(plain)
    assert rereading.kept(body(plain), body(debug)) == body(debug)
    assert rereading.kept(body(both), body(plain)) == body(both)
    # Another image: new pods say what they have read.
    other = body(plain)
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "former"
    assert rereading.kept(body(debug), other) == body(debug)


# --- in the pod -----------------------------------------------------------------------------------------------------

DAEMON = """
import signal, sys, time
path = sys.argv[1].partition("=")[2]
def read(*_):
    with open(path) as file:
        print(file.read().strip(), flush=True)
if sys.argv[2] == "rereads":
    signal.signal(signal.SIGHUP, read)
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGHUP, lambda *_: None)
read()
while True:
    time.sleep(60)
"""


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _child(process: subprocess.Popen[str]) -> int:
    (pid,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(pid)


class Daemon:
    """The first process of a container, in a pod whose PID namespace another one holds."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.directory, self.file = directory, directory / "nova.conf"
        self.file.write_text("one")
        self.file.chmod(0o640)
        time.sleep(0.1)  # as long as a container takes to start after the one that wrote the file, at least
        command = [sys.executable, "-c", DAEMON, f"--config-file={self.file}", kind]
        alone = ["setpriv", "--pdeathsig", "KILL"]
        self._pod = subprocess.Popen(
            [*alone, "unshare", "--pid", "--kill-child", "--mount-proc", "sh", "-c", "echo made; exec sleep infinity"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert _line(self._pod) == "made"
        enter = ["nsenter", f"--target={_child(self._pod)}", "--pid", "--mount"]
        self._container = subprocess.Popen(
            [*alone, *enter, "unshare", "--mount", *command], stdout=subprocess.PIPE, text=True
        )
        assert self.said() == "one"
        self.pid = _child(self._container)

    def said(self) -> str:
        return _line(self._container)

    def inside(self, script: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [*self.enter, sys.executable, "-I", "-S", "-c", script, str(self.directory), *arguments]
        return subprocess.run(command, check=False, input=stdin, capture_output=True, timeout=60)

    @property
    def enter(self) -> list[str]:
        """What `kubectl exec` does."""
        return ["nsenter", f"--target={self.pid}", "--pid", "--mount"]

    def bring(self, text: str, digest: str, seconds: int = 15) -> tuple[int, str]:
        stdin = json.dumps({"nova.conf": text}).encode()
        # Stdin stays open in a container; what comes behind the text is not waited for.
        done = self.inside(rereading.SCRIPT, digest, str(len(stdin)), str(seconds), stdin=stdin + b"more")
        return done.returncode, (done.stdout or done.stderr).decode().strip()

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._container.communicate()
        os.kill(_child(self._pod), signal.SIGKILL)
        self._pod.communicate()


@pytest.fixture
def daemon(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    made = Daemon(tmp_path, request.param)
    yield made
    made.end()


@pytest.mark.parametrize("daemon", ["rereads"], indirect=True)
@pytest.mark.parametrize(
    "program",
    [
        (sys.executable, "-c", f"{first_process.PYTHON}\nprint(first_process()[1])"),
        ("sh", "-c", f'set -eu\n{first_process.SHELL}\necho "${{first#/proc/}}"'),
        ("bash", "-c", f'set -eu\n{first_process.SHELL}\necho "${{first#/proc/}}"'),
    ],
    ids=["python", "sh", "bash"],
)
def test_the_first_process_of_a_container_is_found(daemon: Daemon, program: tuple[str, ...]) -> None:
    """Beside the one that holds the namespace, and others that were started in the container."""
    other = subprocess.Popen(
        [*daemon.enter, "sh", "-c", "echo runs; exec sleep infinity"], stdout=subprocess.PIPE, text=True
    )
    assert _line(other) == "runs"
    found = subprocess.run([*daemon.enter, *program], check=True, capture_output=True, text=True).stdout.strip()
    lines = Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
    numbers = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
    assert found == numbers[-1]
    assert numbers[-1] != "1"
    os.kill(_child(other), signal.SIGKILL)
    other.communicate()


@pytest.mark.parametrize("daemon", ["rereads"], indirect=True)
def test_the_script_brings_a_text_to_the_process_once(daemon: Daemon) -> None:
    assert daemon.bring("two", "b") == (0, "reread")
    assert daemon.said() == "two"
    assert (daemon.file.read_text(), daemon.file.stat().st_mode & 0o777) == ("two", 0o640)
    assert daemon.bring("two", "b") == (0, "current")
    assert daemon.bring("three", "c") == (0, "reread")
    assert daemon.said() == "three", "once only: nothing was read between the two"
    names = {path.name for path in daemon.directory.iterdir()}
    assert names == {"nova.conf", rereading.RECORD}


@pytest.mark.parametrize("daemon", ["rereads"], indirect=True)
def test_a_process_that_started_with_the_text_is_left_alone(daemon: Daemon) -> None:
    assert daemon.bring("one", "b") == (0, "current")
    assert not (daemon.directory / rereading.RECORD).exists()


@pytest.mark.parametrize("daemon", ["rereads"], indirect=True)
def test_a_text_that_was_written_but_not_read_is_read_at_the_next_try(daemon: Daemon) -> None:
    daemon.file.write_text("two")
    assert daemon.bring("two", "b") == (0, "reread")
    assert daemon.said() == "two"


@pytest.mark.parametrize(
    ("daemon", "why"),
    [
        ("stubborn", "the process does not take SIGHUP now"),
        ("deaf", "the process did not read {}/nova.conf within 1 s of SIGHUP"),
    ],
    indirect=["daemon"],
)
def test_a_process_that_does_not_read_is_told_with_the_reason(daemon: Daemon, why: str) -> None:
    assert daemon.bring("two", "b", 1) == (1, why.format(daemon.directory))
    assert not (daemon.directory / rereading.RECORD).exists()


@pytest.mark.parametrize("daemon", ["rereads"], indirect=True)
def test_trace_knows_what_was_read_again_and_what_was_not(daemon: Daemon) -> None:
    def late() -> bool:
        done = daemon.inside(trace.SCRIPT, "nova.conf")
        found = trace.msgspec.json.decode(done.stdout, type=trace.Inside)
        (process,) = found.processes
        (file,) = [one for one in found.files if one.path.endswith("nova.conf")]
        return file.written > max(process.start, found.reread) + trace.CLOCK_SECONDS

    assert not late()
    assert daemon.bring("two", "b") == (0, "reread")
    assert not late()
    later = time.time() + 60
    os.utime(daemon.file, (later, later))
    assert late()


# --- all of it ------------------------------------------------------------------------------------------------------


class Cluster:
    """What bringing a text to pods needs of scope and client: one pod is a real process, others answer as said."""

    namespace = "space"

    def __init__(self, daemon: Daemon, others: Mapping[str, int], *pods: dict[str, Any]) -> None:
        self._daemon, self._others, self.pods, self.client = daemon, others, pods, self
        self.manager: Any = self.__class__
        self.events: list[tuple[str, str, str]] = []
        self.patches: dict[str, Any] = {}

    def items(self, _: Resource) -> list[Any]:
        return list(self.pods)

    async def event(self, *said: str) -> None:
        self.events.append(said)  # type: ignore[arg-type]

    async def execute(self, _: str, pod: str, container: str, command: tuple[str, ...], stdin: bytes) -> client.Ended:
        assert container == "nova-compute"
        if pod in self._others:
            raise errors.ApiError(self._others[pod], "Refused", "by the test")
        script, _, *arguments = command[4:]
        done = await asyncio.to_thread(self._daemon.inside, script, *arguments, stdin=stdin)
        return client.Ended(done.stdout, done.stderr, done.returncode)

    async def merge(self, _: Resource, name: str, __: str, patch: Any) -> None:
        self.patches[name] = patch["metadata"]["annotations"]


def running(name: str, found: config.Sources, *, is_ready: bool = True, **annotations: str) -> dict[str, Any]:
    made = workloads.template(pod(found))["metadata"]
    made["annotations"] |= {config.HASH: annotations.get("hash", made["annotations"][config.HASH])}
    state = {"type": "Ready", "status": str(is_ready)}
    return {"metadata": {**made, "name": name}, "status": {"conditions": [state]}}


@pytest.mark.parametrize("daemon", ["rereads"], indirect=True)
async def test_each_running_pod_of_the_template_is_brought_the_text_and_those_that_fail_are_named(
    daemon: Daemon,
) -> None:
    before, after = await sources(), await sources(DEBUG)
    cluster: Any = Cluster(
        daemon, {"gone": 404, "refused": 403},
        running("real", before), running("gone", before), running("refused", before), running("has-it", after),
        running("starts", before, is_ready=False), running("of-another-template", before, hash="another"),
    )  # fmt: skip
    item = workloads.deployment(pod(before), "nova", 1)
    with pytest.raises(errors.Unavailable) as caught:
        await rereading.ensure(cluster, kinds.DEPLOYMENT, item, after, "nova-compute")
    assert (caught.value.reason, caught.value.message) == (
        rereading.NOT_REREAD,
        "[DEFAULT] debug: pod refused: 403 Refused: by the test",
    )
    assert daemon.said() == after.merged["nova.conf"].splitlines()[0]
    assert cluster.events == [
        ("Normal", rereading.REREAD, "[DEFAULT] debug: read again without a restart in real"),
    ]
    assert cluster.patches == {"real": {config.MUTABLE_HASH: after.mutable_digest}}

    # As they are when the watch has told: nobody is asked again.
    cluster.pods = (running("real", after), running("has-it", after))
    told = await rereading.ensure(cluster, kinds.DEPLOYMENT, item, after, "nova-compute")
    assert told == "without a restart 2 pods read again: [DEFAULT] debug"
    assert len(cluster.events) == 1
    # A template that is newer than the change has nothing to say.
    item = workloads.deployment(pod(after), "nova", 1)
    assert await rereading.ensure(cluster, kinds.DEPLOYMENT, item, after, "nova-compute") == ""
