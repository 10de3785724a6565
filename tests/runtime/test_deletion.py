"""The end of an object: its finalizer runs, then it is gone, and nothing of ours brings it back."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import toy

from openstack_operator.runtime import controller, errors, kinds

FINALIZER = "toys.example.org/toy"
NO_STEPS = ()


async def test_a_finalizer_runs_before_the_object_goes(world: Any) -> None:
    ended = []

    async def finalize(scope: toy.Scope) -> None:
        ended.append((scope.name, scope.is_deleting, scope.spec.text))

    async with world.operator(toy.toys(finalize=finalize)):
        await world.create(replicas=0, text="x")
        item = await world.until_ready()
        assert item["metadata"]["finalizers"] == [FINALIZER]
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item is None)
    assert ended == [("one", True, "x")]


async def test_a_finalizer_that_waits_keeps_the_object_and_says_why_until_a_watch_wakes_it(world: Any) -> None:
    async def finalize(scope: toy.Scope) -> None:
        if scope.get(kinds.CONFIGMAP, scope.name) is not None:
            raise errors.Waiting("ConfigLeft", "ConfigMap one is left")

    async with world.operator(toy.toys(finalize=finalize)):
        await world.create(replicas=0)
        await world.until_ready()
        await world.delete(toy.RESOURCE)
        item = await world.until_ready(status="False", reason="Deleting")
        assert toy.ready_condition(item)["message"] == "ConfigLeft: ConfigMap one is left"
        await world.delete(kinds.CONFIGMAP)
        await world.until(toy.RESOURCE, lambda item: item is None)


async def test_a_finalizer_that_fails_is_tried_again(world: Any) -> None:
    tries = []

    async def finalize(scope: toy.Scope) -> None:
        tries.append(scope.name)
        if len(tries) < 3:
            raise errors.Unavailable("DatabaseAway", "db: refused")

    async with world.operator(toy.toys(steps=NO_STEPS, finalize=finalize)):
        await world.create()
        await world.until_ready()
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item is None)
    assert len(tries) == 3


async def test_finalizers_of_others_are_left_alone(world: Any) -> None:
    async def finalize(scope: toy.Scope) -> None:
        pass

    async with world.operator(toy.toys(steps=NO_STEPS, finalize=finalize)):
        metadata = {"name": "one", "namespace": world.namespace, "finalizers": ["example.org/other"]}
        await world.api.create(toy.RESOURCE, {"metadata": metadata, "spec": {}})
        item = await world.until_ready()
        assert sorted(item["metadata"]["finalizers"]) == ["example.org/other", FINALIZER]
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item["metadata"]["finalizers"] == ["example.org/other"])
        await world.patch(toy.RESOURCE, "one", {"metadata": {"finalizers": None}})
        await world.until(toy.RESOURCE, lambda item: item is None)


async def test_a_finalizer_that_somebody_took_away_is_set_again_at_once(world: Any) -> None:
    ended = []

    async def finalize(scope: toy.Scope) -> None:
        ended.append(scope.name)

    async with world.operator(toy.toys(finalize=finalize)):
        await world.create(replicas=0)
        await world.until_ready()
        await world.patch(toy.RESOURCE, "one", {"metadata": {"finalizers": None}})
        await world.until(toy.RESOURCE, lambda item: item["metadata"].get("finalizers") == [FINALIZER])
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item is None)
    assert ended == ["one"]


async def test_an_object_whose_controller_has_no_finalizer_any_more_can_go(world: Any) -> None:
    async def finalize(scope: toy.Scope) -> None:
        pass

    async with world.operator(toy.toys(steps=NO_STEPS, finalize=finalize)):
        await world.create()
        await world.until_ready()
    async with world.operator(toy.toys(steps=NO_STEPS)):
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item is None)


async def test_an_object_deleted_during_its_pass_is_not_brought_back(world: Any) -> None:
    reached, proceed = asyncio.Event(), asyncio.Event()

    async def ensure(scope: toy.Scope) -> None:
        reached.set()
        await proceed.wait()

    async with world.operator(toy.toys(steps=(controller.Step("ThingReady", ensure),))) as operator:
        await world.create()
        await reached.wait()
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item is None)
        before = world.control_plane.audit_size()
        proceed.set()
        await operator.settle()
        assert operator.requests(before) == [("patch", "toys/status", "one")]
    assert await world.find(toy.RESOURCE) is None


async def test_our_finalizer_does_not_come_back_to_an_object_deleted_during_its_pass(world: Any) -> None:
    """Regression f28: a pass that had begun before the deletion set it once more, and nobody took it away again."""
    reached, proceed, ended = asyncio.Event(), asyncio.Event(), []

    async def ensure(scope: toy.Scope) -> None:
        reached.set()
        await proceed.wait()

    async def finalize(scope: toy.Scope) -> None:
        ended.append(scope.name)

    other = "example.org/other"
    steps = (controller.Step("ThingReady", ensure),)
    async with world.operator(toy.toys(steps=steps, finalize=finalize)) as operator:
        metadata = {"name": "one", "namespace": world.namespace, "finalizers": [other]}
        await world.api.create(toy.RESOURCE, {"metadata": metadata, "spec": {}})
        await reached.wait()
        await world.delete(toy.RESOURCE)
        # The end of our own part comes from somebody else while the pass still runs on what it had read.
        await world.patch(toy.RESOURCE, "one", {"metadata": {"finalizers": [other]}})
        proceed.set()
        await operator.settle()
        item = await world.find(toy.RESOURCE)
        assert item["metadata"]["finalizers"] == [other]
        assert ended == [], "the object is no longer ours to end"
        runner = operator.manager.runners[0]
        stale = {**item, "metadata": {key: value for key, value in item["metadata"].items() if "deletion" not in key}}
        assert await runner._visit(stale, runner._log) is None
        assert (await world.find(toy.RESOURCE))["metadata"]["finalizers"] == [other]
        await world.patch(toy.RESOURCE, "one", {"metadata": {"finalizers": None}})
        await world.until(toy.RESOURCE, lambda item: item is None)


async def test_an_object_deleted_before_its_finalizer_is_set_gets_no_children(world: Any) -> None:
    """Regression f60."""

    async def finalize(scope: toy.Scope) -> None:
        pass

    async with world.operator(toy.toys(finalize=finalize)) as operator:
        item = await world.create()
        await world.until_ready(status="False")
        runner = operator.manager.runners[0]
        gone = {**item, "metadata": {**item["metadata"], "name": "gone", "uid": "0-0"}}
        assert await runner._visit(gone, runner._log) is None
    assert await world.find(toy.RESOURCE, "gone") is None
    assert await world.find(kinds.CONFIGMAP, "gone") is None


async def test_an_object_made_anew_under_its_name_starts_from_nothing(world: Any) -> None:
    """Regression f39."""

    async def finalize(scope: toy.Scope) -> None:
        pass

    async with world.operator(toy.toys(steps=NO_STEPS, finalize=finalize)):
        first = await world.create()
        await world.until_ready()
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item is None)
        await world.create()
        second = await world.until_ready()
        assert second["metadata"]["finalizers"] == [FINALIZER]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_an_invalid_stored_spec_stalls_and_can_still_be_deleted(world: Any) -> None:
    # As after an upgrade: the object was stored when its type was another one.
    class Stricter(toy.ToySpec):
        """Stricter."""

        text: str = toy.Field("hello", max_length=2)
        """Shorter."""

    async def finalize(scope: toy.Scope) -> None:
        assert scope.spec.replicas == 3

    kind = dataclasses.replace(toy.KIND, spec=Stricter)
    async with world.operator(toy.toys(kind=kind, finalize=finalize)):
        await world.create(text="long", replicas=3)
        item = await world.until_ready(status="False", reason="InvalidSpec")
        assert toy.ready_condition(item)["message"] == "spec.text: String should have at most 2 characters"
        await world.patch(toy.RESOURCE, "one", {"metadata": {"finalizers": [FINALIZER]}})
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item is None)
