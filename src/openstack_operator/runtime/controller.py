"""Controllers as services declare them: a table of steps over one kind, and what a step can do.

A service declares a ``Controller`` (kind, steps, children, watches). For each object that changed, ``runner`` gives
its steps a ``Scope``: typed spec, facts that steps pass to each other, cached reads, and ``apply`` for owned children,
which costs no request when nothing drifted. Steps raise ``errors``; only the runner catches them (STYLE E2).
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from openstack_operator.runtime import apply, conditions, errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.informer import Key, key_of
from openstack_operator.runtime.schema import Model

if TYPE_CHECKING:
    from openstack_operator.runtime import logs
    from openstack_operator.runtime.manager import Manager
    from openstack_operator.runtime.runner import Runner

S = TypeVar("S", bound=Model)


@dataclasses.dataclass(frozen=True)
class Watch:
    """Changes of ``resource`` that wake objects of the controller: ``keys(object, manager)`` names them.

    ``relevant(object)`` is for objects that change often in what nobody asks for: a change in which it stays equal
    wakes nobody.
    """

    resource: kinds.Resource
    keys: Callable[[Object, Manager], Iterable[Key]]
    relevant: Callable[[Object], Any] | None = None


@dataclasses.dataclass(frozen=True)
class Step(Generic[S]):
    """One row of a controller's table.

    ``run`` returns when the condition is True, with a message for people or None. Its docstring explains the condition
    to users. ``needs`` are conditions of rows above that must be True before the step runs; None means all of them.
    A step that ``advises`` says something that Ready does not wait for: Unknown until it is found out, then what the
    ``Outcome`` says that it returns.
    """

    condition: str
    run: Callable[[Scope[S]], Awaitable[str | conditions.Outcome | None]]
    needs: tuple[str, ...] | None = None
    advises: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Controller(Generic[S]):
    """What the runtime has to know about one kind.

    ``owns``: kinds of its children (made, repaired, deleted by it); ``watches``: others that wake it; ``reads``:
    others that it only looks at; ``rules``: RBAC rules beyond those. ``finalize`` runs before the object goes, until
    it returns; it raises ``Waiting`` while something is left. ``workers``: passes at once, beside those that wait for
    something outside. ``resync_seconds``: how often each object is looked at without an event, because databases and
    other services have no watch.
    """

    kind: kinds.Kind
    steps: tuple[Step[S], ...]
    owns: tuple[kinds.Resource, ...] = ()
    watches: tuple[Watch, ...] = ()
    reads: tuple[kinds.Resource, ...] = ()
    rules: tuple[dict[str, list[str]], ...] = ()
    finalize: Callable[[Scope[S]], Awaitable[None]] | None = None
    workers: int = 4
    resync_seconds: float = 600

    def __post_init__(self) -> None:
        above: set[str] = set()
        for step in self.steps:
            where = f"{self.kind.resource.kind}: step {step.condition}"
            if step.condition in above | conditions.RESERVED:
                raise ValueError(f"{where}: a condition of this name exists already")
            if unknown := set(step.needs or ()) - above:
                raise ValueError(f"{where}: needs {', '.join(sorted(unknown))}, which no row above it gives")
            above.add(step.condition)


class Scope(Generic[S]):
    """What the steps of one reconcile share. A new one each time: nothing is remembered from pass to pass."""

    def __init__(self, runner: Runner[S], item: Object, spec: S, log: logs.Logger) -> None:
        self._runner = runner
        self.manager = runner.manager
        self.client = runner.manager.client
        self.object = item
        self.spec = spec
        self.log = log
        self.facts: dict[str, Any] = {}
        """Values under dotted names ("database.url") that steps find and later steps and configuration rows use."""
        self.status: dict[str, Any] = {}
        """Status fields of the kind beyond the conditions; what is not set in this pass goes away."""
        self.waits: dict[str, str] = {}
        """Conditions that wait, with the kind that each waits for."""
        self.followed: set[str] = set()
        """Names of Secrets that this pass has asked for."""

    @property
    def name(self) -> str:
        name: str = self.object["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.object["metadata"]["namespace"]
        return namespace

    @property
    def uid(self) -> str:
        uid: str = self.object["metadata"]["uid"]
        return uid

    @property
    def is_deleting(self) -> bool:
        return "deletionTimestamp" in self.object["metadata"]

    @property
    def kind(self) -> str:
        return self._runner.controller.kind.resource.kind

    def get(self, resource: kinds.Resource, name: str) -> Object | None:
        """An object of the same namespace from the cache."""
        return self.manager.informer(resource).get(self.namespace, name)

    def items(self, resource: kinds.Resource) -> list[Object]:
        """All cached objects of a kind in the same namespace."""
        return list(self.manager.informer(resource).items(self.namespace))

    def children(self, resource: kinds.Resource) -> list[Object]:
        """Cached objects of a kind that this object controls."""
        return [item for item in self.items(resource) if apply.controller_uid(item) == self.uid]

    async def apply(self, resource: kinds.Resource, body: Object, *, owned: bool = True) -> Object:
        """Brings a child to the wanted state and returns it as the cluster has it.

        No request when the cached child holds everything in ``body`` and nothing was withdrawn since. With
        ``owned`` False no owner reference is set, so the object outlives this one.

        Raises ``errors.Stalled`` when a child of that name belongs to another object.
        """
        return await self._runner.children.apply(self.object, resource, body, owned=owned)

    async def delete(self, resource: kinds.Resource, name: str) -> None:
        """Deletes a child; no request when the cache knows that it is gone."""
        present = self.get(resource, name)
        if present is not None and "deletionTimestamp" not in present["metadata"]:
            await self.client.delete(resource, name, self.namespace, uid=present["metadata"]["uid"])

    async def prune(self, resource: kinds.Resource, keep: Iterable[str]) -> None:
        """Deletes this object's children of a kind whose names are not in ``keep``."""
        names = set(keep)
        for child in self.children(resource):
            if child["metadata"]["name"] not in names:
                await self.delete(resource, child["metadata"]["name"])

    async def secret(self, name: str, *keys: str) -> dict[str, str]:
        """Values of a Secret that somebody else made, watched by name from now on.

        Raises ``errors.Stalled`` that names Secret and key when it is missing, empty or not UTF-8.
        """
        self.followed.add(name)
        item = await self.manager.follow(kinds.SECRET, self.namespace, name, self._runner.enqueue, key_of(self.object))
        if item is None:
            raise errors.Stalled(conditions.REASON_SECRET_MISSING, f"Secret {self.namespace}/{name} does not exist")
        return secret_values(item, *keys)

    async def event(self, severity: str, reason: str, message: str) -> None:
        """Records a Kubernetes Event about something destructive that a step does; transitions of conditions get
        theirs without it."""
        await self.manager.events.record(self.object, severity, reason, message)


def secret_values(item: Object, *keys: str) -> dict[str, str]:
    """The named keys of a Secret as text, all of them without a name.

    Raises ``errors.Stalled`` for a key that is missing, empty or not UTF-8.
    """
    where = f"Secret {item['metadata']['namespace']}/{item['metadata']['name']}"
    data = item.get("data") or {}
    values = {}
    for key in keys or tuple(data):
        if key not in data:
            present = ", ".join(sorted(data)) or "nothing"
            raise errors.Stalled(conditions.REASON_SECRET_KEY_MISSING, f"{where} has no key {key!r}; it has: {present}")
        try:
            values[key] = base64.b64decode(data[key]).decode()
        except UnicodeDecodeError:
            raise errors.Stalled(conditions.REASON_SECRET_NOT_TEXT, f"{where}: key {key!r} is not UTF-8 text") from None
        if not values[key]:
            raise errors.Stalled(conditions.REASON_SECRET_EMPTY, f"{where}: key {key!r} is empty")
    return values
