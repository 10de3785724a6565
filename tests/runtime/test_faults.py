"""An operator and its API server in trouble: killed, cut off, hung, two at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import toy

import watching
from openstack_operator.embedded.apiserver import free_ports
from openstack_operator.runtime import controller, errors, informer, kinds, lease, manager, metrics

PROGRAM = Path(toy.__file__)


def settings(world: Any, identity: str) -> manager.LeaseSettings:
    return manager.LeaseSettings(world.namespace, "toys", identity, duration=2, renew=0.5)


async def test_an_operator_survives_a_killed_api_server_and_sees_what_it_missed(own_world: Any) -> None:
    """Regression r93."""
    world = own_world
    async with world.operator() as operator:
        await world.create()
        await world.until_ready(status="False", reason="PodsNotReady")
        world.control_plane.kill("kube-apiserver")
        world.control_plane.run("kube-apiserver")
        await asyncio.to_thread(world.control_plane.wait_ready)
        # Done before the operator's watches are back, most likely; seen in any case.
        await world.delete(kinds.CONFIGMAP)
        await world.set_ready()
        await world.create("two", replicas=0)
        await world.until_ready("two")
        await world.until_ready()
        await world.until(kinds.CONFIGMAP, lambda item: item is not None)
        assert not operator.task.done()


async def test_what_was_deleted_while_the_operator_was_cut_off_is_made_anew(world: Any, proxy: Any) -> None:
    async with world.operator(server=proxy.url):
        await world.create(replicas=0)
        await world.until_ready()
        proxy.is_refusing = True
        proxy.cut()
        await world.delete(kinds.CONFIGMAP)
        await world.patch(kinds.DEPLOYMENT, "one", {"spec": {"replicas": 5}})
        proxy.is_refusing = False
        await world.until(kinds.CONFIGMAP, lambda item: item is not None)
        await world.until(kinds.DEPLOYMENT, lambda item: item["spec"]["replicas"] == 0)


async def test_an_operator_starts_before_its_api_server_can_be_reached(world: Any, proxy: Any) -> None:
    proxy.is_refusing = True

    async def heal() -> None:
        await watching.eventually(lambda: proxy.connections >= 8)
        proxy.is_refusing = False

    healing = asyncio.ensure_future(heal())
    async with world.operator(server=proxy.url):
        await world.create(replicas=0)
        await world.until_ready()
    await healing


async def test_a_pass_cut_off_from_the_api_server_is_made_again(world: Any, proxy: Any) -> None:
    reached, proceed = asyncio.Event(), asyncio.Event()

    async def ensure(scope: toy.Scope) -> None:
        reached.set()
        await proceed.wait()
        await scope.apply(kinds.CONFIGMAP, {"metadata": {"name": "one"}})

    async with world.operator(toy.toys(steps=(controller.Step("ConfigReady", ensure),)), server=proxy.url):
        await world.create()
        await reached.wait()
        proxy.is_refusing = True
        proxy.cut()
        proceed.set()
        before = proxy.connections
        await watching.eventually(lambda: proxy.connections >= before + 4)
        proxy.is_refusing = False
        await world.until_ready()


def failed_passes() -> float:
    """Passes over toys that ended with an error, in this process so far."""
    return metrics.RECONCILES.labels(toy.RESOURCE.kind, "error")._value.get()


async def test_children_that_somebody_changes_without_end_are_no_error(world: Any) -> None:
    """Case 121. Regression f22: what is to be taken out of a child has changed again when the request comes."""
    before, failed = world.control_plane.audit_size(), failed_passes()

    async def patching() -> None:
        number = 0
        while True:
            number += 1
            for resource in (kinds.CONFIGMAP, kinds.SECRET):
                with contextlib.suppress(errors.ApiError):
                    await world.patch(resource, "one", {"data": {f"k{number % 2}": "eA=="}})

    def conflicts(operator: Any) -> int:
        events = world.control_plane.audit_events(before)
        ours = [one for one in events if one.get("userAgent") == operator.agent and one["stage"] == "ResponseComplete"]
        return sum(one["responseStatus"]["code"] == 409 for one in ours)

    async with world.operator() as operator:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(patching()) for _ in range(2)]
            await world.create()
            await watching.eventually(lambda: conflicts(operator) >= 3, "conflicts")
            await world.set_ready()
            await world.until_ready()
            assert failed_passes() == failed
            for task in tasks:
                task.cancel()
        await operator.settle()
        assert (await world.find(kinds.CONFIGMAP))["data"] == {"text": "hello"}
        assert (await world.find(kinds.SECRET))["data"].keys() == {"password"}


async def test_an_object_that_somebody_annotates_without_end_goes_without_an_error(world: Any) -> None:
    """Case 121. Regression f22: our finalizer was taken away from the version that the pass had read only."""
    failed, ends = failed_passes(), 0

    async def finalize(scope: toy.Scope) -> None:
        nonlocal ends
        ends += 1
        # Woken by the annotation, another pass may begin before the cache knows that the object is gone.
        with contextlib.suppress(errors.ApiError):
            await world.patch(toy.RESOURCE, "one", {"metadata": {"annotations": {"end": str(ends)}}})

    async with world.operator(toy.toys(finalize=finalize)) as operator:
        await world.create(replicas=0)
        await world.until_ready()
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item is None)
        await operator.settle()
    assert ends <= 2
    assert failed_passes() == failed


async def test_an_object_whose_spec_changes_while_it_ends_is_ended_by_the_newest_one(world: Any) -> None:
    """Case 121. Regression f22."""
    failed, ends = failed_passes(), []

    async def finalize(scope: toy.Scope) -> None:
        ends.append(scope.spec.text)
        if scope.spec.text != "newest":
            await world.patch(toy.RESOURCE, "one", {"spec": {"text": "newest"}})

    async with world.operator(toy.toys(finalize=finalize)) as operator:
        await world.create(replicas=0)
        await world.until_ready()
        await world.delete(toy.RESOURCE)
        await world.until(toy.RESOURCE, lambda item: item is None)
        await operator.settle()
    assert (ends, failed_passes()) == (["hello", "newest"], failed)


async def test_of_two_operators_one_works_and_the_other_takes_over_at_once_when_it_ends(world: Any) -> None:
    """Regression r37."""
    async with world.operator(election=settings(world, "a")) as first:
        await world.create(replicas=0)
        await world.until_ready()
        async with world.operator(election=settings(world, "b")) as second:
            await world.patch(toy.RESOURCE, "one", {"spec": {"text": "x"}})
            await world.until_ready()
            assert writes(second) == []
            first.manager.stop()
            began = time.monotonic()
            await world.until(kinds.LEASE, lambda item: item["spec"]["holderIdentity"] == "b", "toys")
            assert time.monotonic() - began < 1.5, "the lease was given back, nobody waits for its end"
            before = world.control_plane.audit_size()
            await world.patch(toy.RESOURCE, "one", {"spec": {"text": "y"}})
            await world.until(kinds.CONFIGMAP, lambda item: item["data"] == {"text": "y"})
            await world.until_ready()
            assert ("patch", "configmaps", "one") in second.requests(before)
            assert writes(first, before) == []
            # Once when it started, once when it took over: a warm cache may lag behind the last writes of the first.
            assert second.requests().count(("list", "secrets", "")) == 2


async def test_the_lease_tells_when_its_holder_has_looked_at_everything(world: Any) -> None:
    """Not of the process before, which had the same name."""
    reached, proceed = asyncio.Event(), asyncio.Event()

    async def ensure(scope: toy.Scope) -> None:
        reached.set()
        await proceed.wait()
        raise errors.Waiting("Nothing", "for ever", retry_after=60)

    def caught_up(item: Any) -> str | None:
        return ((item or {}).get("metadata", {}).get("annotations") or {}).get(f"{toy.DOMAIN}/caught-up")

    await world.create()
    for _ in range(2):
        reached.clear()
        proceed.clear()
        steps = (controller.Step("ConfigReady", ensure),)
        async with world.operator(toy.toys(steps=steps), election=settings(world, "a")):
            await reached.wait()
            held = await world.until(kinds.LEASE, lambda item: item["spec"]["holderIdentity"] == "a", "toys")
            assert caught_up(held) is None
            proceed.set()
            await world.until(kinds.LEASE, lambda item: caught_up(item) == "a", "toys")
            item = await world.until(toy.RESOURCE, lambda item: item is not None)
            assert toy.ready_condition(item)["reason"] == "Nothing", "what was found was told before"


def writes(operator: Any, since: int = 0) -> list[tuple[str, str, str]]:
    return [request for request in operator.requests(since) if request[0] == "patch"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_another_process_takes_over_when_the_leading_one_is_ended(world: Any, number: signal.Signals) -> None:
    arguments = (str(PROGRAM), str(world.control_plane.kubeconfig), world.namespace, "toys", "leader")
    leader = await asyncio.create_subprocess_exec(sys.executable, *arguments, stderr=asyncio.subprocess.DEVNULL)
    try:
        await world.create(replicas=0)
        await world.until_ready()
        async with world.operator(election=settings(world, "standby")):
            began = time.monotonic()
            os.kill(leader.pid, number)
            await world.patch(toy.RESOURCE, "one", {"spec": {"text": "new"}})
            await world.until(kinds.CONFIGMAP, lambda item: item["data"] == {"text": "new"})
            # Its duration, a look each quarter of a second, and the work.
            assert time.monotonic() - began < (4.0 if number == signal.SIGKILL else 2.0)
        assert await leader.wait() == (-9 if number == signal.SIGKILL else 0)
    finally:
        if leader.returncode is None:
            leader.kill()
            await leader.wait()


async def test_a_lease_taken_by_another_ends_the_operator_at_once(world: Any) -> None:
    cancelled = asyncio.Event()

    async def ensure(scope: toy.Scope) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    steps = (controller.Step("ThingReady", ensure),)
    async with world.operator(toy.toys(steps=steps), election=settings(world, "a")) as operator:
        await world.create()
        await world.until(kinds.LEASE, lambda item: item is not None, "toys")
        thief = {"holderIdentity": "thief", "renewTime": "2026-01-01T00:00:00.000000Z"}
        await world.patch(kinds.LEASE, "toys", {"spec": thief})
        with pytest.raises(lease.LostError, match="was taken by another replica"):
            await asyncio.wait_for(operator.task, 10)
        assert cancelled.is_set() or not operator.manager.runners[0].queue.busy
    assert (await world.find(kinds.LEASE, "toys"))["spec"]["holderIdentity"] == "thief"


@pytest.mark.parametrize("trouble", ["refuse", "hang"])
async def test_an_operator_that_cannot_renew_its_lease_ends_before_another_may_start(
    world: Any, proxy: Any, trouble: str
) -> None:
    async with world.operator(server=proxy.url, election=settings(world, "a")) as operator:
        await world.create(replicas=0)
        await world.until_ready()
        if trouble == "refuse":
            proxy.is_refusing = True
            proxy.cut()
        else:
            proxy.hang(new_ones=True)
        began = time.monotonic()
        with pytest.raises(lease.LostError, match="could not be renewed"):
            await asyncio.wait_for(operator.task, 10)
        assert time.monotonic() - began < 2, "its duration"


async def test_with_the_first_answer_about_the_lease_no_cache_waits_any_longer(
    world: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, each waits up to half a minute for its next attempt."""
    monkeypatch.setattr(informer, "FIRST_DELAY_SECONDS", 600.0)
    monkeypatch.setattr(informer, "LONGEST_DELAY_SECONDS", 600.0)

    async def answer() -> None:
        # All caches have tried by then, and the Lease several times.
        await watching.eventually(lambda: proxy.connections > 20, "the operator has tried")
        proxy.is_refusing = False

    proxy.is_refusing = True
    answering = asyncio.ensure_future(answer())
    async with world.operator(server=proxy.url, election=settings(world, "a")):
        await answering
        await world.create(replicas=0)
        await world.until_ready()


async def test_a_conflict_on_the_lease_is_no_reason_to_stop(world: Any) -> None:
    async with world.operator(election=settings(world, "a")) as operator:
        await world.until(kinds.LEASE, lambda item: item is not None, "toys")
        for number in range(20):
            await world.patch(kinds.LEASE, "toys", {"metadata": {"labels": {"n": str(number)}}})
            await asyncio.sleep(0.05)
        assert not operator.task.done()


async def test_an_operator_that_is_stopped_finishes_what_it_does_and_begins_nothing_new(world: Any) -> None:
    begun, proceed, ended = asyncio.Event(), asyncio.Event(), []

    async def ensure(scope: toy.Scope) -> None:
        begun.set()
        await proceed.wait()
        ended.append(scope.name)

    steps = (controller.Step("ThingReady", ensure),)
    async with world.operator(toy.toys(steps=steps, workers=1)) as operator:
        for number in range(10):
            await world.create(f"toy-{number}")
        await begun.wait()
        operator.manager.stop()
        await asyncio.sleep(0)
        proceed.set()
        await asyncio.wait_for(operator.task, 10)
    assert len(ended) == 1


async def test_a_cache_that_ends_by_a_bug_ends_the_operator(world: Any) -> None:
    async with world.operator() as operator:

        def broken(new: Any, old: Any) -> None:
            raise ZeroDivisionError

        operator.manager.informer(toy.RESOURCE).subscribe(broken)
        await world.create()
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(operator.task, 10)


async def test_health_readiness_and_metrics_are_served(world: Any) -> None:
    health, metrics = free_ports(2)
    async with world.operator(health_port=health, metrics_port=metrics):
        await world.create(replicas=0)
        await world.until_ready()
        async with aiohttp.ClientSession() as session:
            found = {}
            for port, path in ((health, "healthz"), (health, "readyz"), (metrics, "metrics")):
                async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
                    found[path] = (answer.status, await answer.text())
    assert found["healthz"] == found["readyz"] == (200, "ok")
    labels = f'condition="Ready",kind="Toy",name="one",namespace="{world.namespace}"'
    assert f"openstack_operator_condition{{{labels}}} 1.0" in found["metrics"][1]
