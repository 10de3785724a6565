"""The control plane that controller tests run against: it keeps its data and its address over a crash."""

from __future__ import annotations

import pytest

from openstack_operator.embedded import apiserver as apiserver_module


def test_a_namespace_made_before_a_crash_of_the_apiserver_is_there_afterwards(
    own_apiserver: apiserver_module.ControlPlane,
) -> None:
    url = own_apiserver.url
    own_apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    own_apiserver.kill("kube-apiserver")
    with pytest.raises(OSError, match="refused"):
        own_apiserver.request("GET", "/readyz")
    own_apiserver.run("kube-apiserver")
    own_apiserver.wait_ready()
    assert own_apiserver.request("GET", "/api/v1/namespaces/kept")["metadata"]["name"] == "kept"
    assert own_apiserver.url == url


def test_the_audit_log_names_a_request_as_soon_as_it_is_answered(
    apiserver: apiserver_module.ControlPlane, namespace: str
) -> None:
    before = apiserver.audit_size()
    apiserver.request("GET", f"/api/v1/namespaces/{namespace}/configmaps")
    events = apiserver.audit_events(since=before)
    ours = [e["verb"] for e in events if e["objectRef"].get("namespace") == namespace]
    assert ours == ["list"]


def test_a_refused_request_tells_its_status(apiserver: apiserver_module.ControlPlane) -> None:
    with pytest.raises(apiserver_module.RequestError) as error:
        apiserver.request("GET", "/api/v1/namespaces/absent")
    assert error.value.status == 404


def test_kubectl_applies_objects_of_any_kind(apiserver: apiserver_module.ControlPlane, namespace: str) -> None:
    apiserver.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}}, namespace=namespace
    )
    assert apiserver.kubectl("get", "-n", namespace, "configmap/c", "-o", "jsonpath={.data.k}") == "v"
