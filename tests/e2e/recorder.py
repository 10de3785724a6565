"""Records what the status of a cloud goes through, in a thread beside the test."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from clusters import Cluster

import recording
from openstack_operator.runtime import client, kinds

SETTLE_SECONDS = 3


class Recorder:
    """Records the objects of some kinds in the namespace of a cloud."""

    def __init__(self, cluster: Cluster, namespace: str, resources: tuple[kinds.Resource, ...]) -> None:
        self._cluster, self._namespace, self._kinds = cluster, namespace, resources
        self._begun, self._over = threading.Event(), threading.Event()
        self.seen: Any = None
        self.events: collections.Counter[recording.Place] = collections.Counter()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=lambda: asyncio.run(self._record()))
        thread.start()
        try:
            assert self._begun.wait(60)
            yield
        finally:
            self._over.set()
            thread.join()

    async def _record(self) -> None:
        async with client.Client(client.Config.from_kubeconfig(self._cluster.kubeconfig), "e2e") as api:
            self.seen = recording.Recording(api, self._namespace, self._kinds)
            async with self.seen.running():
                self._begun.set()
                await asyncio.to_thread(self._over.wait)
                # What the test has seen already is on its way to these watches, and the last Events are being written.
                await asyncio.sleep(SETTLE_SECONDS)
            self.events = await recording.told(api, self._namespace, self._kinds)
