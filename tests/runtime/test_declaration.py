"""Mistakes in a controller's table and in what it declares show at once, not in some later pass."""

from __future__ import annotations

from typing import Any

import pytest
import toy

from openstack_operator.runtime import client, controller, kinds, manager


async def ensure(scope: toy.Scope) -> None:
    pass


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([("A", None), ("A", None)], "Toy: step A: a condition of this name exists already"),
        ([("Ready", None)], "Toy: step Ready: a condition of this name exists already"),
        ([("A", ("B",)), ("B", None)], "Toy: step A: needs B, which no row above it gives"),
    ],
)
def test_a_wrong_table_is_refused(steps: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        toy.toys(steps=tuple(controller.Step(name, ensure, needs) for name, needs in steps))


async def test_a_kind_that_no_controller_declares_cannot_be_read() -> None:
    api = client.Client(client.Config("https://127.0.0.1:1", None), "test")
    running = manager.Manager(api, [toy.toys()], domain=toy.DOMAIN)
    running.started.set()
    with pytest.raises(RuntimeError, match="Job is read but no controller declares it"):
        running.informer(kinds.JOB)
