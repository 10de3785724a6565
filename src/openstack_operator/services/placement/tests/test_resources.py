"""The pods of a Placement."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openstack_operator.kit import config, workloads
from openstack_operator.kit.types import Resources
from openstack_operator.services.placement import resources
from openstack_operator.services.placement.types import PlacementSpec

SOURCES = config.Sources("placement-config-data", "placement-config-secrets", "placement-scripts", "d1")


def deployment(spec: PlacementSpec) -> dict[str, Any]:
    return workloads.deployment(resources.api_pod("placement", spec, SOURCES), "placement-api", spec.replicas)


def test_the_pod_reads_the_merged_file_and_runs_with_no_rights() -> None:
    pod = deployment(PlacementSpec())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}

    assert environment["OS_PLACEMENT_CONFIG_DIR"] == config.MERGED
    assert container["ports"] == [{"name": "api", "containerPort": 8778, "protocol": "TCP"}]
    assert container["readinessProbe"]["httpGet"]["path"] == "/"
    assert container["securityContext"] == workloads.RESTRICTED
    assert pod["securityContext"]["runAsUser"] == 42482
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("changes", "path", "expected"),
    [
        ({"replicas": 0}, ("spec", "replicas"), 0),
        ({"node_selector": {"a": "b"}}, ("spec", "template", "spec", "nodeSelector"), {"a": "b"}),
        ({"tolerations": ({"key": "k"},)}, ("spec", "template", "spec", "tolerations"), [{"key": "k"}]),
        (
            {"container_image": "registry.example/placement:1"},
            ("spec", "template", "spec", "containers", 0, "image"),
            "registry.example/placement:1",
        ),
        (
            {"images": {"overrides": {"placement-api": "registry.example/x:2"}}},
            ("spec", "template", "spec", "containers", 0, "image"),
            "registry.example/x:2",
        ),
        (
            {"resources": Resources.model_validate({"requests": {"cpu": 2}})},
            ("spec", "template", "spec", "containers", 0, "resources", "requests", "cpu"),
            "2",
        ),
    ],
)
def test_a_field_reaches_the_deployment(changes: dict[str, Any], path: tuple[Any, ...], expected: Any) -> None:
    def at(body: Any) -> Any:
        for part in path:
            body = body.get(part) if isinstance(body, dict) else body[part]
        return body

    assert at(deployment(PlacementSpec(**changes))) == expected
    assert at(deployment(PlacementSpec())) != expected, "the test changes nothing"


def test_one_job_makes_the_schema_and_moves_old_data() -> None:
    template = workloads.template(resources.db_sync_pod("placement", PlacementSpec(), SOURCES))
    (container,) = template["spec"]["containers"]
    program, plan, conf, section = container["command"][-4:]

    assert program == "placement.cmd.manage:main"
    assert [command["argv"][-2:] for command in json.loads(plan)] == [
        ["db", "sync"],
        ["db", "online_data_migrations"],
    ]
    assert (conf, section) == ("/var/lib/config-data/merged/placement.conf", "placement_database")
