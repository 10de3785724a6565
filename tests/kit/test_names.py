"""Names of derived objects: legal for Kubernetes, and two inputs never share one."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.kit import names

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
instances = st.from_regex(r"[a-z]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)


def test_short_names_are_readable() -> None:
    assert names.join("a", "", "b") == "a-b"
    assert names.workload("nova", "api") == "nova-api"
    assert names.job("keystone", "bootstrap", "0123456789abcdef") == "keystone-bootstrap-01234567"
    assert names.dns("mariadb", "openstack") == "mariadb.openstack.svc"
    assert [function("nova") for function in (names.config_data, names.config_secrets, names.scripts)] == [
        "nova-config-data",
        "nova-config-secrets",
        "nova-scripts",
    ]
    assert names.database_secret("nova", "cell1") == "nova-cell1-db"
    assert names.messaging_secret("nova") == "nova-mq"


@given(instances, instances)
def test_a_name_fits_and_is_a_dns_label(instance: str, component: str) -> None:
    for name, longest in (
        (names.join(instance, component), names.LONGEST),
        (names.workload(instance, component), names.LONGEST_WORKLOAD),
        (names.job(instance, component, "0123456789"), names.LONGEST_WORKLOAD),
    ):
        assert len(name) <= longest
        assert LABEL.fullmatch(name)


@given(st.lists(instances, min_size=2, max_size=2, unique=True), instances)
def test_two_instances_never_share_a_derived_name(two: list[str], component: str) -> None:
    first, second = two
    for function in (names.workload, names.join):
        assert function(first, component) != function(second, component)


def test_long_names_that_differ_at_the_end_only_stay_apart() -> None:
    long = "a" * 70
    one, other = names.join(long + "1"), names.join(long + "2")
    assert one != other
    assert one[:-8] == other[:-8], "the beginning stays readable"
    assert len(one) == 63


@given(st.from_regex(rf"[a-z][-a-z0-9]{{0,{names.INSTANCE_LENGTH - 2}}}[a-z0-9]", fullmatch=True))
def test_names_of_instances_of_the_allowed_length_are_never_cut(instance: str) -> None:
    assert names.workload(instance, "fernet-rotate") == f"{instance}-fernet-rotate"
    assert names.config_secrets(instance) == f"{instance}-config-secrets"


def test_a_database_has_a_name_that_sql_takes_without_quotes() -> None:
    assert names.schema("image-store") == "image_store"
    assert names.schema("nova-2", "cell1") == "nova_2_cell1"
