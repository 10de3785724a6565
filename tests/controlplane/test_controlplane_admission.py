"""What a control plane says at admission, without a server."""

from __future__ import annotations

from typing import Any

from openstack_operator.controlplane import admission
from openstack_operator.controlplane.types import OpenStackControlPlaneSpec
from openstack_operator.kit import kinds
from openstack_operator.runtime.admission import Problem, Subject, Verdict
from openstack_operator.runtime.kinds import Resource


class Cached:
    def __init__(self, *control_planes: dict[str, Any]) -> None:
        self._control_planes = list(control_planes)

    def items(self, resource: Resource) -> list[dict[str, Any]]:
        return self._control_planes if resource == kinds.CONTROL_PLANE else []


def subject(**spec: Any) -> Subject:
    return Subject(kinds.CONTROL_PLANE, "cloud", "here", OpenStackControlPlaneSpec.model_validate(spec))


OTHER = {"metadata": {"name": "other", "namespace": "here"}}
GOING = {"metadata": {"name": "other", "namespace": "here", "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def test_the_second_control_plane_of_a_namespace_is_refused() -> None:
    """Case 113."""
    message = (
        "OpenStackControlPlane here/other is in this namespace already; delete one of the two or use another namespace"
    )
    assert admission.admit(subject(), None, Cached(OTHER)) == Verdict((Problem("metadata.namespace", message),))
    assert admission.admit(subject(), subject(), Cached(OTHER)) == Verdict(), "it was made while the webhook was away"
    assert admission.admit(subject(), None, Cached({"metadata": {"name": "cloud"}})) == Verdict(), "itself, made twice"


def test_one_that_is_being_deleted_is_only_waited_for() -> None:
    warning = "waits until OpenStackControlPlane here/other, which is being deleted, is gone"
    assert admission.admit(subject(), None, Cached(GOING)) == Verdict(warnings=(warning,))


def test_services_without_what_they_need_are_refused_all_at_once() -> None:
    """Case 109."""
    spec = {"keystone": {"enabled": False}, "placement": {"enabled": False}}
    problems = (
        Problem("spec.glance.enabled", "glance needs keystone, which is disabled"),
        Problem("spec.neutron.enabled", "neutron needs keystone, which is disabled"),
        Problem("spec.nova.enabled", "nova needs keystone and placement, which are disabled"),
    )
    assert admission.admit(subject(**spec), None, Cached()).errors == problems
    assert admission.admit(subject(**spec), subject(), Cached()).errors == problems, "on a cloud that runs"
    stored = admission.admit(subject(**spec, region="Other"), subject(**spec), Cached())
    assert stored == Verdict(warnings=tuple(str(one) for one in problems))
