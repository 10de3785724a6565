"""How conditions are merged and summed up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.runtime import conditions
from openstack_operator.runtime.conditions import Outcome

OUTCOMES = st.builds(
    Outcome,
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["Ready", "Blocked", "InternalError", "ApiError", "Other"]),
    st.text(max_size=5),
    st.booleans(),
)
TABLES = st.lists(st.tuples(st.sampled_from("ABCDE"), OUTCOMES), unique_by=lambda row: row[0])
WAITS = Outcome("False", "Waits", "later")
LONG_AGO = "2001-01-01T00:00:00Z"


def states(found: list[dict[str, Any]]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in found}


def built(table: Any, previous: Any = (), generation: int = 7) -> list[dict[str, Any]]:
    return conditions.build(table, conditions.summary(table), generation, previous)


@given(TABLES)
def test_all_conditions_are_there_in_the_order_of_the_table(table: Any) -> None:
    names = [condition["type"] for condition in built(table)]
    assert names == ["Ready", *(name for name, _ in table), "Reconciling", "Stalled"]


@given(TABLES, TABLES)
def test_a_transition_time_moves_when_and_only_when_the_status_changes(before: Any, after: Any) -> None:
    """Case 118."""
    previous = [{**condition, "lastTransitionTime": LONG_AGO} for condition in built(before)]
    old = states(previous)
    for condition in built(after, previous):
        is_kept = old.get(condition["type"]) == condition["status"]
        assert (condition["lastTransitionTime"] == LONG_AGO) == is_kept


@given(TABLES)
def test_building_again_from_the_result_changes_nothing(table: Any) -> None:
    once = built(table)
    assert built(table, once) == once


@given(TABLES)
def test_ready_says_whether_all_are_true_and_exactly_one_of_three_states_holds(table: Any) -> None:
    found = states(built(table))
    assert (found["Ready"] == "True") == all(outcome.is_true for _, outcome in table)
    assert [found[name] for name in ("Ready", "Reconciling", "Stalled")].count("True") == 1


@pytest.mark.parametrize(
    ("table", "reason", "message"),
    [
        ([("A", Outcome("False", "Waits", "a")), ("B", Outcome("False", "Nonsense", "b", True))], "Nonsense", "B: b"),
        (
            [("A", Outcome("False", "Waits", "a")), ("B", Outcome("False", "InternalError", "b"))],
            "InternalError",
            "B: b",
        ),
        ([("A", Outcome("Unknown", "Blocked", "a")), ("B", Outcome("False", "Waits", "b"))], "Waits", "B: b"),
        ([("A", Outcome("False", "One", "a")), ("B", Outcome("False", "Two", "b"))], "One", "A: a"),
        ([("A", Outcome("True", "Ready", ""))], "Ready", ""),
    ],
)
def test_ready_names_what_to_look_at_first(table: Any, reason: str, message: str) -> None:
    """Regression f63."""
    summary = conditions.summary(table)
    assert (summary.reason, summary.message) == (reason, message)


def test_a_condition_that_somebody_else_wrote_without_a_time_gets_one() -> None:
    previous = [{"type": "Ready", "status": "True"}]
    found = built([("A", Outcome("True", "Ready", ""))], previous)
    assert found[0]["lastTransitionTime"] > LONG_AGO


def test_a_message_is_cut_where_the_server_would_refuse_it() -> None:
    found = built([("A", Outcome("False", "Long", "x" * 5000))])
    assert {len(condition["message"]) for condition in found} == {0, conditions.LONGEST_MESSAGE}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"metadata": {"generation": 8}}, False),
        ({"metadata": {"generation": 7, "deletionTimestamp": LONG_AGO}}, False),
        ({"status": {}}, False),
    ],
)
def test_an_object_is_ready_for_its_present_generation_only(change: Any, expected: bool) -> None:
    """Case 118. Regression r94."""
    item = {"metadata": {"generation": 7}, "status": {"conditions": built([("A", Outcome("True", "Ready", ""))])}}
    assert conditions.is_ready({**item, **change}) is expected


def test_what_does_not_exist_is_not_ready() -> None:
    assert not conditions.is_ready(None)
