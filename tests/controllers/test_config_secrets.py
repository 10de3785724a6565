"""Configuration text in Secrets that users make: it is merged, checked, watched, and shown nowhere."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from world import HASH, condition, decoded

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds

API = "placement-api"
PASSWORD = "hunter2-MIIEpAIBAAKCAQEA"
SPEC = {
    "customServiceConfig": "[DEFAULT]\ndebug = false\n[placement]\nmax_allocation_candidates = 7\n",
    "configSecrets": [{"name": "mine", "key": "first.conf"}, {"name": "mine", "key": "second.conf"}],
}
FIRST = f"[placement_database]\nslave_connection = mysql+pymysql://me:{PASSWORD}@elsewhere/placement\n"
SECOND = "[DEFAULT]\ndebug = true\n"
WHERE = "spec.configSecrets[0]: Secret mine, key first.conf: "


async def surroundings(world: Any) -> None:
    await world.create(ours.MARIADB, "mariadb", {})
    await world.create(ours.MEMCACHED, "memcached", {})
    await world.create(ours.KEYSTONE, "keystone", {})
    await world.patch(ours.MEMCACHED, "memcached", {"status": {"servers": ["memcached-0:11211"]}}, "status")
    urls = {"internalUrl": "http://keystone:5000/v3", "publicUrl": "http://192.0.2.1:30500/v3"}
    await world.patch(ours.KEYSTONE, "keystone", {"status": urls}, "status")


async def write(world: Any, **values: str) -> None:
    """Changes keys of the user's Secret."""
    data = {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in values.items()}
    await world.patch(kinds.SECRET, "mine", {"data": data})


async def digest(world: Any) -> str:
    item = await world.get(kinds.DEPLOYMENT, API)
    return str(item["spec"]["template"]["metadata"]["annotations"][HASH])


@pytest.fixture
async def placement(world: Any) -> AsyncIterator[Any]:
    """A Placement that works with texts in a Secret."""
    async with world.operator("placement") as operator:
        world.settle = operator.settle
        await surroundings(world)
        await world.secret("mine", **{"first.conf": FIRST, "second.conf": SECOND, "other": "x"})
        await world.create(ours.PLACEMENT, "placement", SPEC)
        await world.grant(ours.MARIADB, "databases", "mariadb", "placement")
        await world.until_condition(ours.PLACEMENT, "placement", "DeploymentReady")
        yield world


async def test_texts_are_merged_from_a_secret_in_their_order_and_win_over_the_text_of_their_level(
    placement: Any,
) -> None:
    secret = decoded(await placement.get(kinds.SECRET, "placement-config-secrets"))
    assert secret["placement.conf.91-custom"] == (
        f"# spec.configSecrets[0]: Secret mine, key first.conf\n{FIRST}"
        f"\n# spec.configSecrets[1]: Secret mine, key second.conf\n{SECOND}"
    )
    data = (await placement.get(kinds.CONFIGMAP, "placement-config-data"))["data"]
    assert sorted(data) == ["placement.conf.10-generated", "placement.conf.90-custom", "uwsgi.ini"]
    shown = [await placement.get(ours.PLACEMENT, "placement"), await placement.all(kinds.CONFIGMAP)]
    shown += [await placement.all(kind) for kind in (kinds.DEPLOYMENT, kinds.POD, kinds.JOB, kinds.EVENT)]
    assert PASSWORD not in json.dumps(shown)


async def test_a_change_of_what_a_secret_says_rolls_and_another_comment_or_key_does_not(placement: Any) -> None:
    """Case 26. Regression f66."""
    first = await digest(placement)
    await write(placement, other="y")
    await write(placement, second_conf=f"# why\n{SECOND}\n")
    await placement.until(
        kinds.SECRET,
        lambda item: "# why" in decoded(item)["placement.conf.91-custom"],
        "placement-config-secrets",
    )
    await placement.settle()
    assert await digest(placement) == first
    await write(placement, second_conf="[DEFAULT]\ndebug = false\n")
    await placement.until(
        kinds.DEPLOYMENT, lambda item: item["spec"]["template"]["metadata"]["annotations"][HASH] != first, API
    )


BAD = [
    (f"{PASSWORD}\n", "InvalidConfig", "line 1: no [section] before this option"),
    (f"[DEFAULT]\n{PASSWORD}\n", "InvalidConfig", "line 2: No ':' or '=' found in assignment"),
    (f"[DEFAULT]\ndebug = {PASSWORD}\n", "InvalidConfig", "line 2: [DEFAULT] debug must be true or false"),
    (f"[DEFAULT]\nhost = ${PASSWORD[:7]}\n", "", "an option does not exist in placement 2026.1"),
    (
        f"[DEFAULT]\ndebgu = {PASSWORD}\n",
        "",
        "line 2: [DEFAULT] debgu does not exist in placement 2026.1 (did you mean",
    ),
    (f"[DEFAULT]\n{PASSWORD}==\n", "", "line 2: an option does not exist in placement 2026.1"),
    (f"[{PASSWORD}]\na=1\n", "", "line 2: an option is in a section that does not exist in placement 2026.1"),
]


async def test_a_problem_is_named_with_secret_key_and_line_and_never_with_the_value(placement: Any) -> None:
    before = await digest(placement)
    for text, reason, message in BAD:
        await write(placement, first_conf=text)

        def is_told(item: Any, reason: str = reason, message: str = message) -> bool:
            status, why, told = condition(item, "ConfigValid")
            return message in told and (status, why) == (("False", reason) if reason else ("True", "Ready"))

        item = await placement.until(ours.PLACEMENT, is_told, "placement")
        assert condition(item, "ConfigValid")[2].startswith(WHERE)
        shown = json.dumps([item, await placement.all(kinds.EVENT), await placement.all(kinds.CONFIGMAP)])
        assert PASSWORD[:7] not in shown
        if reason:
            await placement.settle()
            assert await digest(placement) == before, "running pods keep what they have"


async def test_a_secret_that_is_missing_is_named_and_waited_for_by_its_name(world: Any) -> None:
    async with world.operator("placement"):
        await surroundings(world)
        await world.create(ours.PLACEMENT, "placement", SPEC)
        item = await world.until_condition(ours.PLACEMENT, "placement", "ConfigValid", "False", "SecretMissing")
        assert condition(item, "ConfigValid")[2] == f"Secret {world.namespace}/mine does not exist"
        await world.secret("mine", **{"first.conf": FIRST})
        item = await world.until_condition(ours.PLACEMENT, "placement", "ConfigValid", "False", "SecretKeyMissing")
        assert "has no key 'second.conf'" in condition(item, "ConfigValid")[2]
        await write(world, second_conf=SECOND)
        await world.until_condition(ours.PLACEMENT, "placement", "ConfigValid")
