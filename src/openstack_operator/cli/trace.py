"""`openstack-operator trace`: one option on its whole way, from the release's default to the process that uses it.

The hops in the cluster's objects come from `live`; the last ones, the files in each pod and the processes that opened
them, are read in the pods (`runtime/client.py`, ``execute``). A hop that does not agree with the one before it is
marked: a pod that was not replaced yet, a file that was changed by hand, a process that is older than its file and has
not read it again (`kit/rereading.py`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from openstack_operator.cli import explain, live, origins, status
from openstack_operator.cli.explain import Named
from openstack_operator.cli.live import Configured, Part
from openstack_operator.kit import catalogues, config, first_process, labels, levels, rereading
from openstack_operator.runtime import client, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object

AGREED, DISAGREED = 0, 3
"""Exit codes."""

# Start times are whole ticks since the machine's boot, of which the kernel tells the second only.
CLOCK_SECONDS = 2.0

SCRIPT = (
    first_process.PYTHON
    + """

import json, sys

folder, *names = sys.argv[1:]


def read(*path):
    with open("/".join(path), "rb") as file:
        return file.read()


def named(words, environment):
    found, words = [], iter(words)
    for word in words:
        if word == "--config-file":
            found.append(next(words, ""))
        elif word.startswith("--config-file="):
            found.append(word.partition("=")[2])
    for key, value in environment.items():
        if not found and key.startswith("OS_") and key.endswith("_CONFIG_DIR"):
            files = environment.get(key[:-3] + "FILES")
            found = [os.path.join(value, one) for one in (files.split(";") if files else names)]
    return [one for one in found if os.path.exists(one)]


booted = next(int(line.split()[1]) for line in read("/proc/stat").decode().splitlines() if line.startswith("btime"))
processes, files_of = [], {}
for pid in sorted(int(one) for one in os.listdir("/proc") if one.isdigit()):
    try:
        if not is_of_this_container(pid):
            continue  # of another container of the pod
        words = read("/proc", str(pid), "cmdline").decode(errors="replace").rstrip("\\0").split("\\0")
        lines = read("/proc", str(pid), "environ").decode(errors="replace").split("\\0")
        fields = read("/proc", str(pid), "stat").decode().rpartition(")")[2].split()
    except OSError:
        continue
    is_titled = len(words) == 1 and " " in words[0]
    if is_titled:
        # The process gave itself a title, over its arguments and its environment: NAME: worker (COMMAND), or [COMMAND].
        words = words[0].translate(str.maketrans("()[]", "    ")).split()
    environment = dict(line.partition("=")[::2] for line in lines if "=" in line)
    # A worker whose title names no file is a fork of one whose does.
    files = named(words, environment) or (files_of.get(int(fields[1]), []) if is_titled else [])
    files_of[pid] = files
    name = os.path.basename(words[0]).rstrip(":") if words else ""
    # Helpers with the rights of root: they do what the process asks them to.
    if files and "privsep-helper" not in " ".join(words[:3]) and pid != os.getpid():
        start = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        if name.startswith("python") and len(words) > 1:
            name = os.path.basename(words[1])
        processes.append({"pid": pid, "name": name, "start": start, "files": files})
paths = list(dict.fromkeys(path for one in processes for path in one["files"]))
paths = paths or [os.path.join(folder, name) for name in names if os.path.exists(os.path.join(folder, name))]
files = [
    {"path": path, "written": os.stat(path).st_mtime, "text": read(path).decode(errors="replace")} for path in paths
]
reread, record = 0, os.path.join(folder, RECORD)
if os.path.exists(record):
    found = json.loads(read(record))
    # Of a process that has ended meanwhile it says nothing.
    if found["of"][0] == first_process()[0]:
        reread = found["time"]
json.dump({"files": files, "processes": processes, "reread": reread}, sys.stdout)
""".replace("RECORD", repr(rereading.RECORD))
)
"""Runs in a container: its processes that read configuration files, and these files. Paste files are among them, and
are no configuration: they are told apart by what they set."""


class File(msgspec.Struct, frozen=True):
    """A file in a pod."""

    path: str
    written: float
    text: str


class Process(msgspec.Struct, frozen=True):
    """A process that reads files."""

    pid: int
    name: str
    start: float
    files: tuple[str, ...]


class Inside(msgspec.Struct, frozen=True):
    """What was found in a container."""

    files: tuple[File, ...] = ()
    processes: tuple[Process, ...] = ()
    reread: float = 0
    """When the processes that ran then read their files again."""


@dataclasses.dataclass(frozen=True)
class Hop:
    """A station. ``value`` is None where the option is not set; ``problem`` says what does not agree."""

    where: str
    value: str | None
    origin: str = ""
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Way:
    """The hops of one file of one object, and those in each of its pods."""

    label: str
    file: str
    hops: tuple[Hop, ...]
    pods: tuple[tuple[str, tuple[Hop, ...]], ...]

    @property
    def is_set(self) -> bool:
        return any(hop.value is not None or hop.problem for hop in self.all())

    @property
    def agrees(self) -> bool:
        return not any(hop.problem for hop in self.all())

    def all(self) -> Iterator[Hop]:
        yield from self.hops
        for _, hops in self.pods:
            yield from hops


def run(
    service: str,
    name: str,
    kubeconfig: str | None,
    namespace: str | None,
    release: str | None,
    node: str | None,
    *,
    as_json: bool,
) -> tuple[str, int]:
    """The answer, and exit code 3 where hops disagree. Without a ``release`` it is that of the cluster's objects.

    Raises ``errors.OperatorError``, with the nearest name for one that does not exist.
    """
    asked, ways = asyncio.run(follow(service, name, kubeconfig, namespace, release, node))
    code = AGREED if all(way.agrees for way in ways) else DISAGREED
    text = _json(asked, ways) if as_json else "".join(f"{line}\n" for line in _text(asked, ways))
    return text, code


async def follow(
    service: str, name: str, kubeconfig: str | None, namespace: str | None, release: str | None, node: str | None
) -> tuple[Named, list[Way]]:
    """The ways of an option. Raises ``errors.OperatorError`` without a cluster, and for a node without such pods."""
    default = release or catalogues.index().default_release
    if service not in origins.SERVICES:
        # It says which one is meant.
        explain.parse_option(service, name, default)
    async with client.Client(client.Config.load(kubeconfig), status.FIELD_MANAGER) as api:
        snapshot = await live.observe(api, service, namespace, with_pods=True)
        asked = explain.parse_option(service, name, release or snapshot.release(service) or default)
        found = list(snapshot.configured(asked.service.name))
        pods = [[pod for pod in pods_of(one, snapshot) if node in (None, pod["spec"].get("nodeName"))] for one in found]
        if node is not None and not any(pods):
            raise errors.OperatorError(f"no pod of {asked.service.name} runs on node {node}")
        seen = await asyncio.gather(
            *(_look(api, one, pod) for one, its in zip(found, pods, strict=True) for pod in its)
        )
    inside = iter(seen)
    return asked, [
        way(asked, one, snapshot, [(pod, next(inside)) for pod in its])
        for one, its in zip(found, pods, strict=True)
        if node is None or its
    ]


def pods_of(one: Configured, snapshot: live.Snapshot) -> Iterator[Object]:
    """The pods of the workloads that read a file; Jobs' pods have ended."""
    for resource, workload in one.workloads:
        if resource == built_in.JOB:
            continue
        namespace, wanted = workload["metadata"]["namespace"], workload["spec"]["selector"]["matchLabels"]
        for pod in snapshot.of_kind(built_in.POD):
            metadata = pod["metadata"]
            is_its = metadata["namespace"] == namespace and labels.matches(metadata.get("labels", {}), wanted)
            if is_its and "deletionTimestamp" not in metadata:
                yield pod


async def _look(api: client.Client, one: Configured, pod: Object) -> Inside | str:
    """What is in the pod's main container; why it cannot be seen where it cannot."""
    metadata, container = pod["metadata"], pod["spec"]["containers"][0]["name"]
    states = {state["name"]: state for state in pod.get("status", {}).get("containerStatuses", ())}
    if "running" not in states.get(container, {}).get("state", {}):
        return f"container {container} does not run"
    command = ("python3", "-I", "-S", "-c", SCRIPT, config.MERGED, one.file)
    try:
        ended = await api.execute(metadata["namespace"], metadata["name"], container, command)
    except errors.OperatorError as problem:
        return str(problem)
    if ended.code:
        return f"exit code {ended.code}: {ended.errors.decode(errors='replace').strip().splitlines()[-1:]}"
    return msgspec.json.decode(ended.output, type=Inside)


# --- the way --------------------------------------------------------------------------------------------------------


def way(asked: Named, one: Configured, snapshot: live.Snapshot, pods: Sequence[tuple[Object, Inside | str]]) -> Way:
    """Pure: the hops of a file, from what was read."""
    found = live.assigned(one.parts, asked.places)
    counted = live.effective(found, asked.places, asked.option)
    wanted = [item.assignment.value for item in counted]
    is_secret = bool(asked.option and asked.option.secret) or any(item.part.is_secret for item in found)
    return Way(
        one.label,
        one.file,
        tuple(_objects(asked, one, snapshot, found, counted)),
        tuple(
            (pod["metadata"]["name"], tuple(_in_pod(asked, one, pod, inside, wanted, is_secret=is_secret)))
            for pod, inside in pods
        ),
    )


def _objects(
    asked: Named,
    one: Configured,
    snapshot: live.Snapshot,
    found: Sequence[live.Assigned],
    counted: Sequence[live.Assigned],
) -> Iterator[Hop]:
    is_secret = bool(asked.option and asked.option.secret)
    texts = snapshot.texts_with(one, asked.places)
    fields = [] if not counted or counted[-1].part.is_users else snapshot.fields_of(one, counted[-1].origin)
    for field in reversed(list(fields)):
        yield Hop(f"{field.label} {field.field}", live.masked(field.value, is_secret=is_secret))
    for text in texts:
        where = f"{text.label} {text.field}{f', line {text.line}' if text.line else ''}"
        # What it hands down keeps the name of the field and the object that it comes from.
        origin = text.level if levels.INHERITED in text.field else ""
        shown = live.masked(text.value, is_secret=is_secret or text.is_secret)
        yield Hop(where, shown, origin, _problem(text, texts, found))
    for item in found:
        origin = item.origin if item in counted else f"{item.origin}; overridden below"
        where = f"{item.part.holder}, key {item.part.key}, line {item.assignment.line}"
        yield Hop(where, item.shown(asked.option), origin)
    if not snapshot.secrets_are_readable:
        yield Hop("Secrets", None, problem="may not be read: what stands in them is not known")


def _problem(text: live.Upper, texts: Sequence[live.Upper], found: Sequence[live.Assigned]) -> str:
    """Where the next hop below does not say what a text says. What stands in Secrets is compared in no place."""
    if text.is_secret:
        return ""
    if not text.depth:
        said = [item.assignment.value for item in found if item.origin == text.level]
        return "" if text.value in said else "the file does not say so: see the object's condition ConfigValid"
    said = [other.value for other in texts if other.level == text.level and other.depth == text.depth - 1]
    return "" if text.value in said else "the object below does not say so: see the conditions of both"


def _in_pod(
    asked: Named, one: Configured, pod: Object, inside: Inside | str, wanted: Sequence[str], *, is_secret: bool
) -> Iterator[Hop]:
    if isinstance(inside, str):
        yield Hop("in the container", None, problem=inside)
        return
    parts = [Part("file", file.path, file.text, is_merged=True) for file in inside.files]
    found = live.assigned(parts, asked.places)
    counted = live.effective(found, asked.places, asked.option)
    # A pod that has not been replaced has what no Secret says any longer.
    is_secret = is_secret or any(item.is_secret for item in found)
    merged = [item for item in found if item.part.key.endswith(f"/{one.file}")]
    values = [item.assignment.value for item in live.effective(merged, asked.places, asked.option)]
    differs = "" if values == list(wanted) else "differs from the objects: this pod has not been replaced since"
    for item in found:
        is_merged = item in merged
        where = f"{item.part.key}, line {item.assignment.line}"
        origin = item.origin if item in counted else f"{item.origin}; overridden below".removeprefix("; ")
        yield Hop(
            where,
            live.masked(item.assignment.value, is_secret=is_secret),
            origin,
            differs if is_merged and item is merged[-1] else "",
        )
    if differs and not merged:
        yield Hop(f"{config.MERGED}/{one.file}", None, problem=differs)
    written = {file.path: file.written for file in inside.files}
    used = [item.assignment.value for item in counted]
    container = pod["spec"]["containers"][0]
    for name, given in live.variables(container, pod, asked.section, asked.name):
        used = [given]
        shown = live.masked(given, is_secret=is_secret)
        yield Hop(f"environment of container {container['name']}, {name}", shown, "wins over files")
    for process in inside.processes:
        last_read = max(process.start, inside.reread)
        late = [path for path in process.files if written.get(path, 0) > last_read + CLOCK_SECONDS]
        problem = f"started before {', '.join(late)} was written: it may use an older value" if late else ""
        origin = ""
        if not late and last_read > process.start:
            origin = f"started {_moment(process.start)}, read its files again {_moment(last_read)} without a restart"
        elif not late:
            origin = f"started {_moment(process.start)}, after its files were written"
        value = ", ".join(live.masked(one, is_secret=is_secret) for one in used) if used else None
        yield Hop(f"process {process.pid} ({process.name})", value, origin, problem)
    if not inside.processes:
        yield Hop("process", None, problem="none of the container's processes names a configuration file")


def _moment(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


# --- showing --------------------------------------------------------------------------------------------------------


def _default(asked: Named) -> str:
    option = asked.option
    if option is None or option.default is None:
        return "none"
    return live.HIDDEN if option.secret else ", ".join(option.default)


def _text(asked: Named, ways: Sequence[Way]) -> Iterator[str]:
    yield f"{asked.label} of {asked.service.name} {asked.release}; the release's default: {_default(asked)}"
    shown = [one for one in ways if one.is_set]
    for one in shown:
        yield ""
        yield f"{one.label}, {one.file}"
        yield from (_line(hop, 1) for hop in one.hops)
        for pod, hops in one.pods:
            yield f"  Pod {pod}"
            yield from (_line(hop, 2) for hop in hops)
    if silent := [f"{one.label}, {one.file}" for one in ways if not one.is_set]:
        yield ""
        yield "Not set, so that the default holds, in"
        yield from (f"  {one}" for one in dict.fromkeys(silent))
    wrong = sum(bool(hop.problem) for one in ways for hop in one.all())
    yield ""
    yield "All hops agree." if not wrong else f"{wrong} hop{'s' if wrong > 1 else ''} marked with ✗."


def _line(hop: Hop, depth: int) -> str:
    value = "not set" if hop.value is None else '""' if hop.value == "" else hop.value
    origin = f"  ({hop.origin})" if hop.origin else ""
    mark = "✗" if hop.problem else "→"
    return f"{'  ' * depth}{mark} {hop.where}: {value}{origin}{f'  ✗ {hop.problem}' if hop.problem else ''}"


def _json(asked: Named, ways: Sequence[Way]) -> str:
    content: dict[str, Any] = {
        "service": asked.service.name,
        "release": asked.release,
        "section": asked.section,
        "option": asked.name,
        "default": _default(asked),
        "agrees": all(one.agrees for one in ways),
        "ways": [
            {
                "object": one.label,
                "file": one.file,
                "hops": [dataclasses.asdict(hop) for hop in one.hops],
                "pods": [{"pod": pod, "hops": [dataclasses.asdict(hop) for hop in hops]} for pod, hops in one.pods],
            }
            for one in ways
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
