"""The embedded cluster's own pods, judged by a real API server."""

from __future__ import annotations

import json

import pytest
import yaml

from openstack_operator.embedded import configuration
from openstack_operator.embedded.apiserver import ApiserverError, ControlPlane

STANDARD = "pod-security.kubernetes.io/enforce"


@pytest.mark.parametrize(
    ("name", "refusals"),
    [
        ("coredns", set()),
        # It takes packets from a queue of the node: in the node's own network, as root with one capability.
        (
            "kube-network-policies",
            {"host namespaces", "unrestricted capabilities", "runAsNonRoot != true", "seccompProfile"},
        ),
    ],
)
def test_add_ons_fulfil_the_standard_restricted_but_for_what_an_agent_of_a_node_needs(
    apiserver: ControlPlane, namespace: str, name: str, refusals: set[str]
) -> None:
    apiserver.kubectl("label", "namespace", namespace, f"{STANDARD}=restricted")
    found = (one for one in yaml.safe_load_all(configuration.manifests()) if one["metadata"]["name"] == name)
    template = next(one for one in found if one["kind"] in ("Deployment", "DaemonSet"))["spec"]["template"]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    apiserver.apply(account, namespace=namespace)
    pod = {**template, "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {**template["metadata"], "name": "tried", "namespace": namespace}
    try:
        apiserver.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
        said = ""
    except ApiserverError as problem:
        said = str(problem)
        assert 'violates PodSecurity "restricted:latest"' in said
    assert {why for why in WHYS if why in said} == refusals
    assert bool(said) == bool(refusals), said


WHYS = (
    "host namespaces",
    "unrestricted capabilities",
    "runAsNonRoot != true",
    "allowPrivilegeEscalation != false",
    "seccompProfile",
    "forbidden sysctls",
    "privileged",
)
