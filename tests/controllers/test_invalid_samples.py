"""Samples that the API server accepts and a controller stalls on: each with the condition written beside it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from world import condition

from openstack_operator import controlplane
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds

SAMPLES = Path(__file__).parents[2] / "deploy" / "samples" / "invalid"
EXPECTATION = re.compile(r"^# expect-condition: (\w+)/(\w+): (.+)$", re.MULTILINE)
TEXTS = {path.stem: path.read_text() for path in sorted(SAMPLES.rglob("*.yaml"))}
STALLING = [name for name, text in TEXTS.items() if EXPECTATION.search(text)]
OURS = {kind.resource.kind: kind.resource for service in controlplane.EVERYTHING for kind in service.kinds}
# The servers whose part the test plays.
PLAYED = ("mariadb", "rabbitmq")


@pytest.mark.parametrize("sample", STALLING)
async def test_a_sample_stalls_with_the_condition_beside_it(world: Any, sample: str) -> None:
    text = TEXTS[sample].replace("namespace: openstack\n", f"namespace: {world.namespace}\n")
    match = EXPECTATION.search(text)
    assert match is not None
    kind, reason, message = match.groups()
    message = message.replace(" openstack/", f" {world.namespace}/")
    services = [service.name for service in controlplane.EVERYTHING if service.name not in PLAYED]
    async with world.operator(*services):
        playing = asyncio.ensure_future(world.play_servers())
        last: Any = None
        for item in yaml.safe_load_all(text):
            resource = kinds.SECRET if item["kind"] == "Secret" else OURS.get(item["kind"])
            if resource is None:
                pytest.skip(f"{item['kind']} is not in the operator yet")
            last = (resource, (await world.api.create(resource, item))["metadata"]["name"])
        resource, name = last
        if resource != ours.CONTROL_PLANE:
            for needed, other in (
                (ours.MARIADB, "mariadb"),
                (ours.RABBITMQ, "rabbitmq"),
                (ours.MEMCACHED, "memcached"),
            ):
                if needed != resource:
                    await world.create(needed, other, {})
        found = await world.until_condition(resource, name, kind, "False", reason, text=message)
        assert condition(found, "Stalled")[:2] == ("True", reason)
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing
