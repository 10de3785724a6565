"""What the API server refuses by the generated schemas, and the message that people read."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from openstack_operator.embedded.apiserver import ControlPlane, RequestError
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds


class User:
    """Somebody with a namespace, and no operator that answers."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._namespace = f"user-{uuid.uuid4().hex[:8]}"
        self.request("POST", kinds.NAMESPACE.path(), {"metadata": {"name": self._namespace}})

    def request(self, verb: str, path: str, body: Any = None) -> Any:
        return self._cluster.request(verb, path, body)

    def create(
        self, resource: kinds.Resource, name: str, spec: dict[str, Any], validation: str = "Strict"
    ) -> dict[str, Any]:
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": self._namespace},
            "spec": spec,
        }
        answer: dict[str, Any] = self.request(
            "POST", f"{resource.path(self._namespace)}?fieldValidation={validation}", body
        )
        return answer

    def path(self, resource: kinds.Resource, name: str | None = None) -> str:
        return resource.path(self._namespace, name)

    def is_refused(self, resource: kinds.Resource, spec: dict[str, Any], name: str = "one") -> str:
        """The message of the refusal."""
        with pytest.raises(RequestError) as raised:
            self.create(resource, name, spec)
        assert raised.value.status in (400, 422)
        # Only the beginning of a long answer is in the error's text.
        return str(json.loads(raised.value.body)["message"])


@pytest.fixture
def user(cluster: ControlPlane) -> User:
    return User(cluster)


@pytest.mark.parametrize(
    ("resource", "spec", "message"),
    [
        (ours.GLANCE, {"replicas": "1"}, 'spec.replicas: Invalid value: "string"'),
        (ours.GLANCE, {"customServiceConfig": True}, 'spec.customServiceConfig: Invalid value: "boolean"'),
        (ours.GLANCE, {"customServiceConfig": 5}, 'spec.customServiceConfig: Invalid value: "integer"'),
        (ours.GLANCE, {"openstackRelease": 2026.1}, 'spec.openstackRelease: Invalid value: "number"'),
        (ours.PLACEMENT, {"nodeSelector": {"a": True}}, 'spec.nodeSelector.a: Invalid value: "boolean"'),
        (ours.PLACEMENT, {"publicEndpoint": {"nodePort": "30000"}}, "spec.publicEndpoint.nodePort: Invalid value"),
    ],
)
def test_a_value_that_yaml_typed_in_its_own_way_is_refused_by_its_path(
    user: User, resource: kinds.Resource, spec: dict[str, Any], message: str
) -> None:
    """Case 14. Regression r71."""
    assert message in user.is_refused(resource, spec)


def test_a_text_that_no_config_map_holds_is_refused_and_says_how_much_is_too_much(user: User) -> None:
    """Case 16: what is accepted fits into a ConfigMap together with everything else."""
    line = "enabled_filters = ComputeFilter\n"
    for length in (300 * 1024, 1100 * 1024):
        text = "[filter_scheduler]\n" + line * (length // len(line))
        message = user.is_refused(ours.GLANCE, {"customServiceConfig": text})
        assert "spec.customServiceConfig: Too long: may not be more than 65536 bytes" in message
    text = "[filter_scheduler]\n" + line * (65000 // len(line))
    item = user.create(ours.GLANCE, "glance", {"customServiceConfig": text})
    assert item["spec"]["customServiceConfig"] == text
    assert "annotations" not in item["metadata"]


@pytest.mark.parametrize("replicas", [2, 3, -1])
@pytest.mark.parametrize("resource", [ours.MARIADB, ours.RABBITMQ, ours.GLANCE], ids=lambda resource: resource.kind)
def test_more_servers_than_one_volume_can_serve_are_refused_and_none_are_not(
    user: User, resource: kinds.Resource, replicas: int
) -> None:
    """Case 60, case 66, case 124: nothing is accepted that would stop half way."""
    message = user.is_refused(resource, {"replicas": replicas})
    assert "replicas" in message
    item = user.create(resource, "none", {"replicas": 0})
    assert item["spec"]["replicas"] == 0, "not replaced by the default"


@pytest.mark.parametrize("size", ["-1Gi", "5gi", "5 Gi", "five", "", "5GiB"])
def test_a_size_that_is_no_quantity_is_refused(user: User, size: str) -> None:
    """Case 61."""
    assert "spec.storageSize" in user.is_refused(ours.MARIADB, {"storageSize": size})


@pytest.mark.parametrize("size", ["5Gi", "5120Mi", "5G", "0.5Gi", 5368709120])
def test_every_way_to_write_a_quantity_is_accepted(user: User, size: Any) -> None:
    """Case 61. Regression f76."""
    item = user.create(ours.MARIADB, "db", {"storageSize": size})
    assert item["spec"]["storageSize"] == size


@pytest.mark.parametrize("resource", [ours.GLANCE, ours.PLACEMENT, ours.KEYSTONE, ours.MARIADB], ids=lambda r: r.kind)
def test_the_longest_name_is_known_at_admission_and_its_children_fit(user: User, resource: kinds.Resource) -> None:
    """Case 101: the limit follows from the names derived from it, and the message tells it."""
    for length in (37, 40, 53, 63):
        message = user.is_refused(resource, {}, "a" * length)
        assert "metadata.name must have at most 36 characters" in message
    assert user.create(resource, "a" * 36, {})


@pytest.mark.parametrize("name", ["a.b", "1cell"])
def test_a_name_that_no_service_can_have_is_refused(user: User, name: str) -> None:
    """Case 48, case 101."""
    assert "metadata.name must be a DNS label that starts with a letter" in user.is_refused(ours.GLANCE, {}, name)


@pytest.mark.parametrize("cell", ["baremetal_cell0", "Cell1", "a.b", "c" * 50, "1cell", ""])
def test_a_name_of_a_cell_that_no_object_can_have_is_refused_with_its_field(user: User, cell: str) -> None:
    """Case 48."""
    assert "spec.cellTemplates" in user.is_refused(ours.NOVA, {"cellTemplates": {cell: {}}}, "nova")


def test_cell0_cannot_be_configured_and_no_cell_at_all_is_refused(user: User) -> None:
    """Case 49: cell0 has no metadata service and no computes; it belongs to Nova."""
    spec: dict[str, Any] = {"cellTemplates": {"cell0": {}, "cell1": {}}}
    assert "cell0 belongs to Nova itself" in user.is_refused(ours.NOVA, spec, "nova")
    assert "spec.cellTemplates" in user.is_refused(ours.NOVA, {"cellTemplates": {}}, "nova")


def test_a_misspelt_field_is_refused_where_the_user_asks_for_it_and_never_kept(user: User) -> None:
    """Case 85."""
    spec = {"replicate": 3}
    assert 'unknown field "spec.replicate"' in user.is_refused(ours.GLANCE, spec)
    assert "replicate" not in user.create(ours.GLANCE, "glance", spec, validation="Ignore")["spec"]


def test_deletes_need_nobody_who_answers(user: User) -> None:
    """Case 105: without an operator an object that has no finalizer yet goes at once; no webhook stands in between."""
    user.create(ours.GLANCE, "glance", {})
    user.request("DELETE", user.path(ours.GLANCE, "glance"))
    assert user.request("GET", user.path(ours.GLANCE))["items"] == []
    for kind in ("validating", "mutating"):
        webhooks = user.request("GET", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations")
        assert webhooks["items"] == []
