"""New values of mutable options in running pods, without a restart.

Which processes read their files again on SIGHUP, and work on meanwhile, is data of the release (`releases`, measured in
docs/adr/0005). The pod template of such a process has a hash of what is read at start (`config.HASH`), which leaves
out users' mutable options, and one of these (`config.MUTABLE_HASH`), which stays as it is while nothing else changes:

    template, and each new pod:  mutable-config-hash: A
    an option changes to B   ->  ConfigMap and Secret have B; the template stays
    each ready pod with A    ->  exec: writes the file, SIGHUP, waits until the process has read it; annotated with B
    a pod that starts later  ->  has A from the template, and B from its init container: the same exec finds that, and
                                 annotates it

Called by `workloads.apply` and `workloads.reread`. What a pod has taken is read from the pod itself, so that nothing is
remembered, and a pass over pods that have it makes no request.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import config, first_process, labels, pods, verified
from openstack_operator.runtime import drift, errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.kinds import Resource

RULES = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
    # The API server asks for `get` where the exec comes by a WebSocket, and since 1.35 for `create` as well.
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
)
"""Access rules of controllers whose pods read again."""

NOT_REREAD = "ConfigNotReread"
"""Surfaces when a running process did not take new values of mutable options: its pod still has the former ones."""
REREAD = "ConfigReread"
"""Surfaces as an Event when running processes took new values of mutable options."""
TOLD = "rereading"
"""First word of what a plan hears."""

RECORD = ".reread.json"
"""File beside the merged ones with what was read again: the process' start, the hash, and when."""

# A process reads its files within milliseconds of the signal; one that is busy gets to it between two pieces of work.
REREAD_SECONDS = 15
PODS_AT_ONCE = 8

SCRIPT = f"""\
{first_process.PYTHON}

import ctypes, json, select, signal, struct, sys, time

folder, digest, length, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
content = {{os.path.join(folder, name): text for name, text in json.loads(sys.stdin.buffer.read(length)).items()}}
record = os.path.join(folder, "{RECORD}")
CLOSE_NOWRITE = 0x10


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode()
    except FileNotFoundError:
        return ""


def write(path, text):
    new = os.path.join(folder, "." + os.path.basename(path) + ".new")
    with open(new, "w") as file:
        if os.path.exists(path):
            os.fchmod(file.fileno(), os.stat(path).st_mode & 0o777)
        file.write(text)
    os.replace(new, path)


def end(word):
    print(word)
    sys.exit()


start, first = first_process()
stale = [path for path, text in content.items() if read(path) != text]
if not stale:
    if json.loads(read(record) or "{{}}").get("of") == [start, digest]:
        end("current")
    since = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + start / os.sysconf("SC_CLK_TCK")
    # The clock of files, and that of processes, tick up to ten milliseconds apart.
    if all(os.stat(path).st_mtime + 0.05 < since for path in content):
        end("current")
mask = next(line.split()[1] for line in read(f"/proc/{{first}}/status").splitlines() if line.startswith("SigCgt:"))
if not int(mask, 16) >> (signal.SIGHUP - 1) & 1:
    sys.exit("the process does not take SIGHUP now")
for path in stale:
    write(path, content[path])
words = read(f"/proc/{{first}}/cmdline")
opened = [path for path in content if path in words]
if not opened:
    sys.exit("the process names none of its configuration files")
libc = ctypes.CDLL(None, use_errno=True)
events = libc.inotify_init1(os.O_CLOEXEC)
waiting = {{libc.inotify_add_watch(events, path.encode(), CLOSE_NOWRITE): path for path in opened}}
if events < 0 or min(waiting) < 0:
    sys.exit("inotify: " + os.strerror(ctypes.get_errno()))
os.kill(first, signal.SIGHUP)
limit = time.monotonic() + seconds
while waiting:
    if not select.select([events], [], [], max(0, limit - time.monotonic()))[0]:
        sys.exit(f"the process did not read {{', '.join(waiting.values())}} within {{seconds}} s of SIGHUP")
    data = os.read(events, 65536)
    while data:
        number, _, _, size = struct.unpack_from("iIII", data)
        waiting.pop(number, None)
        data = data[16 + size :]
write(record, json.dumps({{"of": [start, digest], "time": time.time()}}))
end("reread")
"""
"""Runs in the container of the process, whose first one it is: brings the new files, which come on stdin, to it."""


def kept(body: Object, present: Object | None) -> Object:
    """The workload with the mutable options' hash of the one that is there, where nothing else of its pods changes."""
    if present is None:
        return body
    wanted, found = (one["spec"]["template"]["metadata"].get("annotations", {}) for one in (body, present))
    if wanted.get(config.MUTABLE_HASH) == found.get(config.MUTABLE_HASH):
        return body
    new = copy.deepcopy(body)
    annotations = new["spec"]["template"]["metadata"]["annotations"]
    annotations.pop(config.MUTABLE_HASH, None)
    if config.MUTABLE_HASH in found:
        annotations[config.MUTABLE_HASH] = found[config.MUTABLE_HASH]
    return new if drift.is_subset(new["spec"]["template"], present["spec"]["template"]) else body


async def ensure(scope: Scope[Any], resource: Resource, item: Object, sources: config.Sources, container: str) -> str:
    """Running pods of a workload have users' mutable options; what some of them have read again, for people.

    Raises ``errors.Unavailable`` that names each pod that has not, and why.
    """
    name = item["metadata"]["name"]
    if verified.is_assumed(scope):
        # A plan: its pods are not touched.
        verified.is_current(scope, f"{TOLD} {resource.kind} {name}", f"{sources.mutable_digest} {said(sources)}")
        return ""
    template = item["spec"]["template"]["metadata"].get("annotations", {})
    serving = [pod for pod in scope.items(kinds.POD) if _is_due(pod, item)]
    due = [pod for pod in serving if _digest(pod) != sources.mutable_digest]
    if due:
        await _bring(scope, due, sources, container)
    if template.get(config.MUTABLE_HASH, "") == sources.mutable_digest or not serving:
        return ""
    return f"without a restart {len(serving)} pod{'' if len(serving) == 1 else 's'} read again: {said(sources)}"


def said(sources: config.Sources) -> str:
    """The mutable options that users set, in the notation of people."""
    pairs = (place.rpartition("/") for place in sources.mutable)
    return ", ".join(f"[{section}] {option}" for section, _, option in pairs) or "the defaults of mutable options"


def _digest(pod: Object) -> str:
    found: str = pod["metadata"].get("annotations", {}).get(config.MUTABLE_HASH, "")
    return found


def _is_due(pod: Object, item: Object) -> bool:
    """Whether a pod runs what the template says, and can be asked."""
    metadata = pod["metadata"]
    template = item["spec"]["template"]["metadata"].get("annotations", {})
    return (
        labels.matches(metadata.get("labels", {}), item["spec"]["selector"]["matchLabels"])
        and metadata.get("annotations", {}).get(config.HASH) == template.get(config.HASH)
        and pods.is_ready(pod)
    )


async def _bring(scope: Scope[Any], due: list[Object], sources: config.Sources, container: str) -> None:
    content = json.dumps(dict(sources.merged)).encode()
    few = asyncio.Semaphore(PODS_AT_ONCE)

    async def one(pod: Object) -> tuple[str, str]:
        async with few:
            return await _exec(scope, pod["metadata"]["name"], container, sources.mutable_digest, content)

    outcomes = await asyncio.gather(*(one(pod) for pod in due))
    found: Mapping[str, tuple[str, str]] = dict(zip((pod["metadata"]["name"] for pod in due), outcomes, strict=True))
    reread = sorted(name for name, (word, _) in found.items() if word == "reread")
    if reread:
        await scope.event("Normal", REREAD, f"{said(sources)}: read again without a restart in {', '.join(reread)}")
    if failed := sorted(f"pod {name}: {why}" for name, (word, why) in found.items() if word == "failed"):
        raise errors.Unavailable(NOT_REREAD, f"{said(sources)}: {'; '.join(failed)}")


async def _exec(scope: Scope[Any], pod: str, container: str, digest: str, content: bytes) -> tuple[str, str]:
    """What became of a pod (reread, current, gone, failed), and why."""
    arguments = (config.MERGED, digest, str(len(content)), str(REREAD_SECONDS))
    command = ("python3", "-I", "-S", "-c", SCRIPT, *arguments)
    try:
        ended = await scope.client.execute(scope.namespace, pod, container, command, content)
        if ended.code:
            lines = ended.errors.decode(errors="replace").strip().splitlines()
            return "failed", lines[-1] if lines else f"exit code {ended.code}"
        patch = {"metadata": {"annotations": {config.MUTABLE_HASH: digest}}}
        await scope.client.merge(kinds.POD, pod, scope.namespace, patch)
    except errors.ApiError as problem:
        return ("gone", "") if problem.status == 404 else ("failed", str(problem))
    except errors.ApiUnreachableError as problem:
        return "failed", str(problem)
    return ended.output.decode(errors="replace").strip(), ""
