"""What a change of a running cloud costs its users: time until it is through, requests that fail, pods that go.

Clients ask each API of the cloud of `./up` a few times a second while, one after the other,

  text    one line of `customServiceConfig` of each service changes, and new pods serve it
  scale   an API goes from one pod to three, and back
  cell    a cell with a compute in memory comes, and goes
  keys    the fernet keys are rotated, and every pod of Keystone has the new ones

No request may fail. Leaves the cloud as it was. Brings up what is missing with `./up --no-vm`.

    python bench/day2.py --rounds 3 --output bench/results/day2.json --docs docs
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import functools
import json
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import cells
import clients
import report
from openstack_operator.embedded import cloud
from openstack_operator.kit import labels
from openstack_operator.runtime import client
from openstack_operator.services.keystone.config import FERNET_KEYS

Object = dict[str, Any]

CHANGES = ("text", "scale", "cell", "keys")
SERVICES = ("keystone", "glance", "placement", "neutron", "nova")
SCALED = "keystone"
"""The API that goes from one pod to three: the one that all others ask."""
CELL = "cell2"
# Before the change: that it works. After it: pods that were told to end go on for a while.
BEFORE_SECONDS, AFTER_SECONDS = 3, 10
KEYS_SECONDS = 180
LOOK_AGAIN_SECONDS = 1
# Read when a process starts, of all services, and too big to meet anybody: no process takes it without a restart.
TEXT_BYTES = 8 * 1024**2


class Bench(cells.Bench):
    """The cloud with clients."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self._rate = rate
        self.found: list[list[Object]] = []
        """What was measured so far, by rounds."""

    async def changed(self, name: str, change: Callable[[], Awaitable[Object]]) -> Object:
        """Figures of a change under load."""
        before = await asyncio.to_thread(self.pods)
        load = await asyncio.to_thread(clients.Clients.of, self.target, self._rate)
        async with load.at_work():
            await asyncio.sleep(BEFORE_SECONDS)
            figures = await change()
            await asyncio.sleep(AFTER_SECONDS)
        after = await asyncio.to_thread(self.pods)
        found = {
            "change": name,
            **figures,
            "pods that went": sorted(before[uid] for uid in before.keys() - after.keys()),
            "pods that came": sorted(after[uid] for uid in after.keys() - before.keys()),
            "requests": {
                api: {"answers": one.answers, "failed": dict(one.failed), "longest": round(one.longest, 2)}
                for api, one in load.counts.items()
            },
        }
        print(
            f"{name}: {found['seconds']} s, {len(found['pods that went'])} pods, failed: {failed([found])}", flush=True
        )
        return found

    def pods(self) -> dict[str, str]:
        """Name of each pod that runs and is to go on, by its uid."""
        text = cloud.kubectl(self.target, "-n", self.target.namespace, "get", "pods", "-o", "json")
        return {
            one["metadata"]["uid"]: one["metadata"]["name"]
            for one in json.loads(text)["items"]
            if one["status"]["phase"] == "Running" and "deletionTimestamp" not in one["metadata"]
        }

    async def set(self, api: client.Client, spec: Object) -> Object:
        return await self.timed(lambda: self.patch(spec), lambda: self.until_ready(api))

    async def rotate(self) -> Object:
        """The keys of Keystone's tokens are rotated, as its CronJob does it, and are in every pod of its API."""
        where = ("-n", self.target.namespace)
        job = f"rotate-{uuid.uuid4().hex[:8]}"

        def start() -> None:
            cloud.kubectl(self.target, *where, "create", "job", job, "--from=cronjob/keystone-fernet-rotate")

        async def wait() -> None:
            arguments = ("wait", "--for=condition=Complete", f"job/{job}", f"--timeout={KEYS_SECONDS}s")
            await asyncio.to_thread(cloud.kubectl, self.target, *where, *arguments)
            await asyncio.to_thread(self.until_keys)

        figures = await self.timed(start, wait)
        await asyncio.to_thread(cloud.kubectl, self.target, *where, "delete", "job", job)
        return figures

    def until_keys(self) -> None:
        """Looks until every pod has the keys: no object of Kubernetes tells when a kubelet has renewed a volume."""
        deadline = time.monotonic() + KEYS_SECONDS
        while not self.have_keys():
            if time.monotonic() > deadline:
                raise TimeoutError(f"a pod of Keystone has not got the new keys after {KEYS_SECONDS} s")
            time.sleep(LOOK_AGAIN_SECONDS)

    def have_keys(self) -> bool:
        """Whether the pods of Keystone's API have the keys that are in the Secret."""
        where = ("-n", self.target.namespace)
        secret = json.loads(cloud.kubectl(self.target, *where, "get", "secret", "keystone-fernet-keys", "-o", "json"))
        wanted = {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}
        selector = ",".join(f"{key}={value}" for key, value in labels.selector("keystone", "keystone", "api").items())
        pods = cloud.kubectl(self.target, *where, "get", "pods", "-l", selector, "-o", "name").split()
        show = f"cd {FERNET_KEYS} && for one in *; do echo $one $(cat $one); done"
        for pod in pods:
            lines = cloud.kubectl(self.target, *where, "exec", pod, "--", "sh", "-c", show).splitlines()
            if dict(line.split() for line in lines) != wanted:
                return False
        return bool(pods)

    async def changes(self, api: client.Client, number: int, wanted: Iterable[str]) -> None:
        """Figures of each change, once."""
        found: list[Object] = []
        self.found.append(found)
        if "text" in wanted:
            for service in SERVICES:
                spec = text(service, f"[oslo_middleware]\nmax_request_body_size = {TEXT_BYTES + number}\n")
                found.append(await self.changed(f"text of {service}", functools.partial(self.set, api, spec)))
        if "scale" in wanted:
            for name, replicas in (("1 to 3", 3), ("3 to 1", 1)):
                spec = {SCALED: {"replicas": replicas}}
                found.append(await self.changed(f"{SCALED}: {name} pods", functools.partial(self.set, api, spec)))
        if "cell" in wanted:
            found.append(await self.changed("a cell comes", functools.partial(self.add, api, [CELL])))
            found.append(await self.changed("a cell goes", functools.partial(self.remove, api, [CELL])))
            await self.until_ready(api)
        if "keys" in wanted:
            found.append(await self.changed("fernet keys", self.rotate))

    async def rounds(self, count: int, wanted: Sequence[str]) -> None:
        """Everything; the cloud is as it was afterwards, whatever happens."""
        async with self.api() as api:
            try:
                for number in range(count):
                    await self.changes(api, number, wanted)
            finally:
                for service in SERVICES:
                    self.patch(text(service, None))
                self.patch({SCALED: {"replicas": None}} | cells.templates([CELL], None))
                await self.until_ready(api)


def text(service: str, value: str | None) -> Object:
    """The part of a control plane's spec with a text for a service's API; None takes it out."""
    template: Object = {"customServiceConfig": value}
    return {service: {"api": template} if service == "nova" else template}


def failed(figures: Iterable[Object]) -> str:
    """The failed requests by service and reason, in a few words."""
    found = [
        f"{sum(counts)} x {api} {why}"
        for (api, why), counts in grouped(
            ((api, why), count)
            for one in figures
            for api, of in one["requests"].items()
            for why, count in of["failed"].items()
        ).items()
    ]
    return ", ".join(found) or "0"


def grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def table(rounds: list[list[Object]]) -> str:
    """Markdown: a line for each kind of change, over all rounds."""
    rows = []
    for name, figures in grouped((one["change"], one) for round_ in rounds for one in round_).items():
        seconds = [one["seconds"] for one in figures]
        asked = sum(of["answers"] + sum(of["failed"].values()) for one in figures for of in one["requests"].values())
        longest = max(of["longest"] for one in figures for of in one["requests"].values())
        pods = sorted({len(one["pods that went"]) for one in figures})
        rows.append(
            [name, f"{statistics.median(seconds):.0f} s", f"{max(seconds):.0f} s", " or ".join(map(str, pods)),
             asked, failed(figures), f"{longest:.1f} s"]
        )  # fmt: skip
    if not rows:
        return "Nothing was measured.\n"
    header = ("change", "until through", "at most", "pods that went", "requests", "failed", "slowest answer")
    return f"Medians of {len(rounds)} rounds.\n\n{report.table(header, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5, help="requests a second to each API")
    parser.add_argument("--changes", default=",".join(CHANGES), help=f"some of {', '.join(CHANGES)}")
    report.add_options(parser)
    arguments = parser.parse_args()
    bench = Bench(arguments.rate)
    try:
        asyncio.run(bench.rounds(arguments.rounds, arguments.changes.split(",")))
    finally:
        # What was measured outlives a failure, and ^C.
        report.publish(arguments, "day2", {"rate": arguments.rate, "rounds": bench.found}, table(bench.found))


if __name__ == "__main__":
    main()
