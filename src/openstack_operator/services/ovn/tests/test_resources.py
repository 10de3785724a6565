"""Pods and objects of an OVN network: spec fields reach their targets, and nobody has a privilege too many."""

from __future__ import annotations

from typing import Any

from openstack_operator.services.ovn import config, controller, resources, southbound
from openstack_operator.services.ovn.types import ExternalBridge, OVNNetworkSpec, Southbound

SPEC = OVNNetworkSpec()
SB = "tcp:10.96.0.2:6642"
COMPUTE = {"key": "openstack.k8s.io/compute", "operator": "In", "values": ["true"]}
NETWORK = {"key": "openstack.k8s.io/network", "operator": "In", "values": ["true"]}


def _template(body: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = body["spec"]["template"]["spec"]
    return spec


def _terms(body: dict[str, Any]) -> list[list[dict[str, Any]]]:
    required = _template(body)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [term["matchExpressions"] for term in required["nodeSelectorTerms"]]


def _environment(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def _all_workloads(spec: OVNNetworkSpec) -> list[dict[str, Any]]:
    return [
        resources.database("ovn", spec, "nb"),
        resources.database("ovn", spec, "sb"),
        resources.switch("ovn", spec, True),
        *resources.controllers("ovn", spec, SB, True).values(),
    ]


def _node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {f"openstack.k8s.io/{key}": value for key, value in labels.items()}}}


def test_connection_strings_list_every_member_and_bracket_ipv6() -> None:
    assert config.connection(["10.96.0.1", "fd00::1"], 6641) == "tcp:10.96.0.1:6641,tcp:[fd00::1]:6641"


def test_a_members_service_selects_that_pod_alone_and_only_when_it_is_ready() -> None:
    body = resources.member("ovn", SPEC, "sb", 0)
    assert body["metadata"]["name"] == "ovn-sb-0"
    assert body["spec"]["selector"] == {
        "app.kubernetes.io/name": "ovn",
        "app.kubernetes.io/instance": "ovn",
        "app.kubernetes.io/component": "sb",
        "statefulset.kubernetes.io/pod-name": "ovn-sb-0",
    }
    assert body["spec"]["ports"] == [{"name": "clients", "port": 6642, "targetPort": 6642, "protocol": "TCP"}]
    # ovn-controller crashes on a database whose first row is not written yet.
    assert "publishNotReadyAddresses" not in body["spec"]


def test_members_find_each_other_before_they_are_ready() -> None:
    body = resources.members("ovn", SPEC, "nb")
    assert body["metadata"]["name"] == "ovn-nb"
    assert body["spec"]["clusterIP"] == "None"
    assert body["spec"]["publishNotReadyAddresses"] is True
    assert resources.database("ovn", SPEC, "nb")["spec"]["serviceName"] == "ovn-nb"


def test_fields_of_a_database_reach_its_stateful_set() -> None:
    own = Southbound(replicas=0, storage_size="3Gi", storage_class="fast", storage_retention="Retain")
    body = resources.database("ovn", OVNNetworkSpec(southbound=own), "sb")
    claim = body["spec"]["volumeClaimTemplates"][0]["spec"]
    assert body["spec"]["replicas"] == 0
    assert claim["resources"] == {"requests": {"storage": "3Gi"}}
    assert claim["storageClassName"] == "fast"
    assert body["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    assert resources.database("ovn", OVNNetworkSpec(southbound=own), "nb")["spec"]["replicas"] == 1


def test_databases_and_northd_run_without_root_and_without_capabilities() -> None:
    pods = [_template(resources.database("ovn", SPEC, which)) for which in ("nb", "sb")]
    for pod in pods:
        assert pod["securityContext"]["runAsUser"] == resources.UID
        for container in pod["containers"]:
            assert container["securityContext"]["runAsNonRoot"] is True
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert resources.northd_pod("ovn", SPEC, "tcp:a", SB).user == resources.UID


def test_only_the_switch_has_capabilities_and_nothing_is_privileged() -> None:
    added = {}
    for body in _all_workloads(SPEC):
        for container in _template(body)["containers"]:
            security = container["securityContext"]
            assert not security.get("privileged")
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"]["drop"] == ["ALL"]
            added[container["name"]] = security["capabilities"].get("add", [])
    assert added.pop("ovs-vswitchd") == ["NET_ADMIN", "NET_RAW"]
    assert set(map(tuple, added.values())) == {()}


def test_the_switch_is_replaced_by_hand_and_the_controllers_by_themselves() -> None:
    assert resources.switch("ovn", SPEC, True)["spec"]["updateStrategy"] == {"type": "OnDelete"}
    for body in resources.controllers("ovn", SPEC, SB, True).values():
        assert body["spec"]["updateStrategy"]["type"] == "RollingUpdate"


def test_datapath_and_external_bridge_reach_the_switch() -> None:
    spec = OVNNetworkSpec(datapath="Kernel", external_bridge=ExternalBridge(name="br-out", address="192.0.2.1/24"))
    containers = {one["name"]: one for one in _template(resources.switch("ovn", spec, True))["containers"]}
    assert _environment(containers["ovs-vswitchd"]) == {
        "DATAPATH": "Kernel",
        "EXTERNAL_BRIDGE": "br-out",
        "EXTERNAL_ADDRESS": "192.0.2.1/24",
    }


def test_bridge_mappings_and_the_connection_reach_the_controllers() -> None:
    spec = OVNNetworkSpec(bridge_mappings={"two": "br-two", "one": "br-one"})
    bodies = resources.controllers("ovn", spec, SB, True)
    seen = {name: _environment(_template(body)["containers"][0]) for name, body in bodies.items()}
    both = {"OVN_SB": SB, "BRIDGE_MAPPINGS": "one:br-one,two:br-two"}
    assert seen == {"ovn-gateway": both | {"GATEWAY": "true"}, "ovn-controller": both | {"GATEWAY": "false"}}


def test_tolerations_reach_every_daemon_set() -> None:
    taint = {"key": "guests", "operator": "Exists"}
    spec = OVNNetworkSpec(tolerations=(taint,))
    bodies = [resources.switch("ovn", spec, True), *resources.controllers("ovn", spec, SB, True).values()]
    assert [_template(body)["tolerations"] for body in bodies] == [[taint]] * 3


def test_labelled_gateways_get_the_switch_too_and_other_chassis_are_no_gateways() -> None:
    bodies = resources.controllers("ovn", SPEC, SB, True)
    assert _terms(resources.switch("ovn", SPEC, True)) == [[COMPUTE], [NETWORK]]
    assert _terms(bodies["ovn-gateway"]) == [[NETWORK]]
    assert _terms(bodies["ovn-controller"]) == [[COMPUTE, NETWORK | {"operator": "NotIn"}]]


def test_every_chassis_is_a_gateway_when_no_node_is_labelled() -> None:
    bodies = resources.controllers("ovn", SPEC, SB, False)
    assert list(bodies) == ["ovn-gateway"]
    assert _terms(bodies["ovn-gateway"]) == [[COMPUTE]]


def test_an_empty_selector_means_every_node() -> None:
    spec = OVNNetworkSpec(node_selector={}, gateway_node_selector={})
    assert "affinity" not in _template(resources.switch("ovn", spec, False))


def test_gateways_are_found_by_their_labels() -> None:
    assert resources.has_gateway_nodes(SPEC, [_node("a"), _node("b", network="true")])
    assert not resources.has_gateway_nodes(SPEC, [_node("a", compute="true"), _node("b", network="false")])
    assert not resources.has_gateway_nodes(OVNNetworkSpec(gateway_node_selector={}), [_node("a", network="true")])


def test_a_change_of_one_setting_leaves_all_other_pods_alone() -> None:
    changed = OVNNetworkSpec(bridge_mappings={"physnet1": "br-new"})
    assert resources.switch("ovn", SPEC, True) == resources.switch("ovn", changed, True)
    assert resources.database("ovn", SPEC, "nb") == resources.database("ovn", changed, "nb")


def test_the_operator_reads_how_a_chassis_registered() -> None:
    row = {
        "hostname": "node1",
        "other_config": ["map", [["datapath-type", "netdev"], ["ovn-cms-options", "enable-chassis-as-gw,x"]]],
    }
    assert southbound.parse(row) == southbound.Chassis("node1", is_userspace=True, is_gateway=True)


def test_status_sums_up_the_chassis_of_present_nodes() -> None:
    userspace = southbound.Chassis("node1", is_userspace=True, is_gateway=True)
    kernel = southbound.Chassis("node2", is_userspace=False, is_gateway=False)
    gone = southbound.Chassis("gone", is_userspace=False, is_gateway=True)
    assert controller.summary([userspace, gone], {"node1"}) == {"chassis": 1, "gateways": 1, "datapath": "Userspace"}
    assert controller.summary([userspace, kernel], {"node1", "node2"})["datapath"] == "Mixed"
    assert controller.summary([], {"node1"}) == {"chassis": 0, "gateways": 0}


def test_switches_that_wait_for_a_person_are_told() -> None:
    assert controller.outdated({"status": {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3}}) is None
    told = controller.outdated({"status": {"desiredNumberScheduled": 3, "updatedNumberScheduled": 1}})
    assert told is not None
    assert told.startswith("2 of 3 switches run as before the last change")
