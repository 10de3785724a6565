"""Pods and specs of children: what users say arrives, and privileges are the least that was found to suffice."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.kit import config, workloads
from openstack_operator.services.nova import children, resources
from openstack_operator.services.nova.api import resources as api
from openstack_operator.services.nova.api.types import NovaAPISpec
from openstack_operator.services.nova.cell import resources as cell
from openstack_operator.services.nova.cell.types import NovaCellSpec
from openstack_operator.services.nova.compute import resources as compute
from openstack_operator.services.nova.compute.types import NovaComputeSpec
from openstack_operator.services.nova.conductor import resources as conductor
from openstack_operator.services.nova.conductor.types import NovaConductorSpec
from openstack_operator.services.nova.metadata import resources as metadata
from openstack_operator.services.nova.metadata.types import NovaMetadataSpec
from openstack_operator.services.nova.novncproxy import resources as novncproxy
from openstack_operator.services.nova.novncproxy.types import NovaNoVNCProxySpec
from openstack_operator.services.nova.scheduler import resources as scheduler
from openstack_operator.services.nova.scheduler.types import NovaSchedulerSpec
from openstack_operator.services.nova.tests.test_config import CELL, PROCESS, SHARED, TOP
from openstack_operator.services.nova.types import NovaSpec

SOURCES = config.Sources("data", "secrets", "scripts", "digest")
PODS = {
    "api": api.pod("x", NovaAPISpec(**TOP), SOURCES),
    "scheduler": scheduler.pod("x", NovaSchedulerSpec(**TOP), SOURCES),
    "conductor": conductor.pod("x", NovaConductorSpec(**CELL), SOURCES),
    "metadata": metadata.pod("x", NovaMetadataSpec(**TOP, **SHARED), SOURCES),
    "novncproxy": novncproxy.pod("x", NovaNoVNCProxySpec(**CELL), SOURCES),
    "cells": resources.cells_pod("x", NovaSpec(), SOURCES),
    "upgrade check": resources.upgrade_check_pod("x", NovaSpec(), SOURCES, {"cell1": "a"}),
    "hosts": resources.hosts_pod("x", NovaSpec(), SOURCES, {"node-1": "cell1"}),
}
CELL1: dict[str, Any] = {**CELL, "cell_name": "cell1", "replicas": 3}


@pytest.mark.parametrize("name", PODS)
def test_control_pods_are_unprivileged(name: str) -> None:
    spec = workloads.template(PODS[name])["spec"]
    assert spec["securityContext"]["runAsUser"] == 42436
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        assert container["securityContext"] == dict(workloads.RESTRICTED)
    assert not spec.get("hostNetwork")
    assert spec["automountServiceAccountToken"] is False


def _security(pod: workloads.Pod) -> dict[str, Any]:
    spec = workloads.template(pod)["spec"]
    return {one["name"]: one["securityContext"] for one in (*spec["initContainers"], *spec["containers"])}


def test_nova_compute_has_the_least_that_boots_a_server() -> None:
    security = _security(compute.compute_pod("x", NovaComputeSpec(**PROCESS, virt_type="QEMU"), SOURCES))
    assert sorted(security["nova-compute"]["capabilities"]["add"]) == [
        "CHOWN",
        "DAC_OVERRIDE",
        "DAC_READ_SEARCH",
        "FOWNER",
        "NET_ADMIN",
        "SYS_ADMIN",
    ]
    assert [one.get("privileged", False) for one in security.values()] == [False, False, False]
    assert all(one["readOnlyRootFilesystem"] for one in security.values())


@pytest.mark.parametrize(("release", "makes_taps"), [("2025.1", False), ("2026.1", False), ("2026.2", True)])
def test_nova_compute_gets_the_device_for_taps_where_it_makes_them(release: Any, makes_taps: bool) -> None:
    spec = NovaComputeSpec(**PROCESS, openstack_release=release)
    pod = workloads.template(compute.compute_pod("x", spec, SOURCES))["spec"]
    mounted = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
    assert ("/dev/net/tun" in mounted) is makes_taps


@pytest.mark.parametrize(("virt_type", "is_privileged"), [("Auto", True), ("KVM", True), ("QEMU", False)])
def test_libvirt_is_privileged_only_where_the_processors_virtualisation_may_be_used(
    virt_type: Any, is_privileged: bool
) -> None:
    spec = NovaComputeSpec(**PROCESS, virt_type=virt_type)
    pod = compute.libvirt_pod("x", spec, SOURCES)
    assert _security(pod)["libvirt"].get("privileged", False) is is_privileged
    template = workloads.template(pod)["spec"]
    assert template["hostPID"] is True
    mounts = {one["mountPath"] for one in template["containers"][0]["volumeMounts"]}
    assert {"/hostcg", "/run/libvirt", "/var/lib/nova", "/usr/local/bin/qemu-system-x86_64"} <= mounts


def test_agents_run_on_nodes_with_the_label_and_in_the_nodes_network() -> None:
    for build in (compute.compute_pod, compute.libvirt_pod):
        spec = workloads.template(build("x", NovaComputeSpec(**PROCESS), SOURCES))["spec"]
        assert spec["nodeSelector"] == {"openstack.k8s.io/compute": "true"}
        assert spec["hostNetwork"] is True


def test_pods_get_more_time_than_the_process_needs_to_end() -> None:
    """Regression r19."""
    pod = compute.compute_pod("x", NovaComputeSpec(**PROCESS, shutdown_seconds=60), SOURCES)
    assert workloads.template(pod)["spec"]["terminationGracePeriodSeconds"] == 80
    pod = scheduler.pod("x", NovaSchedulerSpec(**TOP, shutdown_seconds=3), SOURCES)
    assert workloads.template(pod)["spec"]["terminationGracePeriodSeconds"] == 23


def test_another_set_of_cells_rolls_the_pods_that_have_read_them() -> None:
    """Regression f7."""

    def digest(cells: dict[str, str]) -> Any:
        pod = api.pod("x", NovaAPISpec(**TOP, registered_cells=cells), SOURCES)
        return workloads.template(pod)["metadata"]["annotations"][config.HASH]

    assert digest({"cell1": "a"}) != digest({"cell1": "a", "cell2": "b"})
    assert digest({"cell1": "a"}) != digest({"cell1": "b"})


def test_images_may_be_chosen_for_each_process() -> None:
    spec = NovaComputeSpec(**PROCESS, container_image="r/compute:1", libvirt_container_image="r/libvirt:2")
    containers = workloads.template(compute.compute_pod("x", spec, SOURCES))["spec"]
    assert containers["containers"][0]["image"] == "r/compute:1"
    assert containers["initContainers"][1]["image"] == "r/libvirt:2", "it tries the QEMU that libvirt will start"
    libvirt = workloads.template(compute.libvirt_pod("x", spec, SOURCES))["spec"]
    assert libvirt["containers"][0]["image"] == "r/libvirt:2"


def test_a_part_takes_the_novas_values_where_it_has_none() -> None:
    nova = NovaSpec.model_validate(
        {"replicas": 2, "customServiceConfig": "[a]\nb=1", "api": {"customServiceConfig": "[a]\nb=2"}}
    )
    assert resources.part("nova", nova, nova.api) == {
        "replicas": 2,
        "customServiceConfig": "[a]\nb=2",
        "inheritedConfig": [{"origin": "spec.customServiceConfig of Nova nova", "text": "[a]\nb=1"}],
    }
    nova = NovaSpec.model_validate({"replicas": 2, "scheduler": {"replicas": 0, "shutdownSeconds": 9}})
    assert resources.part("nova", nova, nova.scheduler) == {"replicas": 0, "shutdownSeconds": 9}


def test_the_specs_of_a_cells_parts_are_valid() -> None:
    spec = NovaCellSpec.model_validate(
        {
            **CELL1,
            "publicEndpoint": {"type": "NodePort", "host": "cloud.example", "nodePort": 30001},
            "computes": {"compute": {"virtType": "QEMU", "nodeSelector": {"a": "b"}}},
            "placementRef": {"name": "placement"},
            "novaRef": {"name": "nova"},
        }
    )
    found = NovaConductorSpec.model_validate(cell.conductor("cell", spec))
    assert (found.replicas, found.api_database_secret_ref) == (3, None)
    assert NovaMetadataSpec.model_validate(cell.metadata("cell", spec)).metadata_secret_ref.name == "neutron-metadata"
    proxy = NovaNoVNCProxySpec.model_validate(cell.novncproxy("cell", spec))
    assert proxy.public_endpoint is not None
    assert (proxy.public_endpoint.host, proxy.public_endpoint.node_port) == ("cloud.example", None)
    group = NovaComputeSpec.model_validate(cell.compute("cell", spec, "compute", "c", "http://h/vnc_lite.html"))
    assert (group.virt_type, group.node_selector) == ("QEMU", {"a": "b"})
    assert group.conductor_ref is not None
    assert group.conductor_ref.name == "c"


def test_names_of_children_leave_room_and_do_not_meet() -> None:
    long = "n" * 30
    pairs = [
        (long, "cell1"),
        (long, "cell2"),
        (long, "cell1-0"),
        ("nova", "cell1-0"),
        ("nova", "cell1"),
        ("nova", "cell10"),
    ]
    # A part of a cell, and a cell whose name looks like both.
    pairs += [(children.name("nova", "cell1"), "0-x"), (children.name("nova", "cell1-0"), "x"), ("nova-a", "b")]
    pairs += [("nova", "a-b"), ("nova", "cell1-0-x")]
    found = [children.name(*pair) for pair in pairs]
    assert len(set(found)) == len(pairs)
    assert max(len(name) for name in found) <= 36
