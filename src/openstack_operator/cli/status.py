"""`openstack-operator status`: the cloud as a tree, and before it the one object that everything waits for.

Called by `cloud`. Reads a few LISTs, watches only with `--watch`, changes nothing. How the tree is put together is in
`tree`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import re
import sys
import textwrap
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.console import Console
from rich.text import Text

from openstack_operator.cli import tree
from openstack_operator.kit import kinds, labels
from openstack_operator.runtime import client, conditions, errors, events, logs
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.informer import Break, Informer, Together
from openstack_operator.runtime.kinds import Resource

READY, NOT_READY = 0, 3
"""Exit codes; 1 and 2 are failure and wrong usage, as everywhere."""

FIELD_MANAGER = "openstack-operator-cli"
OURS = {"labelSelector": labels.SELECTOR}
# What belongs to no cloud, and clouds do not work without: kind, namespace (or anywhere), and label. The operator lives
# in a namespace of its own, and carries another label than what it makes.
SHARED: tuple[tuple[Resource, str | None, Mapping[str, str]], ...] = (
    *((one, None, {"labelSelector": f"app.kubernetes.io/name={labels.OPERATOR}"}) for one in tree.DEPLOYED),
    *((one, tree.DNS_NAMESPACE, {"labelSelector": f"k8s-app={tree.DNS_NAME}"}) for one in tree.DEPLOYED),
    (built_in.ENDPOINTSLICE, tree.DNS_NAMESPACE, {"labelSelector": f"kubernetes.io/service-name={tree.DNS_NAME}"}),
)


def _whole(item: Object) -> Object:
    return item


# What says more about pods than they do themselves, and may be hidden from who reads.
BESIDE: tuple[tuple[Resource, Mapping[str, str], Callable[[Object], Object | None]], ...] = (
    (built_in.EVENT, events.WARNINGS, events.trimmed),
    (built_in.NODE, {}, _whole),
    (built_in.PVC, OURS, _whole),
    (built_in.STORAGECLASS, {}, _whole),
)

# Room beside the names for two columns, at least: state, and since when.
STATE_WIDTH, AGE_WIDTH = 18, 7
LONGEST_MESSAGE = 400

PATIENCE_SECONDS = 1.0
"""So long the API server may take before it is asked how it is."""
READY_PATH, FAILED_CHECK = "/readyz", re.compile(r"\[-\](\S+) failed")

T = TypeVar("T")

TICK_SECONDS = 10.0
"""How old the ages on a watched screen may be."""
SETTLE_SECONDS = 0.1

_STYLES: dict[tree.State, str] = {"ready": "green", "stalled": "red", "waiting": "yellow", "deleting": "magenta"}
_MARKS: dict[tree.State, str] = {"ready": "✓", "stalled": "✗", "waiting": "…", "deleting": "-"}
_PLAIN_MARKS: dict[tree.State, str] = {"ready": "+", "stalled": "x", "waiting": ".", "deleting": "-"}


def run(kubeconfig: str | None, namespace: str | None, *, as_json: bool, everything: bool) -> int:
    """Prints the answer and returns the exit code. Raises `errors.OperatorError` where it cannot be found out."""
    try:
        picture = asyncio.run(observe(kubeconfig, namespace))
    except errors.ApiError as problem:
        hint = "; with --namespace only that one is read" if problem.status == 403 and namespace is None else ""
        raise errors.OperatorError(f"{problem}{hint}") from problem
    if as_json:
        json.dump(plain(picture), sys.stdout, indent=2)
        print()
    else:
        show(Console(highlight=False), picture, datetime.datetime.now(datetime.UTC), namespace, everything=everything)
    return READY if picture is not None and picture.is_ready else NOT_READY


# --- reading --------------------------------------------------------------------------------------------------------


async def observe(kubeconfig: str | None, namespace: str | None) -> tree.Picture | None:
    """The cloud as it is; None where the operator's resources do not exist. Raises as ``collect``."""
    found = await collect(kubeconfig, namespace)
    return None if found is None else tree.build(own_resources(), found)


async def collect(kubeconfig: str | None, namespace: str | None) -> dict[Resource, list[Object]] | None:
    """All objects of the cloud; None where the operator's resources do not exist.

    Raises `errors.OperatorError` without a cluster or an answer, and `errors.ApiError` where it refuses one.
    """
    own = own_resources()
    resources = [*own, *tree.BUILT_IN]
    async with client.Client(client.Config.load(kubeconfig), FIELD_MANAGER) as api:

        async def listed() -> tuple[list[list[Object] | None], dict[Resource, list[Object]]]:
            lists = (read(api, one, namespace, {} if one in own else OURS) for one in resources)
            return await asyncio.gather(asyncio.gather(*lists), read_shared(api))

        found, shared = await answered(api, listed())
        objects = dict(zip(resources, found, strict=True))
        # Of a cloud that is Ready nobody asks what keeps it from it; Events may be many.
        is_well = all(conditions.is_ready(item) for one in own for item in objects[one] or ())
        beside = {} if is_well else await read_beside(api, namespace)
    if objects[kinds.CONTROL_PLANE] is None:
        return None
    return {one: [*(objects.get(one) or ()), *shared.get(one, ())] for one in (*resources, *shared)} | beside


async def answered(api: client.Client, requests: Coroutine[Any, Any, T]) -> T:
    """The result of some requests. While they take long, the API server is asked whether it is well: without its store
    it keeps everybody waiting for half a minute.

    Raises `errors.ApiUnreachableError` with what it says that fails.
    """
    work = asyncio.ensure_future(requests)
    done, _ = await asyncio.wait({work}, timeout=PATIENCE_SECONDS)
    if not done:
        try:
            await api.request("GET", READY_PATH)
        except errors.ApiError as problem:
            if failed := FAILED_CHECK.findall(problem.message):
                work.cancel()
                await asyncio.wait({work})
                where = api.config.server
                raise errors.ApiUnreachableError(
                    f"the API server {where} is not ready: {', '.join(failed)} failed"
                ) from problem
        except errors.ApiUnreachableError:
            # It is well, and says so in a text; or it says nothing, which the requests themselves will tell.
            pass
    return await work


def own_resources() -> list[Resource]:
    """Our kinds in the order of the rollout."""
    # Here: the list of all services takes half a second to load, and `--help` needs none of it.
    from openstack_operator import controlplane

    return [kind.resource for service in controlplane.EVERYTHING for kind in service.kinds]


async def read(
    api: client.Client, resource: Resource, namespace: str | None, selectors: Mapping[str, str]
) -> list[Object] | None:
    """All objects of a kind; None where the API server does not know the kind."""
    try:
        return [item async for page in api.list_pages(resource, namespace, selectors) for item in page["items"]]
    except errors.ApiError as problem:
        if problem.status == 404:
            return None
        raise


async def read_visible(
    api: client.Client, resource: Resource, namespace: str | None, selectors: Mapping[str, str]
) -> list[Object]:
    """All objects of a kind; nothing for somebody who may not see them."""
    try:
        return await read(api, resource, namespace, selectors) or []
    except errors.ApiError as problem:
        if problem.status == 403:
            return []
        raise


async def read_shared(api: client.Client) -> dict[Resource, list[Object]]:
    """The operator and the cluster's DNS; nothing for somebody who may not see them."""
    lists = await asyncio.gather(*(read_visible(api, *one) for one in SHARED))
    found: dict[Resource, list[Object]] = {}
    for (resource, *_), items in zip(SHARED, lists, strict=True):
        found.setdefault(resource, []).extend(items)
    return found


async def read_beside(api: client.Client, namespace: str | None) -> dict[Resource, list[Object]]:
    """Warnings and what else says more about pods; nothing for somebody who may not see it."""
    found: dict[Resource, list[Object]] = {}
    for resource, selectors, trim in BESIDE:
        where = namespace if resource.namespaced else None
        listed = await read_visible(api, resource, where, selectors)
        found[resource] = [kept for one in listed if (kept := trim(one))]
    return found


async def watch(
    kubeconfig: str | None,
    namespace: str | None,
    draw: Callable[[tree.Picture, Break | None], None],
    *,
    seconds: float = TICK_SECONDS,
) -> None:
    """Draws the cloud now and after every change, until cancelled. Watches; between changes only the ages are drawn
    anew, every ``seconds``. ``draw`` is told of what cannot be watched any more, too: then the picture may be over.

    Raises `errors.OperatorError` without a cluster, and where the operator is not installed.
    """
    own = own_resources()
    changed = asyncio.Event()
    async with client.Client(client.Config.load(kubeconfig), FIELD_MANAGER) as api:
        if await read(api, kinds.CONTROL_PLANE, namespace, {}) is None:
            raise errors.OperatorError("the operator is not installed: this cluster knows no OpenStackControlPlane")
        caches = [Informer(api, one, namespace, {} if one in own else OURS) for one in (*own, *tree.BUILT_IN)]
        # Somebody who may not see these sees the rest.
        shared = [Informer(api, *one) for one in SHARED]
        for cache in (*caches, *shared):
            cache.subscribe(lambda new, old: changed.set())
        for cache in caches:
            cache.subscribe_breaks(changed.set)
        # Heartbeats and repetitions are no reason to draw; what is drawn next knows them.
        beside = [
            Informer(api, resource, namespace if resource.namespaced else None, selectors, trim)
            for resource, selectors, trim in BESIDE
        ]
        for cache in beside:
            if cache.resource != built_in.NODE:
                cache.subscribe(lambda new, old: changed.set())
        # The first that is answered again has the others try too.
        Together((*caches, *shared, *beside))
        async with asyncio.TaskGroup() as group:
            for cache in (*caches, *shared, *beside):
                group.create_task(cache.run())
            for cache in caches:
                await cache.synced.wait()
            while True:
                changed.clear()
                breaks = [found for cache in caches if (found := cache.broken)]
                objects: dict[Resource, list[Object]] = {}
                for cache in (*caches, *shared, *beside):
                    objects.setdefault(cache.resource, []).extend(cache.items())
                draw(tree.build(own, objects), min(breaks, key=lambda one: one.since, default=None))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await changed.wait()
                # Changes come in bursts.
                await asyncio.sleep(SETTLE_SECONDS)


def follow(kubeconfig: str | None, namespace: str | None, *, everything: bool) -> None:
    """Keeps the terminal's screen current until ^C; elsewhere a line for each change of the answer."""
    logs.configure("error", "human")
    console = Console(highlight=False)
    said: list[str] = []

    def draw(picture: tree.Picture, broken: Break | None) -> None:
        now = datetime.datetime.now(datetime.UTC)
        if not console.is_terminal:
            found = [warning(broken, now)] if broken else headline(picture, now)
            lines = [without_age(line.plain) for line in found] if broken or picture.roots else ["no cloud"]
            if lines != said:
                said[:] = lines
                print(*(f"{now:%H:%M:%S} {line}" for line in lines), sep="\n", flush=True)
            return
        lines = screen(console, picture, now, namespace, broken, everything=everything)
        # Cleared before it is written: behind a line that fills the width, to clear the rest takes its last letter.
        console.file.write("\x1b[H" + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[J")
        console.file.flush()

    if console.is_terminal:
        console.clear()
    asyncio.run(watch(kubeconfig, namespace, draw))


def screen(
    console: Console,
    picture: tree.Picture,
    now: datetime.datetime,
    namespace: str | None,
    broken: Break | None = None,
    *,
    everything: bool,
) -> list[str]:
    """The lines of a screen that is watched, as many as it has at most: where all do not fit, what is well gives way
    first."""

    def lines(*, is_short: bool) -> list[str]:
        with console.capture() as captured:
            if broken:
                console.print(warning(broken, now))
                console.print(Text("What stands below is from before.", style="dim"))
                console.print()
            show(console, picture, now, namespace, everything=everything, is_short=is_short)
        return captured.get().splitlines()

    room = console.height - 1
    found = lines(is_short=False)
    if len(found) > room:
        found = lines(is_short=True)
    if len(found) > room:
        found = [*found[: room - 1], fitted(f"… {len(found) - room + 1} more lines: this window is low", console.width)]
    return found


def warning(broken: Break, now: datetime.datetime) -> Text:
    """The headline of a picture that is not kept current any more."""
    why = (
        "No answer from the API server"
        if isinstance(broken.problem, errors.ApiUnreachableError)
        else f"The API server lets nobody watch: {shortened(str(broken.problem))}"
    )
    return Text(f"{why} (for {age(broken.since.isoformat(), now)})", style="bold red")


def without_age(line: str) -> str:
    """A headline without how long it holds, which is another at every look."""
    return re.sub(r"( \(for [^()]*\)|, for [^,]*)$", "", line)


# --- showing --------------------------------------------------------------------------------------------------------


def plain(picture: tree.Picture | None) -> dict[str, Any]:
    """For JSON."""
    if picture is None:
        return {"ready": False, "installed": False, "waitsFor": [], "clouds": []}
    return {
        "ready": picture.is_ready,
        "installed": True,
        "waitsFor": [
            {"kind": node.kind, "namespace": node.namespace, "name": node.name, "state": node.state}
            | {"message": node.message, "since": node.since}
            for node in blockers(picture)
        ],
        "clouds": [root.plain() for root in picture.roots],
    }


def blockers(picture: tree.Picture) -> list[tree.Node]:
    """What the roots that are not ready wait for, each once; DNS first, which all of them do."""
    found = {}
    for top in picture.needed:
        if not top.is_ready:
            node = tree.blocking(picture, top)
            found[node.label] = node
    return list(found.values())


def show(
    console: Console,
    picture: tree.Picture | None,
    now: datetime.datetime,
    namespace: str | None = None,
    *,
    everything: bool = False,
    is_short: bool = False,
) -> None:
    """Draws for a person. The first line is the answer. ``is_short`` counts what is well instead of showing it."""
    if picture is None:
        console.print("The operator is not installed: this cluster knows no OpenStackControlPlane.")
        console.print("Install it with: kubectl apply --server-side -f deploy/install.yaml")
        return
    if not picture.roots:
        where = f"in namespace {namespace}" if namespace else "in this cluster"
        console.print(f"There is no OpenStackControlPlane {where}.")
        console.print("Make one: kubectl apply -f deploy/samples/valid/controlplane-minimal.yaml")
        return
    for line in headline(picture, now):
        # One line for programs, as many as it takes for people.
        console.print(line, soft_wrap=not console.is_terminal)
    for root in picture.roots:
        console.print()
        draw(console, picture, root, now, everything=everything, is_short=is_short)
    for node in picture.shared:
        if everything or not node.is_ready:
            console.print()
            draw(console, picture, node, now, everything=everything)


def headline(picture: tree.Picture, now: datetime.datetime) -> list[Text]:
    """One line for each thing that something waits for, or one that says that nothing is missing."""
    if picture.is_ready:
        since = max(root.since for root in picture.roots)
        names = ", ".join(root.label for root in picture.roots[:3])
        return [Text(f"Ready: {names}, for {age(since, now)}", style="bold green")]
    lines = []
    for node in blockers(picture):
        what = {"stalled": "Needs you", "deleting": "Waits for the end of"}.get(node.state, "Waits for")
        why = shortened(node.message or node.summary)
        separator = ": " if node.state == "stalled" else " "
        lines.append(
            Text(
                f"{what}{separator}{node.label}: {why} (for {age(node.since, now)})",
                style=f"bold {_STYLES[node.state]}",
            )
        )
    return lines


def draw(
    console: Console,
    picture: tree.Picture,
    root: tree.Node,
    now: datetime.datetime,
    *,
    everything: bool,
    is_short: bool = False,
) -> None:
    """One tree. What is not ready and has nothing unready below it says in lines of its own what it waits for."""
    every = list(rows_of(root, everything=everything, is_ascii=console.options.ascii_only))
    rows = [row for row in every if not row.is_well] if is_short else every
    state = max(len(row.node.summary) for row in rows)
    ages = max(len(age(row.node.since, now)) for row in rows)
    state, ages = max(state, STATE_WIDTH), max(ages, AGE_WIDTH)
    width = min(max(len(row.label) for row in rows), console.width - state - ages - 3)
    said = {node.label for node in blockers(picture)}
    for row in rows:
        node = row.node
        # A name is what one goes on with: where it does not fit beside its state, that goes into a line of its own.
        is_long = len(row.label) > width
        line = Text(fitted(row.guide, width) if is_long else row.label.ljust(width))
        if is_long:
            for part in wrapped(row.label, "", row.guide, console.width):
                console.print(part, no_wrap=True)
        line.append(f"  {node.summary.ljust(state)}", style=_STYLES[node.state])
        line.append(f" {age(node.since, now):>{ages}}", style="dim")
        console.print(line, no_wrap=True)
        others = ", ".join(f"{other.kind} {other.name}" for other in tree.waits_for(picture, node))
        why = f"waits for {others}" if others else shortened(node.message)
        if row.explains and why and node.label not in said:
            for part in wrapped(why, row.guide, row.guide, console.width):
                console.print(Text(part, style="dim"), no_wrap=True)
    if len(every) > len(rows):
        console.print(Text(f"{len(every) - len(rows)} more objects are well", style="dim"), no_wrap=True)


def wrapped(text: str, first: str, rest: str, width: int) -> list[str]:
    """The text in lines of `width` columns at most; what they begin with."""
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


@dataclass(frozen=True)
class Row:
    """One line of a tree."""

    node: tree.Node
    label: str
    guide: str
    """Beginning of a further line about the node."""
    explains: bool
    is_well: bool
    """It is ready, and so is all below it."""


def rows_of(root: tree.Node, *, everything: bool, is_ascii: bool) -> Iterator[Row]:
    """The lines of a tree, from top to bottom."""
    marks = _PLAIN_MARKS if is_ascii else _MARKS
    tee, elbow, bar = ("|- ", "`- ", "|  ") if is_ascii else ("├─ ", "└─ ", "│  ")

    def visit(node: tree.Node, guide: str, below: str, name: str) -> Iterator[Row]:
        children = [child for child in node.children if everything or not is_dull(child)]
        explains = not node.is_ready and all(child.is_ready for child in node.children)
        label = f"{guide}{marks[node.state]} {node.kind} {name}"
        is_well = all(one.is_ready for one in node.walk()) and node is not root
        yield Row(node, label, f"{below}{bar if children else '   '} ", explains, is_well)
        for child in children:
            last = child is children[-1]
            yield from visit(child, below + (elbow if last else tee), below + ("   " if last else bar), child.name)

    yield from visit(root, "", "", f"{root.namespace}/{root.name}")


def is_dull(node: tree.Node) -> bool:
    """Pods and Jobs that are well: their workload, and its number of pods, say enough."""
    return node.is_ready and node.kind in (built_in.POD.kind, built_in.JOB.kind)


def fitted(text: str, width: int) -> str:
    """Exactly `width` columns; what is too long ends in an ellipsis."""
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def shortened(message: str) -> str:
    """One line of bearable length."""
    line = " ".join(message.split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}…"


def age(since: str, now: datetime.datetime) -> str:
    """How long ago, in the largest unit that tells enough: 45 s, 12 min, 3 h, 5 d."""
    seconds = max(0, int((now - datetime.datetime.fromisoformat(since)).total_seconds()))
    for size, unit, until in ((1, "s", 120), (60, "min", 120), (3600, "h", 48)):
        if seconds < size * until:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86400} d"
