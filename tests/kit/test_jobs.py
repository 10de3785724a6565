"""When a Job has done its work: pods say it a second before Kubernetes has counted them."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.kit import jobs


def job(uid: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": uid, "uid": uid}, "status": status}


def pod(phase: str, *owners: str) -> dict[str, Any]:
    return {
        "metadata": {"ownerReferences": [{"uid": uid, "controller": True} for uid in owners]},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("pods", "succeeded"),
    [
        ([], None),
        ([pod("Running", "one")], None),
        ([pod("Failed", "one")], None),
        ([pod("Succeeded", "other")], None),
        ([pod("Succeeded")], None),
        ([pod("Failed", "one"), pod("Succeeded", "one")], 1),
    ],
)
def test_a_pod_that_has_succeeded_is_the_success_of_its_own_job(
    pods: list[dict[str, Any]], succeeded: int | None
) -> None:
    (found,) = jobs.counted([job("one", active=1)], pods)
    assert found["status"] == {"active": 1} | ({"succeeded": succeeded} if succeeded else {})


def test_what_a_job_says_itself_stays_and_its_object_is_not_changed() -> None:
    first, second = job("one", succeeded=1), job("two")
    assert jobs.counted([first, second], [pod("Succeeded", "two")]) == [first, job("two", succeeded=1)]
    assert second == job("two")
