"""Quantities as numbers, and what depends on comparing them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from openstack_operator.kit import quantities, workloads
from openstack_operator.kit.types import PodSettings


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", Decimal(4)),
        ("500m", Decimal("0.5")),
        ("0.5", Decimal("0.5")),
        ("1e3", Decimal(1000)),
        ("2Gi", Decimal(2 * 1024**3)),
        ("1Ki", Decimal(1024)),
        ("3k", Decimal(3000)),
        ("1E", Decimal(10) ** 18),
        ("+1M", Decimal(10) ** 6),
    ],
)
def test_a_quantity_is_a_number(text: str, number: Decimal) -> None:
    assert quantities.value(text) == number


def test_what_is_no_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="'12 GB' is no quantity"):
        quantities.value("12 GB")


def resources(settings: dict[str, object]) -> dict[str, dict[str, str]]:
    pod = workloads.Pod(
        service="s",
        instance="i",
        component="c",
        owner_kind="K",
        image="x",
        user=1,
        containers=(workloads.Container("main", ("true",), cpu="50m", memory="200Mi"),),
        settings=PodSettings.model_validate({"resources": settings}),
    )
    found: dict[str, dict[str, str]] = workloads.template(pod)["spec"]["containers"][0]["resources"]
    return found


def test_a_limit_below_our_default_request_lowers_the_request_to_it() -> None:
    assert resources({"limits": {"memory": "100Mi"}}) == {
        "requests": {"cpu": "50m", "memory": "100Mi"},
        "limits": {"memory": "100Mi"},
    }


def test_a_limit_above_our_default_request_leaves_the_request_alone() -> None:
    assert resources({"limits": {"memory": "1Gi", "cpu": "2"}}) == {
        "requests": {"cpu": "50m", "memory": "200Mi"},
        "limits": {"memory": "1Gi", "cpu": "2"},
    }


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("1.0", "1"), ("1000m", "1"), ("0.5", "500m"), ("1500m", "1500m"), ("2000", "2k"), ("0", "0"), ("0Gi", "0"),
        ("5120Mi", "5Gi"), ("1.5Gi", "1536Mi"), ("1000Ki", "1000Ki"), ("1024", "1024"), ("1e3", "1e3"), ("1M", "1M"),
        ("+1", "1"), ("0.5Ki", "512"), ("1000000", "1M"),
    ],
)  # fmt: skip
def test_a_quantity_is_written_as_the_api_server_writes_it(written: str, canonical: str) -> None:
    assert quantities.canonical(written) == canonical
