"""A rollout goes forward only: every state of every condition is recorded by watches, and none comes twice. Servers and
Keystone are real; the pods of the services that ask them are played."""

from __future__ import annotations

import os
from typing import Any

import containers
import pytest
from test_controlplane import INFRASTRUCTURE, only
from test_servers import real  # noqa: F401 - a fixture

import recording
from openstack_operator.kit import kinds as ours

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(containers.OPENSTACK is None, reason="no image of 2026.1: run `./up --until images`"),
]

KINDS = (ours.CONTROL_PLANE, ours.MARIADB, ours.RABBITMQ, ours.MEMCACHED, ours.KEYSTONE, ours.GLANCE, ours.PLACEMENT)
ASKING = ("keystone", "glance", "placement", "openstackclient")


def test_a_recording_tells_what_goes_back_from_what_goes_forward() -> None:
    recorded = recording.Recording(None, "ns", ())  # type: ignore[arg-type]
    for condition, *states in (
        ("Ready", "False", "True"),
        ("DeploymentReady", "Unknown", "False", "True"),
        ("DatabaseReady", "False", "True", "False", "True"),
        ("Reconciling", "True", "False"),
        ("Stalled", "False", "True"),
    ):
        recorded.states["Toy", "one", condition] = states
    assert [place[2] for place in recorded.flaps()] == ["DatabaseReady", "Stalled"]
    assert [place[2] for place in recorded.unfinished()] == ["Stalled"]


async def test_in_a_rollout_each_condition_of_each_object_gets_true_once_and_stays(real: Any) -> None:  # noqa: F811
    spec = only(*INFRASTRUCTURE, *ASKING, mariadb={"bufferPoolMebibytes": 16})
    services = ("openstackcontrolplane", *INFRASTRUCTURE, "keystone", "glance", "placement")
    recorded = recording.Recording(real.api, real.namespace, KINDS)
    async with recorded.running(), real.operator(*services) as operator:
        await real.create(ours.CONTROL_PLANE, "cloud", spec)
        await real.until_ready(ours.CONTROL_PLANE, "cloud")
        await operator.settle()
        versions = dict(recorded.versions)
        told = await recording.told(real.api, real.namespace, KINDS)

        # A look at everything, as it comes every ten minutes, tells nothing and writes nothing.
        for runner in operator.manager.runners:
            for item in await real.all(runner.controller.kind.resource):
                runner.queue.add((real.namespace, item["metadata"]["name"]))
        await operator.settle()
        assert dict(recorded.versions) == versions
        assert await recording.told(real.api, real.namespace, KINDS) == told
    assert {kind for kind, _, _ in recorded.states} == {one.kind for one in KINDS}
    assert recorded.flaps() == {}
    assert recorded.unfinished() == []

    # One Event for each condition that became True, and no other.
    assert told == recorded.steps()

    assert recorded.nameless() == {}, "waits that name nothing"
