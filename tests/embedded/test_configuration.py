"""Configuration files and command lines as the programs get them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml

from openstack_operator.embedded import commandlines, configuration

STATE, RUN, PROGRAMS = Path("/state"), Path("/run/x"), Path("/programs")


@pytest.mark.parametrize("may_raise", [True, False])
def test_containerd_leaves_the_out_of_memory_score_alone_without_the_capability(may_raise: bool) -> None:
    text = configuration.containerd(
        programs=PROGRAMS, state=STATE, run=RUN, cni=STATE / "cni.d", may_raise_priority=may_raise
    )
    runtime = tomllib.loads(text)["plugins"]["io.containerd.cri.v1.runtime"]
    assert runtime["restrict_oom_score_adj"] is not may_raise
    cni = {"bin_dirs": ["/programs/cni"], "conf_dir": "/state/cni.d", "use_internal_loopback": True}
    assert runtime["cni"] == cni
    assert runtime["stats_collect_period"] == "10m"


def test_containerd_keeps_its_files_in_our_directories() -> None:
    text = configuration.containerd(
        programs=PROGRAMS, state=STATE, run=RUN, cni=STATE / "cni.d", may_raise_priority=True
    )
    parsed = tomllib.loads(text)
    assert (parsed["root"], parsed["state"]) == ("/state/containerd", "/run/x/containerd")


def test_the_kubelet_never_collects_images_since_no_registry_gives_them_back() -> None:
    kubelet = json.loads(configuration.kubelet(pki=STATE / "pki", state=STATE, run=RUN))
    assert kubelet["imageGCHighThresholdPercent"] == 100
    assert kubelet["resolvConf"] == "/state/resolv.conf"


def test_a_pod_does_not_wait_for_a_watch_of_its_configuration() -> None:
    kubelet = json.loads(configuration.kubelet(pki=STATE / "pki", state=STATE, run=RUN))
    assert kubelet["configMapAndSecretChangeDetectionStrategy"] == "Get"


def test_ports_of_nodes_answer_on_the_clusters_bridge_only() -> None:
    assert json.loads(configuration.kube_proxy(STATE))["nodePortAddresses"] == ["10.89.0.0/24"]


def test_the_add_ons_are_valid_yaml_with_every_placeholder_filled() -> None:
    objects = [o for o in yaml.safe_load_all(configuration.manifests()) if o]
    kinds = sorted(o["kind"] for o in objects)
    assert kinds.count("StorageClass") == 1
    service = next(o for o in objects if o["kind"] == "Service")
    assert service["spec"]["clusterIP"] == "10.96.0.10"
    agent = next(o for o in objects if o["kind"] == "DaemonSet")
    # A name that no node can have: with pods of its own it would make its rules anew, and lose what waits in them.
    assert "--hostname-override=-" in agent["spec"]["template"]["spec"]["containers"][0]["args"]


def test_every_image_of_the_cluster_itself_is_local() -> None:
    text = configuration.manifests()
    images = [line.split("image:")[1].strip() for line in text.splitlines() if " image:" in line]
    assert images
    assert all(image.startswith("localhost/") for image in images)


def test_nobody_listens_beyond_the_machines_own_addresses() -> None:
    cluster = commandlines.Cluster(
        programs=PROGRAMS, pki=STATE, etcd_data=STATE, etcd_port=1, etcd_peer_port=2, address="10.89.0.1", port=6443,
        services="10.96.0.0/16", audit_policy=STATE, audit_log=STATE,
    )  # fmt: skip
    lines = [
        *commandlines.etcd(cluster),
        *commandlines.kube_apiserver(cluster),
        *commandlines.kube_controller_manager(cluster),
        *commandlines.kube_scheduler(cluster),
    ]
    listening = [line for line in lines if "--bind-address" in line or "--listen-" in line]
    assert listening
    assert all("127.0.0.1" in line or "10.89.0.1" in line for line in listening)
