"""Text for all services of a cloud: who gets what of it, and what is said about it, in all three places alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli import lint
from openstack_operator.controlplane import resources
from openstack_operator.controlplane.types import KIND, OpenStackControlPlaneSpec
from openstack_operator.kit import config_validity, shared_config
from openstack_operator.kit.types import ConfigPolicy
from openstack_operator.runtime.admission import Subject, Verdict
from openstack_operator.services import SERVICES

RELEASE = "2026.1"
ALL = ("glance", "keystone", "neutron", "nova", "placement")
FIELD = "spec.customServiceConfig"
TEXT = """\
# for everybody
[DEFAULT]
debug = true
# Nova's alone
reserved_host_cpus = 2

[ml2]
mechanism_drivers = ovn,
  sriovnicswitch
[Token]
expiration = 60
"""


def part(service: str, text: str = TEXT, *known: str) -> str:
    return shared_config.part(text, service, RELEASE, known)


def judged(spec: dict[str, Any]) -> Verdict:
    subject = Subject(KIND.resource, "cloud", "openstack", OpenStackControlPlaneSpec.model_validate(spec))
    return KIND.admit(subject, None, NoObjects())  # type: ignore[misc]


class NoObjects:
    def items(self, resource: Any) -> list[Any]:
        return []


def test_a_service_gets_the_options_that_it_has_as_they_are_written() -> None:
    debug = "[DEFAULT]\ndebug = true\n"

    assert part("placement") == debug
    assert part("keystone") == debug + "[Token]\nexpiration = 60\n"
    assert part("neutron") == debug + "[ml2]\nmechanism_drivers = ovn,\n  sriovnicswitch\n"
    assert part("nova") == debug + "reserved_host_cpus = 2\n"


def test_an_option_under_a_former_name_is_one_that_the_service_has() -> None:
    assert part("nova", "[libvirt]\ncpu_model = Nehalem\n") == "[libvirt]\ncpu_model = Nehalem\n"


def test_several_values_of_an_option_keep_their_order() -> None:
    text = "[pci]\nalias = {1}\n[DEFAULT]\ndebug = true\n[pci]\nalias = {2}\n"
    assert part("nova", text) == text


def test_an_option_that_no_service_has_reaches_none_unless_it_is_declared() -> None:
    text = "[DEFAULT]\ndebgu = true\n[mine]\na = b\n"

    assert {part(service, text) for service in ALL} == {""}
    assert {part(service, text, "mine/*") for service in ALL} == {"[mine]\na = b\n"}
    assert {part("mariadb", text, "mine/*")} == {""}, "it reads no such file"


def test_nothing_is_handed_down_of_a_text_that_nobody_can_read() -> None:
    assert part("nova", "[DEFAULT]\ndebug\n") == ""


def test_comments_and_blank_lines_of_the_text_do_not_change_a_services_object() -> None:
    def children(text: str) -> list[Any]:
        spec = OpenStackControlPlaneSpec.model_validate({"customServiceConfig": text})
        return [resources.child(service, "cloud", spec) for service in SERVICES]

    assert children(TEXT) == children(TEXT.replace("\n", "\n\n").replace("ovn,\n\n", "ovn,\n") + "# end\n")
    by_name = {child["metadata"]["name"]: child["spec"] for child in children(TEXT)}
    assert by_name["placement"]["inheritedConfig"] == [
        {
            "origin": "spec.customServiceConfig of OpenStackControlPlane cloud",
            "text": "[DEFAULT]\ndebug = true\n",
            "shared": True,
        }
    ]
    assert [name for name, spec in by_name.items() if "inheritedConfig" not in spec] == [
        "mariadb",
        "rabbitmq",
        "memcached",
        "ovn",
    ]


SAID = [
    pytest.param(TEXT, {}, "warning", ["owned", "owned"], [], id="each-has-a-service-of-its-own"),
    pytest.param(
        "[DEFAULT]\ndebgu = true\n",
        {},
        "warning",
        ["unknown-option"],
        ["line 2: [DEFAULT] debgu does not exist in any service of this cloud, and reaches none (did you mean debug?)"],
        id="unknown-option",
    ),
    pytest.param(
        "[libvrt]\na = 1\nb = 1\n",
        {},
        "warning",
        ["unknown-section"],
        ["line 2: [libvrt] does not exist in any service of this cloud, and reaches none (did you mean [libvirt]?)"],
        id="unknown-section-once",
    ),
    pytest.param(
        "[DEFAULT]\ndebug = ture\n",
        {"nova": {"enabled": False}, "neutron": {"enabled": False}, "placement": {"enabled": False}},
        "error",
        ["ill-typed"],
        [
            "line 2: [DEFAULT] debug must be true or false (or yes, no, on, off, 1, 0): 'ture' (did you mean true?) "
            "[glance, keystone]"
        ],
        id="a-value-that-is-none-names-the-services",
    ),
    pytest.param(
        "[ml2]\nmechanism_drivers = ovn\n",
        {"neutron": {"enabled": False}, "nova": {"enabled": False}},
        "warning",
        ["unknown-section"],
        ["line 2: [ml2] does not exist in any service of this cloud, and reaches none"],
        id="the-one-that-has-it-is-disabled",
    ),
    pytest.param(
        "[DEFAULT]\ndebgu = true\n",
        {"configPolicy": {"unknownOptions": "Refuse"}},
        "error",
        ["unknown-option"],
        [],
        id="refused-where-asked",
    ),
    pytest.param(
        "[DEFAULT]\ndebgu = true\n", {"configPolicy": {"knownOptions": ["DEFAULT/debgu"]}}, "", [], [], id="declared"
    ),
    pytest.param(
        "debug = true\n",
        {},
        "error",
        ["unreadable"],
        ["line 1: no [section] before this option: 'debug = true'"],
        id="unreadable-is-said-once",
    ),
]


@pytest.mark.parametrize(("text", "spec", "severity", "rules", "messages"), SAID)
def test_admission_the_condition_and_lint_say_the_same(
    text: str, spec: dict[str, Any], severity: str, rules: list[str], messages: list[str], tmp_path: Path
) -> None:
    spec = {**spec, "customServiceConfig": text}
    verdict = judged(spec)
    policy = ConfigPolicy.model_validate(spec.get("configPolicy", {}))
    used = [name for name in ALL if spec.get(name, {}).get("enabled", True)]
    found = config_validity.judge_shared(text, used, RELEASE, policy, field=FIELD)
    path = tmp_path / "cloud.yaml"
    path.write_text(json.dumps({"kind": "OpenStackControlPlane", "spec": spec}))
    remarks = json.loads(lint.run([str(path)], None, None, "json", False)[0])

    assert [one.rule for one in found] == [one["rule"] for one in remarks] == rules
    assert {one.severity for one in found} <= {severity}
    said = [str(one) for one in found]
    assert said == [f"{one['field']}: line {one['textLine']}: {one['message']}" for one in remarks]
    admitted = [one for one in (*map(str, verdict.errors), *verdict.warnings) if one.startswith(FIELD)]
    assert admitted == said
    for message in messages:
        assert f"{FIELD}: {message}" in said
