"""The pods of a Glance, its volume and its server."""

from __future__ import annotations

import configparser
import json
from typing import Any

import pytest

from openstack_operator.kit import config, workloads, wsgi
from openstack_operator.kit.types import Ref, Resources
from openstack_operator.services.glance import resources
from openstack_operator.services.glance.types import GlanceSpec

SOURCES = config.Sources("glance-config-data", "glance-config-secrets", "glance-scripts", "d1", "/etc/glance")


def deployment(spec: GlanceSpec) -> dict[str, Any]:
    return workloads.deployment(resources.api_pod("glance", spec, SOURCES), "glance-api", spec.replicas)


def test_the_pod_serves_from_its_volume_and_nothing_else_is_writable() -> None:
    body = deployment(GlanceSpec())
    (container,) = body["spec"]["template"]["spec"]["containers"]

    assert {mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]} == {
        "/usr/local/bin/container-scripts": True,
        "/var/lib/config-data/merged": True,
        "/tmp": False,
        "/var/lib/glance": False,
    }
    assert container["securityContext"] == workloads.RESTRICTED
    pod = body["spec"]["template"]["spec"]
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (42415, 42415)
    assert pod["terminationGracePeriodSeconds"] == 120


def test_a_new_pod_has_the_volume_beside_the_old_one_on_its_node() -> None:
    body = deployment(GlanceSpec())
    pod = body["spec"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if "persistentVolumeClaim" in one]

    assert volume == {"name": "images", "persistentVolumeClaim": {"claimName": "images-glance-api-0"}}
    assert body["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= body["spec"]["template"]["metadata"]["labels"].items()


def test_the_api_finds_its_file_and_the_paste_file_of_the_image_beside_it() -> None:
    """Regression r89."""
    pod = deployment(GlanceSpec())["spec"]["template"]["spec"]
    environment = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}

    assert environment["OS_GLANCE_CONFIG_DIR"] == config.MERGED
    assert pod["initContainers"][0]["env"] == [{"name": "DEFAULTS", "value": "/etc/glance"}]


@pytest.mark.parametrize(
    ("changes", "path", "expected"),
    [
        ({"replicas": 0}, ("spec", "replicas"), 0),
        ({"node_selector": {"a": "b"}}, ("spec", "template", "spec", "nodeSelector"), {"a": "b"}),
        ({"tolerations": ({"key": "k"},)}, ("spec", "template", "spec", "tolerations"), [{"key": "k"}]),
        (
            {"topology_spread_constraints": ({"maxSkew": 1},)},
            ("spec", "template", "spec", "topologySpreadConstraints"),
            [{"maxSkew": 1}],
        ),
        (
            {"container_image": "registry.example/glance:1"},
            ("spec", "template", "spec", "containers", 0, "image"),
            "registry.example/glance:1",
        ),
        (
            {"images": {"registry": "registry.example", "tag": "t"}},
            ("spec", "template", "spec", "containers", 0, "image"),
            "registry.example/openstack.kolla/glance-api:t",
        ),
        (
            {"resources": Resources.model_validate({"limits": {"memory": "1Gi"}})},
            ("spec", "template", "spec", "containers", 0, "resources", "limits"),
            {"memory": "1Gi"},
        ),
    ],
)
def test_a_field_reaches_the_deployment(changes: dict[str, Any], path: tuple[Any, ...], expected: Any) -> None:
    def at(body: Any) -> Any:
        for part in path:
            body = body.get(part) if isinstance(body, dict) else body[part]
        return body

    assert at(deployment(GlanceSpec(**changes))) == expected
    assert at(deployment(GlanceSpec())) != expected, "the test changes nothing"


def test_one_job_makes_the_schema_and_the_metadata_definitions() -> None:
    template = workloads.template(resources.db_sync_pod("glance", GlanceSpec(), SOURCES))
    (container,) = template["spec"]["containers"]
    *start, program, plan, conf, section = container["command"]

    assert start == ["python3", "/usr/local/bin/container-scripts/commands.py"]
    assert program == "glance.cmd.manage:main"
    assert [command["argv"][-1] for command in json.loads(plan)] == ["db_sync", "db_load_metadefs"]
    assert (conf, section) == ("/var/lib/config-data/merged/glance-api.conf", "database")
    assert container["securityContext"] == workloads.RESTRICTED


def test_the_server_takes_large_chunks_and_lets_transfers_finish_within_the_grace_period() -> None:
    """Regression r4."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(resources.uwsgi())
    server = parser["uwsgi"]

    # A chunk and its line end must fit; snapshots by Nova come in chunks of 1 MiB, which is the default limit itself.
    assert int(server["chunked-input-limit"]) > 2**20 + 2
    assert server["hook-master-start"] == "unix_signal:15 gracefully_kill_them_all"
    assert int(server["worker-reload-mercy"]) < resources.GRACE_SECONDS
    assert int(server["threads"]) == wsgi.THREADS


def test_references_default_to_the_objects_of_a_control_plane() -> None:
    spec = GlanceSpec()

    assert (spec.keystone_ref, spec.database_ref, spec.memcached_ref) == (
        Ref(name="keystone"),
        Ref(name="mariadb"),
        Ref(name="memcached"),
    )
