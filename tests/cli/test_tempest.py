"""The configuration of Tempest, and the comparison of its verdicts with the recorded ones."""

from __future__ import annotations

import configparser
import sys
from pathlib import Path

from openstack_operator.cli import tempest

sys.path.insert(0, str(Path(__file__).parents[1] / "tempest"))

import verdicts  # the path is set above

EXPECTED = Path(__file__).parents[1] / "tempest" / "smoke.txt"

FACTS = tempest.Facts(
    identity_url="http://127.0.0.1:5000/v3",
    region="RegionOne",
    username="admin",
    password="pa$s%word#",
    project="admin",
    domain="Default",
    image="image-id",
    other_image="other-id",
    network="network-id",
    network_name="public",
    hypervisor="QEMU",
    compute_nodes=1,
    compute_versions=("2.1", "2.103"),
    placement_versions=("1.0", "1.39"),
    extensions=("router", "agent"),
    services=frozenset({"identity", "compute", "network", "image", "placement"}),
)

# Lines as `tempest run` prints them.
OUTPUT = """\
{0} tempest.api.x.A.test_one [0.123456s] ... ok
{1} tempest.api.x.A.test_two[id-1,smoke] [1.2s] ... FAILED
{1} setUpClass (tempest.api.x.B) ... SKIPPED: swift is not available
{0} tempest.api.x.C.test_one [0.1s] ... ok
{0} tearDownClass (tempest.api.x.C) [0.000000s] ... FAILED
"""
TESTS = [f"tempest.api.x.{name}" for name in ("A.test_one", "A.test_two", "B.test_one", "B.test_two", "C.test_one")]


def test_a_password_of_any_characters_is_read_back_by_the_rules_of_oslo_config() -> None:
    parser = configparser.RawConfigParser()
    parser.read_string(tempest.text(tempest.configuration(FACTS)))
    assert parser["auth"]["admin_password"] == "pa$$s%word#"


def test_services_that_are_not_in_the_catalogue_are_not_tested() -> None:
    available = tempest.configuration(FACTS)["service_available"]
    assert available == {
        "nova": "true",
        "neutron": "true",
        "glance": "true",
        "cinder": "false",
        "swift": "false",
        "horizon": "false",
    }


def test_extensions_are_the_clouds_own_in_a_stable_order() -> None:
    assert tempest.configuration(FACTS)["network-feature-enabled"]["api_extensions"] == "agent,router"


def test_a_class_that_was_skipped_or_broke_counts_for_each_of_its_tests() -> None:
    assert verdicts.verdicts(OUTPUT, TESTS) == {
        "tempest.api.x.A.test_one": "passed",
        "tempest.api.x.A.test_two": "failed",
        "tempest.api.x.B.test_one": "skipped",
        "tempest.api.x.B.test_two": "skipped",
        "tempest.api.x.C.test_one": "failed",
    }


def test_verdicts_make_a_file_of_expectations_with_the_reasons_of_skips() -> None:
    made = verdicts.listing(OUTPUT, TESTS)
    assert "skipped tempest.api.x.B.test_one   # swift is not available\n" in made
    assert verdicts.expected(made) == verdicts.verdicts(OUTPUT, TESTS)


def test_a_difference_names_the_test_and_both_verdicts_and_a_pass_is_never_one() -> None:
    wanted = {"a": "passed", "b": "skipped", "c": "passed", "d": "passed"}
    found = {"a": "failed", "b": "passed", "c": "skipped", "e": "passed"}
    assert verdicts.differences(wanted, found) == [
        "a: failed, expected: passed",
        "c: skipped, expected: passed",
        "d: absent, expected: passed",
    ]


def test_the_recorded_verdicts_are_those_of_the_whole_smoke_set() -> None:
    recorded = list(verdicts.expected(EXPECTED.read_text()).values())
    assert (recorded.count("passed"), recorded.count("skipped"), len(recorded)) == (83, 24, 107)
