"""Runs one controller inside a manager: wires its watches, works its queue, turns what steps raise into conditions.

    event --> queue --> observe (cache) --> finalizer set --> steps in table order --> status
                ^                                                  |
                +---- Waiting(retry_after), Unavailable, bug ------+

The only place that catches what steps raise (STYLE E2). Made and started by ``manager``.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

import pydantic

from openstack_operator.runtime import admission, apply, conditions, errors, kinds, logs, metrics, status, waits
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.conditions import Outcome
from openstack_operator.runtime.controller import Controller, S, Scope, Step, Watch
from openstack_operator.runtime.informer import Key, key_of
from openstack_operator.runtime.queue import Queue

if TYPE_CHECKING:
    from openstack_operator.runtime.manager import Manager

# Events of children come in bursts (a Deployment writes three statuses): one pass for all of them.
SETTLE_SECONDS = 0.02

# What a change of an object itself is made of. Status and finalizers are written by ourselves: there only what somebody
# else did to ours is one.
_MEANINGFUL = ("generation", "annotations", "labels", "deletionTimestamp", "uid")

# A pass that takes longer waits for something outside, most likely: it costs nothing meanwhile, and its worker takes
# another object beside it. Sixty that hang hold up the next for three seconds, with four workers.
PATIENCE_SECONDS = 0.2
MOST_AT_ONCE = 200
"""Passes over objects of one kind, those that wait included: each may hold a connection."""

RELEASES = 5
"""Tries to take our finalizer away from an object that others change at the same time. Each takes milliseconds."""

BACK_OFF = 0.0
"""As a retry delay: as long as the queue's back-off says."""

Retry = float | None
"""Seconds until the object is looked at again without an event, BACK_OFF, or None: not at all."""


class Runner(Generic[S]):
    """One controller at work."""

    def __init__(self, controller: Controller[S], manager: Manager) -> None:
        self.controller = controller
        self.manager = manager
        self.queue: Queue[Key] = Queue()
        self._places = asyncio.Semaphore(controller.workers)
        resource = controller.kind.resource
        self.children = apply.Children(resource, manager)
        self._resource = resource
        self._status = status.Writer(resource, manager)
        self._waits = waits.Waits(resource.kind)
        metrics.QUEUE_DEPTH.labels(resource.kind).set_function(lambda: len(self.queue))
        metrics.RETRIES_PENDING.labels(resource.kind).set_function(lambda: self.queue.delayed)
        self._log = logs.get("controller")
        self._finalizer = f"{manager.domain}/{resource.kind.lower()}"
        self.looked = asyncio.Event()
        """Set when everything that was there at ``begin`` was worked on once."""
        self._unseen: set[Key] = set()
        # uid of each object that was worked on, to clean up after it.
        self._known: dict[Key, str] = {}
        manager.informer(resource).subscribe(self._on_own)
        for child in controller.owns:
            manager.informer(child).subscribe(self._on_child(child))
        for watch in controller.watches:
            manager.informer(watch.resource).subscribe(self._on_watched(watch))

    # --- waking ---------------------------------------------------------------------------------------------------

    def enqueue(self, key: Key) -> None:
        """Looks at an object again soon."""
        self.queue.add_after(key, SETTLE_SECONDS)

    def _on_own(self, new: Object | None, old: Object | None) -> None:
        item = new or old
        assert item is not None
        if new is not None and old is not None:
            before, after = old["metadata"], new["metadata"]
            is_same = all(after.get(field) == before.get(field) for field in _MEANINGFUL)
            if is_same and not self._is_unmarked(before, after) and not self._status.is_edited(new, old):
                return
        self.queue.add(key_of(item))

    def _is_unmarked(self, before: dict[str, Any], after: dict[str, Any]) -> bool:
        """Our finalizer was taken away from an object that stays."""
        had, has = (self._finalizer in metadata.get("finalizers", ()) for metadata in (before, after))
        return had and not has and "deletionTimestamp" not in after

    def _on_child(self, child: kinds.Resource) -> Callable[[Object | None, Object | None], None]:
        def handle(new: Object | None, old: Object | None) -> None:
            # The old one too: an edit may have taken the owner away.
            keys = {key for item in (new, old) if item is not None for key in apply.owners(item, self._resource)}
            for key in keys | self.children.changed(child, new, old):
                self.enqueue(key)

        return handle

    def _on_watched(self, watch: Watch) -> Callable[[Object | None, Object | None], None]:
        def handle(new: Object | None, old: Object | None) -> None:
            of = watch.relevant
            if of is not None and new is not None and old is not None and of(new) == of(old):
                return
            for item in (new, old):
                if item is not None:
                    self._wake(watch, item)

        return handle

    def _wake(self, watch: Watch, item: Object) -> None:
        try:
            for key in watch.keys(item, self.manager):
                self.enqueue(key)
        except Exception:  # noqa: BLE001 - service code, called from a cache
            # A bug in one mapping must not end the cache that all controllers share.
            self._log.exception("watch failed", kind=self._resource.kind, resource=str(watch.resource))

    async def resync(self) -> None:
        """Looks at every object again now and then: the outside world (databases, Keystone) has no watch."""
        while True:
            await asyncio.sleep(self.controller.resync_seconds * random.uniform(0.9, 1.1))
            for item in self.manager.informer(self._resource).items():
                self.queue.add(key_of(item))

    # --- one pass -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Workers start now."""
        self._unseen = {key_of(item) for item in self.manager.informer(self._resource).items()}
        self._note_looked()

    def _note_looked(self) -> None:
        if not self._unseen:
            self.looked.set()

    async def work(self) -> None:
        """Reconciles keys until cancelled: as many at once as there are workers, and beside them those that wait."""
        async with asyncio.TaskGroup() as passes:
            while True:
                await self._places.acquire()
                passes.create_task(self._pass(await self.queue.get()))

    async def _pass(self, key: Key) -> None:
        kind, has_place = self._resource.kind, True
        later = asyncio.get_running_loop().call_later
        patience: asyncio.TimerHandle | None = None

        def leave() -> None:
            nonlocal has_place
            if has_place:
                has_place = False
                self._places.release()

        def give_way() -> None:
            nonlocal patience
            if self.queue.busy < MOST_AT_ONCE:
                leave()
            else:
                patience = later(PATIENCE_SECONDS, give_way)

        patience = later(PATIENCE_SECONDS, give_way)
        started = time.perf_counter()
        try:
            result = await self.reconcile(key)
        finally:
            patience.cancel()
            leave()
            self.queue.done(key)
            self._unseen.discard(key)
            self._note_looked()
            metrics.one(metrics.RECONCILE_SECONDS, kind).observe(time.perf_counter() - started)
        metrics.one(metrics.RECONCILES, kind, result).inc()

    async def reconcile(self, key: Key) -> str:
        """One pass over one object; the result is a metric label. Never raises but for cancellation."""
        item = self.manager.informer(self._resource).get(*key)
        if item is None:
            self._forget(key)
            return "gone"
        metadata = item["metadata"]
        log = self._log.bind(
            kind=self._resource.kind, namespace=key[0], name=key[1], generation=metadata["generation"],
            reconcile_id=uuid.uuid4().hex[:8],
        )  # fmt: skip
        self._known[key] = metadata["uid"]
        try:
            retry = await self._visit(item, log)
        except (errors.ApiError, errors.ApiUnreachableError) as problem:
            delay = self.queue.retry(key)
            log.warning("requests to the API server failed", problem=str(problem), retry_seconds=round(delay, 1))
            return "error"
        except Exception:
            # A bug of ours: this object backs off, all others go on.
            log.exception("pass failed", retry_seconds=round(self.queue.retry(key), 1))
            return "error"
        if retry == BACK_OFF:
            log.debug("will retry", retry_seconds=round(self.queue.retry(key), 1))
            return "error"
        self.queue.forget(key)
        if retry is not None:
            self.queue.add_after(key, retry)
        return "done"

    def _forget(self, key: Key) -> None:
        self.queue.forget(key)
        self.manager.unfollow(self.enqueue, key)
        if uid := self._known.pop(key, None):
            self._status.forget(key, uid)
            self._waits.forget(uid)

    async def _visit(self, item: Object, log: logs.Logger) -> Retry:
        metadata = item["metadata"]
        is_deleting = "deletionTimestamp" in metadata
        spec: S
        try:
            spec = self.controller.kind.spec.model_validate(item.get("spec", {}))  # type: ignore[assignment]
        except pydantic.ValidationError as problem:
            if not is_deleting:
                await self._refuse(item, problem)
                return None
            # It can go all the same: the finalizer sees what is set, and defaults for the rest.
            spec = self.controller.kind.spec.model_construct(**item.get("spec", {}))  # type: ignore[assignment]
        if is_deleting:
            return await self._finalize(Scope(self, item, spec, log))
        if self.controller.finalize and self._finalizer not in metadata.get("finalizers", ()):
            marked = await self._mark(item)
            if marked is None:
                return None
            item = marked
        scope = Scope(self, item, spec, log)
        outcomes, retry = await self._run_steps(scope)
        self._waits.observe(scope.uid, scope.waits)
        advice = {step.condition for step in self.controller.steps if step.advises}
        ready = conditions.summary([entry for entry in outcomes if entry[0] not in advice])
        await self._tell(item, outcomes, ready, scope.status)
        if ready.is_true:
            self.manager.unfollow(self.enqueue, key_of(item), keep=scope.followed)
        return retry

    async def _refuse(self, item: Object, problem: pydantic.ValidationError) -> None:
        self._waits.observe(item["metadata"]["uid"], {})
        message = "; ".join(str(one) for one in admission.problems(problem))
        outcome = Outcome("False", conditions.REASON_INVALID_SPEC, message, stalled=True)
        await self._tell(item, self._blocked("waits for a valid spec"), outcome, {})

    async def _tell(
        self, item: Object, outcomes: list[tuple[str, Outcome]], ready: Outcome, fields: dict[str, Any]
    ) -> None:
        """Writes the status; what is too early for that is looked at again."""
        later = await self._status.write(item, outcomes, ready, fields)
        if later is not None:
            self.queue.add_after(key_of(item), later)

    def _blocked(self, message: str) -> list[tuple[str, Outcome]]:
        outcome = Outcome("Unknown", conditions.REASON_BLOCKED, message)
        return [(step.condition, outcome) for step in self.controller.steps]

    async def _run_steps(self, scope: Scope[S]) -> tuple[list[tuple[str, Outcome]], Retry]:
        done: dict[str, Outcome] = {}
        retries: list[float] = []
        for step in self.controller.steps:
            needs = tuple(done) if step.needs is None else step.needs
            unmet = [need for need in needs if not done[need].is_true]
            if unmet:
                done[step.condition] = Outcome("Unknown", conditions.REASON_BLOCKED, f"waits for {', '.join(unmet)}")
                continue
            done[step.condition], retry = await self._run_step(scope, step)
            if retry is not None:
                retries.append(retry)
        return list(done.items()), min(retries, default=None)

    async def _run_step(self, scope: Scope[S], step: Step[S]) -> tuple[Outcome, Retry]:
        """Raises only ``errors.ApiUnreachableError``: without the API server no status can be written either."""
        unmet: conditions.State = "Unknown" if step.advises else "False"
        try:
            found = await step.run(scope)
        except errors.Waiting as waiting:
            scope.waits[step.condition] = waiting.on or waits.OTHER
            return Outcome(unmet, waiting.reason, waiting.message), waiting.retry_after
        except errors.Stalled as stalled:
            return Outcome("False", stalled.reason, stalled.message, stalled=True), None
        except errors.Unavailable as unavailable:
            scope.log.warning(unavailable.message, step=step.condition, reason=unavailable.reason)
            return Outcome(unmet, unavailable.reason, unavailable.message), BACK_OFF
        except errors.ApiError as problem:
            scope.log.warning("request refused", step=step.condition, problem=str(problem))
            is_hopeless = problem.is_rejection
            outcome = Outcome("False", conditions.REASON_API_ERROR, str(problem), stalled=is_hopeless)
            return outcome, None if is_hopeless and not problem.is_denial else BACK_OFF
        except errors.ApiUnreachableError:
            raise
        except Exception as problem:
            # The text stays in the log: it may hold anything, a password included.
            scope.log.exception("step failed", step=step.condition)
            message = f"{type(problem).__name__}: see the operator's log"
            return Outcome("False", conditions.REASON_INTERNAL_ERROR, message), BACK_OFF
        return found if isinstance(found, Outcome) else Outcome("True", conditions.REASON_READY, found or ""), None

    # --- the end of an object -------------------------------------------------------------------------------------

    async def _finalize(self, scope: Scope[S]) -> Retry:
        if self._finalizer not in scope.object["metadata"].get("finalizers", ()):
            return None
        if self.controller.finalize is not None:
            outcome, retry = await self._run_step(scope, Step(conditions.READY, self.controller.finalize))
            if not outcome.is_true:
                text = f"{outcome.reason}: {outcome.message}"
                held = Outcome("False", conditions.REASON_DELETING, text, outcome.stalled)
                blocked = self._blocked("the object is being deleted")
                await self._tell(scope.object, blocked, held, scope.status)
                return retry
        return await self._release(scope.object)

    async def _release(self, item: Object) -> Retry:
        """Takes our finalizer away, whoever set it: after a restore from a backup that is not our field manager. The
        version makes sure that nobody else's is touched. Of an object that changed meanwhile the newest version counts,
        and where its spec is another one it has to be ended by that."""
        ended, place = item["metadata"], (item["metadata"]["name"], item["metadata"]["namespace"])
        for _ in range(RELEASES):
            metadata = item["metadata"]
            others = [name for name in metadata.get("finalizers", ()) if name != self._finalizer]
            patch = {"metadata": {"finalizers": others, "resourceVersion": metadata["resourceVersion"]}}
            try:
                await self.manager.client.merge(self._resource, *place, patch)
                return None
            except errors.ApiError as problem:
                if problem.status == 404:
                    return None
                if problem.status != 409:
                    raise
            try:
                item = await self.manager.client.get(self._resource, *place)
            except errors.ApiError as problem:
                if problem.status == 404:
                    return None
                raise
            if any(item["metadata"][field] != ended[field] for field in ("uid", "generation")):
                # The event of that change wakes us.
                return None
        return BACK_OFF

    async def _mark(self, item: Object) -> Object | None:
        """Sets our finalizer under a field manager of its own, so that nobody else's is touched and no other apply of
        ours takes it away. None: the object is gone or going, and the event that tells of it is on its way."""
        # With the uid an apply can never create the object anew when it has gone meanwhile.
        metadata = {key: item["metadata"][key] for key in ("name", "namespace", "uid")}
        try:
            written = await self.manager.client.apply(
                self._resource,
                {"metadata": {**metadata, "finalizers": [self._finalizer]}},
                manager=f"{self.manager.client.manager}-finalizer",
            )
        except errors.ApiError as problem:
            if problem.status in (404, 409) or problem.is_of_ending_object:
                return None
            raise
        self.manager.informer(self._resource).observe(written)
        return written
