"""Requests for an object with three children: until it is Ready, when nothing happens, after an edit, at a restart."""

from __future__ import annotations

import collections
from collections.abc import AsyncIterator
from typing import Any

import pytest
import toy
from budgets import hold
from toyland import World, install_toys

from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.runtime import client, kinds

OBJECTS = 5


@pytest.fixture(scope="session")
def toys_installed(apiserver: ControlPlane) -> ControlPlane:
    install_toys(apiserver)
    return apiserver


@pytest.fixture
async def world(toys_installed: ControlPlane, namespace: str) -> AsyncIterator[World]:
    """A fresh namespace of the shared API server."""
    async with client.Client(client.Config.from_kubeconfig(toys_installed.kubeconfig), "user") as api:
        yield World(toys_installed, namespace, api)


NAMES = [f"toy-{number}" for number in range(OBJECTS)]


async def bring_up(world: World, operator: Any) -> None:
    """All toys wait for their Deployments first, and are Ready then."""
    for name in NAMES:
        await world.create(name)
    for name in NAMES:
        await world.until(toy.RESOURCE, lambda item: toy.ready_condition(item).get("reason") == "PodsNotReady", name)
        await world.set_ready(name)
    for name in NAMES:
        await world.until_ready(name)
    await operator.settle()


def events(world: World, agent: str) -> int:
    return sum(
        event.get("userAgent") == agent
        and event["stage"] == "ResponseComplete"
        and event.get("objectRef", {}).get("resource") == "events"
        for event in world.control_plane.audit_events()
    )


def without_lists(requests: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [one for one in requests if one[0] != "list"]


async def test_an_object_with_three_children_costs_no_more_requests_than_it_may(world: Any) -> None:
    async with world.operator() as operator:
        await bring_up(world, operator)
        made = without_lists(operator.requests())
        hold("object.requests", len(made) / OBJECTS)
        hold("object.events", events(world, operator.agent) / OBJECTS)


async def test_nothing_is_written_while_nothing_happens_and_an_edit_costs_one_write(world: Any) -> None:
    async with world.operator() as operator:
        await bring_up(world, operator)
        before = world.control_plane.audit_size()
        for name in NAMES:
            # As a resync does: every object is looked at.
            operator.manager.runners[0].enqueue((world.namespace, name))
        await operator.settle()
        hold("object.idle_requests", len(operator.requests(before)))

        before = world.control_plane.audit_size()
        for name in NAMES:
            await world.patch(kinds.CONFIGMAP, name, {"data": {"text": "edited"}})
        for name in NAMES:
            await world.until(kinds.CONFIGMAP, lambda item: item["data"]["text"] == "hello", name)
        await operator.settle()
        hold("object.repair_requests", len(operator.requests(before)) / OBJECTS)


async def test_a_restart_lists_each_kind_once_and_writes_nothing(world: Any) -> None:
    async with world.operator() as operator:
        await bring_up(world, operator)
    async with world.operator() as operator:
        await operator.settle()
        found = operator.requests()
    listed = collections.Counter(resource for verb, resource, _ in found if verb == "list")
    assert set(listed) == {"toys", "configmaps", "secrets", "deployments"}
    hold("object.restart_lists", max(listed.values()))
    hold("object.restart_requests", len(without_lists(found)))
