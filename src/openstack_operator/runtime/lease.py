"""Leader election over a Lease: one replica works, the others keep warm caches.

    waiting --(lease free, ours, or expired)--> holding --(renewal fails too long)--> lost (the process ends)

Clocks of replicas are never compared: a foreign lease counts as expired when its renewTime has not changed for its
duration on OUR clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import math
import time
from collections.abc import Callable

from openstack_operator.runtime import errors, kinds, logs, metrics
from openstack_operator.runtime.client import Client, Object

log = logs.get("lease")

CAUGHT_UP = "caught-up"
"""The annotation, behind the domain."""


class LostError(errors.OperatorError):
    """The lease could not be renewed in time: another replica may lead, this one must stop at once."""


class Election:
    """Runs for one Lease. ``leading`` is set from the first success on, ``is_contended`` once another replica was seen
    to hold it.

    ``annotation`` of the Lease has the holder's identity once ``tell_caught_up`` was called: from then on what objects
    say of themselves is what this process found.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        annotation: str,
        duration: float = 15,
        renew: float = 5,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        """``answered`` is called when the server answers again, which it is asked more often than by others."""
        self.leading = asyncio.Event()
        self.is_contended = False
        self._client, self._namespace, self._name, self._identity = client, namespace, name, identity
        self._duration, self._renew = duration, renew
        self._answered = answered
        self._annotation, self._caught_up, self._hurry = annotation, False, asyncio.Event()
        # As our last write left it: a renewal needs no read, its version tells when somebody else wrote.
        self._ours: Object | None = None
        self._seen: tuple[object, object] | None = None
        self._seen_at = 0.0

    async def run(self) -> None:
        """Until cancelled. Raises ``LostError`` when leadership cannot be held any longer."""
        # Two thirds of the duration: we have stopped before anybody else may start.
        patience = self._duration * 2 / 3
        deadline = float("inf")
        is_answered = True
        while True:
            started = time.monotonic()
            try:
                # Not a moment past the deadline, even when the server hangs.
                async with asyncio.timeout(min(patience, deadline - started)):
                    is_held = await self._try(started)
            except (errors.ApiError, errors.ApiUnreachableError, TimeoutError) as problem:
                log.warning("lease not renewed", lease=self._name, problem=str(problem) or "no answer in time")
                if time.monotonic() >= deadline:
                    raise LostError(f"lease {self._name} could not be renewed for {patience:.0f} s") from problem
                # Sooner than usual: every second counts.
                pause = self._renew / 4
                is_answered = False
            else:
                if not is_answered:
                    self._answered()
                is_answered = True
                pause = self._renew if is_held else self._renew / 2
                if is_held:
                    deadline = started + patience
                    if not self.leading.is_set():
                        log.info("leading", lease=self._name, identity=self._identity)
                        self.leading.set()
                        metrics.LEADER.set(1)
                elif self.leading.is_set():
                    raise LostError(f"lease {self._name} was taken by another replica")
                else:
                    self.is_contended = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(pause, deadline - time.monotonic()))):
                    await self._hurry.wait()
            self._hurry.clear()

    def tell_caught_up(self) -> None:
        """The leader has looked at everything once: the Lease says so at once."""
        self._caught_up = True
        self._hurry.set()

    async def release(self) -> None:
        """Gives the lease back, so that the next replica takes over at once."""
        try:
            async with asyncio.timeout(self._renew):
                lease = await self._client.get(kinds.LEASE, self._name, self._namespace)
                if lease["spec"].get("holderIdentity") == self._identity:
                    lease["spec"].update(holderIdentity="", leaseDurationSeconds=1)
                    await self._client.replace(kinds.LEASE, lease)
        except (errors.ApiError, errors.ApiUnreachableError, TimeoutError) as problem:
            log.warning("lease not released", lease=self._name, problem=str(problem) or "no answer in time")
        metrics.LEADER.set(0)

    async def _try(self, moment: float) -> bool:
        """Whether the lease is ours now. A conflict (somebody else wrote it) is an ``errors.ApiError`` like any other:
        the next try sees who."""
        lease, self._ours = self._ours or await self._read(), None
        spec = lease["spec"]
        stamp = (spec.get("holderIdentity"), spec.get("renewTime"))
        if stamp != self._seen:
            self._seen, self._seen_at = stamp, moment
        is_expired = moment - self._seen_at > spec.get("leaseDurationSeconds", self._duration)
        if spec.get("holderIdentity") not in (None, "", self._identity) and not is_expired:
            return False
        time_now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self._identity:
            spec.update(
                holderIdentity=self._identity,
                acquireTime=time_now,
                leaseTransitions=spec.get("leaseTransitions", 0) + 1,
            )
        # A process that starts again in its pod has the same name as the one before.
        annotations = lease["metadata"].setdefault("annotations", {})
        annotations.pop(self._annotation, None)
        if self._caught_up:
            annotations[self._annotation] = self._identity
        # Rounded up: others must not think it expired earlier than we do.
        spec.update(leaseDurationSeconds=max(1, math.ceil(self._duration)), renewTime=time_now)
        write = self._client.replace if "resourceVersion" in lease["metadata"] else self._client.create
        self._ours = await write(kinds.LEASE, lease)
        return True

    async def _read(self) -> Object:
        try:
            return await self._client.get(kinds.LEASE, self._name, self._namespace)
        except errors.ApiError as problem:
            if problem.status != 404:
                raise
        return {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": {}}
