"""Caches that follow the API server through cuts, hangs and lost history."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

import watching
from openstack_operator.runtime import client, errors, informer, kinds


@contextlib.asynccontextmanager
async def caching(world: Any, server: str = "", silence: float = 60) -> AsyncIterator[Any]:
    """A running cache of the namespace's ConfigMaps."""
    config = client.Config.from_kubeconfig(world.control_plane.kubeconfig)
    config = client.dataclasses.replace(config, server=server or config.server)
    agent = f"cache-{world.namespace}"
    async with client.Client(config, agent, silence=silence) as api:
        cache = informer.Informer(api, kinds.CONFIGMAP, world.namespace)
        task = asyncio.ensure_future(cache.run())
        try:
            await cache.synced.wait()
            yield cache
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def config_map(world: Any, name: str, **data: str) -> Any:
    body = {"metadata": {"name": name, "namespace": world.namespace}, "data": data}
    return await world.api.apply(kinds.CONFIGMAP, body)


async def cached(cache: Any, world: Any, name: str, data: Any) -> None:
    def is_so() -> bool:
        return (cache.get(world.namespace, name) or {}).get("data") == data

    await watching.eventually(is_so, f"{name} is {data}")


def lists(world: Any) -> int:
    return world.requests(f"cache-{world.namespace}").count(("list", "configmaps", ""))


async def test_a_cut_watch_goes_on_from_where_it_was_without_a_list(world: Any, proxy: Any) -> None:
    """Regression r78."""
    async with caching(world, proxy.url) as cache:
        await config_map(world, "a", k="1")
        await cached(cache, world, "a", {"k": "1"})
        proxy.is_refusing = True
        proxy.cut()
        await config_map(world, "a", k="2")
        await config_map(world, "b", k="1")
        await world.delete(kinds.CONFIGMAP, "b")
        await config_map(world, "c", k="1")
        await world.delete(kinds.CONFIGMAP, "a")
        proxy.is_refusing = False
        await cached(cache, world, "c", {"k": "1"})
        assert len(cache) == 1
    assert lists(world) == 1


async def test_the_first_that_is_answered_again_has_the_others_try(
    world: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with caching(world, proxy.url) as one, caching(world, proxy.url) as other, caching(world, proxy.url) as alone:
        await config_map(world, "a", k="1")
        for cache in (one, other, alone):
            await cached(cache, world, "a", {"k": "1"})
        together = informer.Together((one, other))
        together.add(alone)
        together.discard(alone)
        # Nobody tries again by himself.
        monkeypatch.setattr(informer, "FIRST_DELAY_SECONDS", 600.0)
        monkeypatch.setattr(informer, "LONGEST_DELAY_SECONDS", 600.0)
        proxy.is_refusing = True
        proxy.cut()
        caches = {one, other, alone}

        def are_broken() -> bool:
            # A watch that was open and ended is no break: the next attempt is one.
            left = [cache for cache in caches if cache.broken is None]
            for cache in left:
                cache.hurry()
            return not left

        await watching.eventually(are_broken, "all are cut off")
        # Whoever was hurried twice tries once more.
        await asyncio.sleep(0.3)
        proxy.is_refusing = False
        await config_map(world, "a", k="2")
        one.hurry()
        for cache in (one, other):
            await cached(cache, world, "a", {"k": "2"})
        assert (one.broken, other.broken) == (None, None)
        assert alone.broken is not None


async def test_a_watch_that_goes_silent_is_given_up(world: Any, proxy: Any) -> None:
    """Case 114."""
    async with caching(world, proxy.url, silence=1.5) as cache:
        await config_map(world, "a", k="1")
        await cached(cache, world, "a", {"k": "1"})
        proxy.hang()
        await config_map(world, "a", k="2")
        await cached(cache, world, "a", {"k": "2"})
    assert lists(world) == 1


async def test_a_watch_that_is_renewed_is_no_break_and_one_that_cannot_be_is_from_its_end_on(
    world: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "FIRST_DELAY_SECONDS", 0.05)
    monkeypatch.setattr(informer, "LONGEST_DELAY_SECONDS", 0.1)
    async with caching(world, proxy.url) as cache:
        seen: list[Any] = []
        cache.subscribe_breaks(lambda: seen.append(cache.broken))
        for number in range(3):
            proxy.cut()
            await config_map(world, "a", k=str(number))
            await cached(cache, world, "a", {"k": str(number)})
        assert seen == []
        proxy.is_refusing = True
        before = datetime.datetime.now(datetime.UTC)
        proxy.cut()
        await watching.eventually(lambda: len({one.problem for one in seen}) >= 3, "three attempts fail")
        assert all(isinstance(one.problem, errors.ApiUnreachableError) for one in seen)
        (since,) = {one.since for one in seen}
        assert before <= since <= datetime.datetime.now(datetime.UTC)
        proxy.is_refusing = False
        await watching.eventually(lambda: cache.broken is None, "it is watched again")
        assert seen[-1] is None
    assert lists(world) == 1


async def test_a_server_that_is_killed_and_comes_back(own_world: Any) -> None:
    world = own_world
    async with caching(world) as cache:
        await asyncio.to_thread(world.control_plane.kill, "kube-apiserver")
        await watching.eventually(lambda: cache.broken, "no watch can be had")
        await asyncio.to_thread(world.control_plane.start)
        cache.hurry()
        # Nothing happens: that it is watched again is known without an event.
        await watching.eventually(lambda: cache.broken is None, "it is watched again")


async def test_what_the_server_refuses_for_long_is_broken_with_its_word(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "REFUSAL_SECONDS", 0.2)
    unknown = kinds.Resource("nowhere.example", "v1", "things", "Thing")
    cache = informer.Informer(world.api, unknown, world.namespace)
    task = asyncio.ensure_future(cache.run())
    try:
        found = await watching.eventually(lambda: cache.broken, "it is refused")
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert isinstance(found.problem, errors.ApiError)
    assert found.problem.status == 404


async def test_whoever_is_hurried_does_not_wait_for_the_next_attempt(
    world: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "FIRST_DELAY_SECONDS", 3600)
    monkeypatch.setattr(informer, "LONGEST_DELAY_SECONDS", 3600)
    async with caching(world, proxy.url) as cache:
        proxy.is_refusing = True
        proxy.cut()
        await watching.eventually(lambda: cache.broken, "no watch can be had")
        proxy.is_refusing = False
        cache.hurry()
        await watching.eventually(lambda: cache.broken is None, "it is watched again")


async def test_silence_is_no_trouble_and_a_server_that_does_not_answer_is(
    world: Any, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = structlog.testing.LogCapture()
    every_level = structlog.wrap_logger(
        structlog.PrintLogger(), processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
    monkeypatch.setattr(informer, "log", every_level)
    async with caching(world, proxy.url, silence=1.2) as cache:
        await config_map(world, "a", k="1")
        await cached(cache, world, "a", {"k": "1"})
        await watching.eventually(lambda: len(capture.entries) == 2, "two silent watches were opened anew")
        assert [entry["log_level"] for entry in capture.entries] == ["debug", "debug"]
        proxy.is_refusing = True
        await watching.eventually(lambda: capture.entries[-1]["log_level"] == "warning", "a warning")
        proxy.is_refusing = False
        await config_map(world, "a", k="2")
        await cached(cache, world, "a", {"k": "2"})
    assert lists(world) == 1


async def test_a_version_that_the_server_has_forgotten_leads_to_a_list(own_world: Any) -> None:
    """Case 121."""
    world = own_world
    async with caching(world) as cache:
        await config_map(world, "a", k="1")
        await config_map(world, "b", k="1")
        await cached(cache, world, "b", {"k": "1"})
        # A server that has just started knows no history.
        cache._position = "1"
        await asyncio.to_thread(world.control_plane.restart, "kube-apiserver")
        await world.delete(kinds.CONFIGMAP, "a")
        await config_map(world, "b", k="2")
        await cached(cache, world, "b", {"k": "2"})
        assert cache.get(world.namespace, "a") is None
    assert lists(world) == 2


async def test_handlers_see_each_change_once_and_deletions_without_a_new_object(world: Any) -> None:
    seen: list[Any] = []
    async with caching(world) as cache:
        cache.subscribe(lambda new, old: seen.append([(item or {}).get("data") for item in (new, old)]))
        await config_map(world, "a", k="1")
        cache.observe(await config_map(world, "a", k="2"))
        await config_map(world, "a", k="2")
        await world.delete(kinds.CONFIGMAP, "a")
        await config_map(world, "b", k="1")
        await cached(cache, world, "b", {"k": "1"})
    last = seen[-3:]
    assert last == [[{"k": "2"}, last[0][1]], [None, {"k": "2"}], [{"k": "1"}, None]]
    assert seen[:-3] in ([], [[{"k": "1"}, None]]), "the first version may have been overtaken by what we observed"


async def test_an_answer_that_comes_after_the_deletion_does_not_bring_the_object_back(world: Any) -> None:
    async with caching(world) as cache:
        answer = await config_map(world, "a", k="1")
        await cached(cache, world, "a", {"k": "1"})
        await world.delete(kinds.CONFIGMAP, "a")
        await config_map(world, "b", k="1")
        await cached(cache, world, "b", {"k": "1"})
        cache.observe(answer)
        assert cache.get(world.namespace, "a") is None


async def test_an_answer_is_not_replaced_by_an_older_event(world: Any) -> None:
    async with caching(world) as cache:
        old = await config_map(world, "a", k="1")
        new = await config_map(world, "a", k="2")
        # As if the watch were behind both.
        cache._store.clear()
        cache._reached = 0
        cache.observe(new)
        cache._put(old)
        assert cache.get(world.namespace, "a")["data"] == {"k": "2"}


async def test_what_was_written_after_a_list_survives_it_and_what_the_list_lacks_does_not(world: Any) -> None:
    async with caching(world) as cache:
        await config_map(world, "a", k="1")
        await cached(cache, world, "a", {"k": "1"})
        phantom = {"metadata": {"name": "phantom", "namespace": world.namespace, "resourceVersion": "3"}}
        written = {"metadata": {"name": "written", "namespace": world.namespace, "resourceVersion": str(10**9)}}
        cache._put(phantom)
        cache._put(written)
        await cache._list()
        assert sorted(item["metadata"]["name"] for item in cache.items()) == ["a", "written"]


async def test_a_store_restored_from_a_backup_is_taken_as_it_is(world: Any) -> None:
    async with caching(world) as cache:
        await config_map(world, "a", k="1")
        await cached(cache, world, "a", {"k": "1"})
        # Everything that we have seen is from a future that never was.
        cache._reached = 10**9
        cache.get(world.namespace, "a")["metadata"]["resourceVersion"] = str(10**9)
        never = {"metadata": {"name": "never", "namespace": world.namespace, "resourceVersion": str(10**9)}}
        cache._put(never)
        await cache._list()
        assert [item["metadata"]["name"] for item in cache.items()] == ["a"]
        await config_map(world, "a", k="2")
        await cached(cache, world, "a", {"k": "2"})


async def test_a_list_longer_than_a_page_is_complete(world: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(client, "PAGE", 3)
    for number in range(7):
        await config_map(world, f"m{number}", k="1")
    async with caching(world) as cache:
        assert len(cache) == 7


async def test_items_of_a_namespace_are_those_that_are_there_now(world: Any) -> None:
    other = f"{world.namespace}-other"
    await world.api.create(kinds.NAMESPACE, {"metadata": {"name": other}})
    cache = informer.Informer(world.api, kinds.CONFIGMAP, None)
    for namespace, name in ((world.namespace, "a"), (other, "b"), (other, "c")):
        await world.api.create(kinds.CONFIGMAP, {"metadata": {"namespace": namespace, "name": name}})

    def names(namespace: str) -> list[str]:
        return [item["metadata"]["name"] for item in cache.items(namespace)]

    await cache.fill()
    assert (names(world.namespace), names(other), names("nowhere")) == (["a"], ["b", "c"], [])
    cache.forget((world.namespace, "a"))
    cache.forget((other, "b"))
    assert (names(world.namespace), names(other)) == ([], ["c"])
