"""Which pod is the nova-compute of which host."""

from __future__ import annotations

from typing import Any

from openstack_operator.kit import kinds, labels
from openstack_operator.services.nova import host_removal


def pod(component: str, owner: str, kind: str = kinds.NOVA_COMPUTE.kind) -> dict[str, Any]:
    tags = labels.pod("nova", "nova-cell1-compute", component, kind)
    return {"metadata": {"labels": tags, "ownerReferences": [{"kind": owner}]}, "spec": {"nodeName": "rack2-7"}}


def test_a_nova_compute_is_that_of_its_node_or_of_its_own_name_where_servers_are_in_memory() -> None:
    assert host_removal.host_of(pod("compute", "DaemonSet")) == "rack2-7"
    assert host_removal.host_of(pod("compute", "ReplicaSet")) == "nova-cell1-compute"


def test_no_other_pod_is_a_nova_compute() -> None:
    waiting = pod("compute", "DaemonSet")
    del waiting["spec"]["nodeName"]
    others = [pod("libvirt", "DaemonSet"), pod("cleanup", "DaemonSet"), pod("compute", "DaemonSet", "Nova"), waiting]
    assert [host_removal.host_of(one) for one in [*others, {"metadata": {}, "spec": {}}]] == [""] * 5
