"""Pods of a Neutron: every field of the spec reaches its target, and only the agent is privileged."""

from __future__ import annotations

from typing import Any

from openstack_operator.kit import config, workloads
from openstack_operator.kit.types import Images
from openstack_operator.services.neutron import controller, resources
from openstack_operator.services.neutron.types import NeutronAgent, NeutronSpec, RPCServer

SPEC = NeutronSpec()
SOURCES = config.Sources("data", "secrets", "scripts", "digest", "/etc/neutron")


def _spec(pod: workloads.Pod) -> dict[str, Any]:
    body: dict[str, Any] = workloads.template(pod)["spec"]
    return body


def _pods(spec: NeutronSpec) -> dict[str, workloads.Pod]:
    daemons = {name: pod for name, (pod, _) in resources.workers("neutron", spec, SOURCES).items()}
    return {
        "neutron-api": resources.api_pod("neutron", spec, SOURCES),
        "neutron-db-sync": resources.db_sync_pod("neutron", spec, SOURCES),
        **daemons,
        "neutron-ovn-agent": resources.agent_pod("neutron", spec, SOURCES),
    }


def test_all_but_the_agent_run_without_root_and_without_capabilities() -> None:
    for name, pod in _pods(SPEC).items():
        if name == "neutron-ovn-agent":
            continue
        body = _spec(pod)
        assert body["securityContext"]["runAsUser"] == resources.UID, name
        for container in (*body["initContainers"], *body["containers"]):
            assert container["securityContext"] == workloads.RESTRICTED, name


def test_the_agent_sees_the_nodes_network_namespaces_and_its_own_state_only() -> None:
    body = _spec(resources.agent_pod("neutron", SPEC, SOURCES))
    paths = [volume["hostPath"]["path"] for volume in body["volumes"] if "hostPath" in volume]
    container = body["containers"][0]
    assert paths == ["/run/netns", "/var/lib/openstack/neutron"]
    assert body["hostNetwork"] is True
    assert "hostPID" not in body
    assert container["securityContext"]["privileged"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"name": "netns", "mountPath": "/run/netns", "mountPropagation": "Bidirectional"} in container[
        "volumeMounts"
    ]


def test_the_agent_is_named_after_its_node() -> None:
    container = _spec(resources.agent_pod("neutron", SPEC, SOURCES))["containers"][0]
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}
    assert {"name": "OS_DEFAULT__HOST", "valueFrom": field} in container["env"]


def test_fields_of_the_agent_reach_its_pod() -> None:
    taint = {"operator": "Exists"}
    spec = NeutronSpec(
        agent=NeutronAgent(node_selector={"a": "b"}, tolerations=(taint,), container_image="registry.example/agent:1")
    )
    body = _spec(resources.agent_pod("neutron", spec, SOURCES))
    assert body["nodeSelector"] == {"a": "b"}
    assert body["tolerations"] == [taint]
    assert body["containers"][0]["image"] == "registry.example/agent:1"


def test_replicas_reach_api_and_rpc_server_and_zero_stops_everything() -> None:
    """Regression r33."""
    spec = NeutronSpec(replicas=3, rpc_server=RPCServer(replicas=2))
    assert {name: count for name, (_, count) in resources.workers("neutron", spec, SOURCES).items()} == {
        "neutron-rpc-server": 2,
        "neutron-periodic-workers": 1,
        "neutron-ovn-maintenance-worker": 1,
    }
    stopped = resources.workers("neutron", NeutronSpec(replicas=0), SOURCES)
    assert {count for _, count in stopped.values()} == {0}


def test_images_follow_the_spec() -> None:
    spec = NeutronSpec(images=Images(registry="r.example", prefix="p", tag="t"))
    assert {name: pod.image for name, pod in _pods(spec).items()} == {
        "neutron-api": "r.example/p/neutron-server:t",
        "neutron-db-sync": "r.example/p/neutron-server:t",
        "neutron-rpc-server": "r.example/p/neutron-server:t",
        "neutron-periodic-workers": "r.example/p/neutron-server:t",
        "neutron-ovn-maintenance-worker": "r.example/p/neutron-server:t",
        "neutron-ovn-agent": "r.example/p/neutron-ovn-agent:t",
    }
    own = NeutronSpec(container_image="x:1", rpc_server=RPCServer(container_image="y:2"))
    assert _pods(own)["neutron-api"].image == "x:1"
    assert _pods(own)["neutron-periodic-workers"].image == "x:1"
    assert _pods(own)["neutron-rpc-server"].image == "y:2"


def test_node_selector_of_the_service_reaches_every_pod_but_the_agent() -> None:
    pods = _pods(NeutronSpec(node_selector={"zone": "a"}))
    selected = {name for name, pod in pods.items() if _spec(pod).get("nodeSelector") == {"zone": "a"}}
    # The RPC server has settings of its own.
    assert selected == set(pods) - {"neutron-ovn-agent", "neutron-rpc-server"}


def test_uwsgi_tells_neutron_when_it_started() -> None:
    assert "\nstart-time = %t\n" in resources.uwsgi()


def test_the_metadata_host_is_a_service_of_the_namespace_unless_it_has_dots() -> None:
    assert resources.metadata_host(SPEC, "cloud") == "nova-metadata.cloud.svc"
    assert resources.metadata_host(NeutronSpec(nova_metadata_host="meta.example"), "cloud") == "meta.example"


def test_the_catalogue_entry_is_the_network_service() -> None:
    entry = controller.API.endpoint("http://internal:9696", "http://public:9696")
    assert (entry.name, entry.type, entry.internal, entry.public) == (
        "neutron",
        "network",
        "http://internal:9696",
        "http://public:9696",
    )
