"""What counts as drift, and what is only the server's way of writing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.runtime import drift

SCALARS = st.one_of(st.booleans(), st.integers(), st.text(max_size=5))
NAMES = st.text("abcdef", min_size=1, max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def grown(value: Any, extra: str) -> Any:
    """With one more key in each dictionary, as others and the server's defaults add them."""
    if isinstance(value, dict):
        return {extra: "more", **{key: grown(entry, extra) for key, entry in value.items()}}
    if isinstance(value, list):
        return [grown(entry, extra) for entry in value]
    return value


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of all values that are no containers."""
    if isinstance(value, dict):
        return [found for key, entry in value.items() for found in paths(entry, (*path, key))]
    if isinstance(value, list):
        return [found for index, entry in enumerate(value) for found in paths(entry, (*path, index))]
    return [path]


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    if not path:
        return [value, "changed"]
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:])
    return copy


@given(OBJECTS)
def test_an_object_has_not_drifted_from_itself(wanted: Any) -> None:
    assert drift.is_subset(wanted, wanted)


@given(OBJECTS)
def test_what_others_add_to_maps_is_no_drift(wanted: Any) -> None:
    assert drift.is_subset(wanted, grown(wanted, "zz"))


@given(OBJECTS, st.data())
def test_every_changed_value_is_drift(wanted: Any, data: st.DataObject) -> None:
    found = paths(wanted)
    if found:
        path = data.draw(st.sampled_from(found))
        assert drift.difference(wanted, changed(wanted, path)) is not None


@given(OBJECTS, st.data())
def test_every_missing_value_is_drift(wanted: Any, data: st.DataObject) -> None:
    if wanted:
        missing = data.draw(st.sampled_from(sorted(wanted)))
        rest = {key: value for key, value in wanted.items() if key != missing}
        is_nothing = wanted[missing] == []
        assert drift.is_subset(wanted, rest) == is_nothing


@given(OBJECTS)
def test_a_digest_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    assert drift.digest(value) == drift.digest(dict(reversed(value.items())))


@pytest.mark.parametrize(
    ("wanted", "actual"),
    [
        ({"limits": {"cpu": "0.5"}}, {"limits": {"cpu": "500m"}}),
        ({"limits": {"cpu": 1}}, {"limits": {"cpu": "1"}}),
        ({"requests": {"memory": "1024Mi"}}, {"requests": {"memory": "1Gi"}}),
        ({"requests": {"storage": "1e3"}}, {"requests": {"storage": "1k"}}),
        ({"emptyDir": {"sizeLimit": "0.5Gi"}}, {"emptyDir": {"sizeLimit": "512Mi"}}),
        ({"labels": {}, "args": []}, {}),
        ({"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}),
        ({"tolerations": None}, {}),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B"}, {"name": "A", "value": "1"}]}),
        ({"containers": [{"name": "a"}]}, {"containers": [{"name": "mesh"}, {"name": "a", "image": "x"}]}),
    ],
)
def test_what_the_server_writes_in_its_own_way_is_no_drift(wanted: Any, actual: Any) -> None:
    """Case 106."""
    assert drift.difference(wanted, actual) is None


@pytest.mark.parametrize(
    ("wanted", "actual", "where"),
    [
        ({"limits": {"cpu": "0.5"}}, {"limits": {"cpu": "1"}}, ".limits.cpu"),
        ({"data": {"cpu": "0.5"}}, {"data": {"cpu": "500m"}}, ".data.cpu"),
        ({"limits": {"cpu": "half"}}, {"limits": {"cpu": "whole"}}, ".limits.cpu"),
        ({"volumes": [{"name": "a", "emptyDir": {}}]}, {"volumes": [{"name": "a"}]}, ".volumes[a].emptyDir"),
        ({"args": ["a"]}, {"args": ["a", "b"]}, ".args"),
        ({"args": ["a", "b"]}, {"args": ["a", "c"]}, ".args[1]"),
        ({"subjects": [{"name": "a"}]}, {"subjects": [{"name": "a"}, {"name": "evil"}]}, ".subjects"),
        ({"env": [{"name": "A"}]}, {"env": []}, ".env[A]"),
        ({"env": [{"name": "A"}]}, {"env": "A"}, ".env"),
        ({"tolerations": None}, {"tolerations": [1]}, ".tolerations"),
        ({"replicas": 0}, {}, ".replicas"),
        ({"value": {"a": 1}}, {"value": "a"}, ".value"),
    ],
)
def test_drift_is_named_by_its_path(wanted: Any, actual: Any, where: str) -> None:
    assert drift.difference(wanted, actual) == where


def test_fields_that_are_none_are_not_sent() -> None:
    wanted = {"a": None, "b": [{"c": None, "d": 1}], "e": {"f": None}}
    assert drift.without_nulls(wanted) == {"b": [{"d": 1}], "e": {}}


SCHEMA = {
    "properties": {
        "spec": {
            "properties": {
                "size": {"type": "integer"},
                "groups": {"additionalProperties": {"properties": {"labels": {"additionalProperties": {}}}}},
            }
        },
        "metadata": {"properties": {"name": {"type": "string"}}},
    }
}


@pytest.mark.parametrize(
    ("wanted", "actual", "patch"),
    [
        ({"groups": {}}, {"groups": {"a": {}}}, {"groups": {"a": None}}),
        ({"groups": {"a": {}}}, {"groups": {"a": {"labels": {"x": "1"}}}}, {}),
        (
            {"groups": {"a": {"labels": {}}}},
            {"groups": {"a": {"labels": {"x": "1"}}}},
            {"groups": {"a": {"labels": {"x": None}}}},
        ),
        ({"groups": {"a": {}}}, {"groups": {"a": {}, "b": {"labels": {}}}}, {"groups": {"b": None}}),
        ({}, {"groups": {"a": {}}}, {}),
        ({"size": 1}, {"size": 2, "other": {}}, {}),
        ({"groups": {"a": {}}}, {"groups": {"a": {}}}, {}),
    ],
)  # fmt: skip
def test_entries_of_others_are_taken_out_of_maps_that_we_speak_of(wanted: Any, actual: Any, patch: Any) -> None:
    expected = {"spec": patch} if patch else {}
    assert drift.without_foreign_entries(SCHEMA, {"spec": wanted}, {"spec": actual}) == expected
