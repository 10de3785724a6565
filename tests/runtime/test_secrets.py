"""Secrets that users make and name: followed, and refused with a message that says what to change."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import toy

import watching
from openstack_operator.runtime import conditions, kinds


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


async def test_an_object_goes_on_when_the_secret_that_it_names_appears(world: Any) -> None:
    async with world.operator() as operator:
        await world.create(secret="mine", replicas=0)
        item = await world.until_ready(status="False", reason="SecretMissing")
        assert conditions.find(item, "Stalled")["message"] == (
            f"SecretReady: Secret {world.namespace}/mine does not exist"
        )
        await world.secret("mine", password=encoded("first"))
        await world.until_ready()
        assert (await world.find(kinds.SECRET))["data"] == {"password": encoded("first")}
        before = world.control_plane.audit_size()
        await world.patch(kinds.SECRET, "mine", {"data": {"password": encoded("second")}})
        await world.until(kinds.SECRET, lambda item: item["data"] == {"password": encoded("second")})
        await operator.settle()
    assert operator.requests(before) == [("patch", "secrets", "one")]


@pytest.mark.parametrize(
    ("data", "reason", "problem"),
    [
        ({"other": "eA==", "another": ""}, "SecretKeyMissing", " has no key 'password'; it has: another, other"),
        ({}, "SecretKeyMissing", " has no key 'password'; it has: nothing"),
        ({"password": ""}, "SecretEmpty", ": key 'password' is empty"),
        ({"password": "/w=="}, "SecretNotText", ": key 'password' is not UTF-8 text"),
    ],
)
async def test_a_secret_that_cannot_be_used_is_named_and_mending_it_is_enough(
    world: Any, data: dict[str, str], reason: str, problem: str
) -> None:
    """Case 31."""
    async with world.operator():
        await world.secret("mine", **data)
        await world.create(secret="mine", replicas=0)
        item = await world.until_ready(status="False", reason=reason)
        message = f"SecretReady: Secret {world.namespace}/mine{problem}"
        assert conditions.find(item, "Stalled")["message"] == message
        await world.patch(kinds.SECRET, "mine", {"data": {"password": encoded("$%@/#+\"':-")}})
        await world.until_ready()
    assert (await world.find(kinds.SECRET))["data"] == {"password": encoded("$%@/#+\"':-")}


async def test_a_secret_outside_the_selected_ones_is_watched_alone_and_not_any_longer_than_it_is_named(
    world: Any,
) -> None:
    def selectors(resource: kinds.Resource) -> str | None:
        return "app=toys" if resource == kinds.SECRET else None

    async def ensure(scope: toy.Scope) -> None:
        if scope.spec.secret:
            await scope.secret(scope.spec.secret, "password")

    step = toy.controller.Step("SecretReady", ensure)
    async with world.operator(toy.toys(steps=(step,)), selectors=selectors) as operator:
        await world.secret("mine", password=encoded("x"))
        await world.secret("yours", password=encoded("x"))
        for name in ("one", "two"):
            await world.create(name, secret="mine")
            await world.until_ready(name)
        assert followed(operator) == {"mine": 2}
        await world.delete(kinds.SECRET, "mine")
        await world.until_ready("one", status="False", reason="SecretMissing")
        await world.until_ready("two", status="False", reason="SecretMissing")
        for name in ("one", "two"):
            await world.patch(toy.RESOURCE, name, {"spec": {"secret": "yours"}})
            await world.until_ready(name)
        await watching.eventually(lambda: followed(operator) == {"yours": 2})
        await world.delete(toy.RESOURCE, "one")
        await world.until(toy.RESOURCE, lambda item: item is None)
        await world.patch(toy.RESOURCE, "two", {"spec": {"secret": None}})
        await watching.eventually(lambda: followed(operator) == {})


def followed(operator: Any) -> dict[str, int]:
    return {where[2]: len(one.wakers) for where, one in operator.manager._followed.items()}


async def test_a_secret_without_the_label_that_the_cache_selects_by_is_a_bug_that_shows(world: Any) -> None:
    def selectors(resource: kinds.Resource) -> str | None:
        return "app=toys" if resource == kinds.SECRET else None

    async with world.operator(selectors=selectors):
        await world.create()
        item = await world.until_ready(status="False", reason="InternalError")
    assert conditions.find(item, "SecretReady")["reason"] == "InternalError"
