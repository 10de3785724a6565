"""The control plane's pure parts: children, mirrored state, the client's login."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import yaml

from openstack_operator.controlplane import controller, resources
from openstack_operator.controlplane.types import OpenStackControlPlaneSpec, Phase
from openstack_operator.kit import workloads
from openstack_operator.runtime import errors
from openstack_operator.services import SERVICES


def test_conditions_follow_the_list_of_services() -> None:
    names = [step.condition for step in controller.CONTROLLER.steps]
    mirrored = [controller.condition(service) for service in SERVICES]
    assert names == ["Accepted", "ConfigValid", *mirrored, "NetworkPoliciesReady", "ClientReady"]


def test_services_wait_for_no_other_because_each_knows_what_it_needs() -> None:
    needs = {step.condition: step.needs for step in controller.CONTROLLER.steps}
    for service in SERVICES:
        text = ("ConfigValid",) if service.files else ()
        assert needs[controller.condition(service)] == ("Accepted", *text), "text for all services reaches some"


def test_every_phase_is_one_that_the_schema_knows() -> None:
    assert set(controller.PHASES.values()) <= set(get_args(Phase))
    assert set(controller.PHASES) <= {service.name for service in SERVICES}


@pytest.mark.parametrize("password", ["plain", "$%@/#+\"':-", "- x", "yes", "ä", "'", "a: b"])
def test_the_clients_login_keeps_any_password(password: str) -> None:
    text = resources.client_secret("http://keystone-api.x.svc:5000/v3", password, "R")["clouds.yaml"]
    assert yaml.safe_load(text)["clouds"]["openstack"] == {
        "auth": {
            "auth_url": "http://keystone-api.x.svc:5000/v3",
            "username": "admin",
            "password": password,
            "project_name": "admin",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        },
        "region_name": "R",
        "identity_api_version": 3,
        "interface": "internal",
    }


def test_the_client_pod_is_restricted_and_reads_its_login_from_a_secret() -> None:
    spec = workloads.template(resources.client_pod("cloud", OpenStackControlPlaneSpec()))["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"] == dict(workloads.RESTRICTED)
    assert spec["securityContext"]["runAsUser"] == resources.CLIENT_UID
    (login,) = [volume for volume in spec["volumes"] if volume["name"] == "clouds"]
    assert login["secret"] == {"secretName": "openstackclient", "defaultMode": 0o440}


# --- mirrored state -------------------------------------------------------------------------------------------------


def child(*conditions: tuple[str, str, str, str], generation: int = 1, observed: int = 1) -> dict[str, Any]:
    return {
        "kind": "Keystone",
        "metadata": {"name": "keystone", "namespace": "ns", "generation": generation},
        "status": {
            "conditions": [
                {"type": name, "status": status, "reason": reason, "message": message, "observedGeneration": observed}
                for name, status, reason, message in conditions
            ]
        },
    }


def test_a_ready_child_is_not_waited_for() -> None:
    controller.mirror(child(("Ready", "True", "Ready", "")))


@pytest.mark.parametrize(
    ("item", "error", "reason", "message"),
    [
        (child(), errors.Waiting, "Reconciling", "Keystone ns/keystone is not reconciled yet"),
        (
            child(("Ready", "True", "Ready", ""), generation=2),
            errors.Waiting,
            "Reconciling",
            "Keystone ns/keystone is not reconciled yet",
        ),
        (
            child(("Ready", "False", "RollingOut", "DeploymentReady: why"), ("Stalled", "False", "RollingOut", "")),
            errors.Waiting,
            "RollingOut",
            "Keystone ns/keystone: DeploymentReady: why",
        ),
        (
            child(("Ready", "False", "SecretMissing", "why"), ("Stalled", "True", "SecretMissing", "why")),
            errors.Stalled,
            "SecretMissing",
            "Keystone ns/keystone: why",
        ),
    ],
)
def test_an_unmet_child_gives_its_reason_and_message_to_the_top(
    item: dict[str, Any], error: type[errors.StepError], reason: str, message: str
) -> None:
    with pytest.raises(error) as raised:
        controller.mirror(item)
    assert (raised.value.reason, raised.value.message) == (reason, message)
