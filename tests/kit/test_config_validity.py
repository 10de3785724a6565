"""Which texts of a spec are checked, by which policy, and what stands in front of a controller's steps."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.controlplane import resources
from openstack_operator.controlplane.types import OpenStackControlPlaneSpec
from openstack_operator.kit import config_validity
from openstack_operator.services import SERVICES

BY_NAME = {service.name: service for service in SERVICES}
NOVA = BY_NAME["nova"]
UNKNOWN = "[libvirt]\ncpu_modell = x\n"


def said(spec: dict[str, Any], service: str = "nova") -> list[tuple[str, str, str]]:
    one = BY_NAME[service]
    kind = one.kinds[0]
    return [(f.severity, f.rule, f.field) for f in one.findings(kind, kind.spec.model_validate(spec))]


def test_every_text_of_a_spec_is_checked_with_its_field() -> None:
    spec = {
        "customServiceConfig": UNKNOWN,
        "api": {"customServiceConfig": UNKNOWN},
        "cellTemplates": {"cell1": {"conductor": {"customServiceConfig": UNKNOWN}}, "cell2": {}},
    }
    spec["cellTemplates"]["cell2"] = {"computes": {"gpu": {"nodeSelector": {"a": "b"}, "customServiceConfig": UNKNOWN}}}  # type: ignore[index]

    assert [field for _, _, field in said(spec)] == [
        "spec.customServiceConfig",
        "spec.api.customServiceConfig",
        "spec.cellTemplates.cell1.conductor.customServiceConfig",
        "spec.cellTemplates.cell2.computes.gpu.customServiceConfig",
    ]


def test_the_nearest_policy_above_a_text_holds() -> None:
    spec = {
        "configPolicy": {"unknownOptions": "Refuse"},
        "customServiceConfig": UNKNOWN,
        "api": {"customServiceConfig": UNKNOWN, "configPolicy": {"knownOptions": ["libvirt/cpu_modell"]}},
        "scheduler": {"customServiceConfig": UNKNOWN, "configPolicy": {}},
    }

    assert said(spec) == [
        ("error", "unknown-option", "spec.customServiceConfig"),
        ("warning", "unknown-option", "spec.scheduler.customServiceConfig"),
    ]


@pytest.mark.parametrize("service", [service for service in SERVICES if service.files], ids=lambda one: one.name)
def test_a_control_planes_policy_reaches_every_service_that_has_none_of_its_own(service: Any) -> None:
    cloud = OpenStackControlPlaneSpec.model_validate({"configPolicy": {"unknownOptions": "Refuse"}})
    own = OpenStackControlPlaneSpec.model_validate(
        {"configPolicy": {"unknownOptions": "Refuse"}, service.name: {"configPolicy": {"unknownOptions": "Warn"}}}
    )

    assert resources.child(service, "cloud", cloud)["spec"]["configPolicy"]["unknownOptions"] == "Refuse"
    assert resources.child(service, "cloud", own)["spec"]["configPolicy"]["unknownOptions"] == "Warn"


def test_what_the_operator_sets_is_called_out_by_the_file_that_a_text_goes_to() -> None:
    text = "[ovn]\novn_sb_connection = tcp:1.2.3.4:6642\n"
    transport = "[DEFAULT]\ntransport_url = rabbit://x\n"
    found = said({"customServiceConfig": text + transport, "agent": {"customServiceConfig": text}}, "neutron")

    assert found == [
        ("warning", "owned", "spec.customServiceConfig"),
        ("warning", "owned", "spec.customServiceConfig"),
        ("warning", "owned", "spec.agent.customServiceConfig"),
    ]


@pytest.mark.parametrize(
    "controller",
    [controller for service in SERVICES if service.files for controller in service.controllers],
    ids=lambda one: one.kind.resource.kind,
)
def test_nothing_is_configured_before_the_check(controller: Any) -> None:
    first, *others = controller.steps
    assert (first.condition, first.needs) == (config_validity.CONDITION, ())
    configured = [step for step in others if step.condition.endswith("ConfigReady")]
    for step in configured:
        assert step.needs is None or config_validity.CONDITION in step.needs
    assert configured or controller.kind.resource.kind == "NovaCell", "a cell passes its text on"
