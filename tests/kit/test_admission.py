"""What every kind says at admission, without a server: paths, warnings, and what an edit of something else may do."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator import controlplane
from openstack_operator.controlplane.types import OpenStackControlPlaneSpec
from openstack_operator.kit import admission
from openstack_operator.kit import kinds as ours
from openstack_operator.kit.types import Ref
from openstack_operator.runtime import kinds
from openstack_operator.runtime.admission import Problem, Reference, Subject, Verdict, answer, prepare
from openstack_operator.runtime.kinds import Kind, Resource
from openstack_operator.runtime.schema import Model
from openstack_operator.services.glance.types import GlanceSpec
from openstack_operator.services.keystone.types import KIND as KEYSTONE
from openstack_operator.services.mariadb.types import MariaDBSpec
from openstack_operator.services.neutron.types import KIND as NEUTRON
from openstack_operator.services.nova.cell.types import KIND as CELL
from openstack_operator.services.ovn.types import KIND as OVN

KINDS = [kind for service in controlplane.EVERYTHING for kind in service.kinds]
NO_SECTION = "line 1: no [section] before this option: 'debug = true'"


class Nothing:
    def items(self, _: Resource) -> list[dict[str, Any]]:
        return []


def subject(spec: type[Model], **values: Any) -> Subject:
    resource = next(kind.resource for kind in KINDS if kind.spec is spec)
    return Subject(resource, "one", "here", spec.model_validate(values))


def judged(spec: type[Model], new: dict[str, Any], old: dict[str, Any] | None = None) -> Verdict:
    return admission.admit(subject(spec, **new), None if old is None else subject(spec, **old), Nothing())


def test_every_reference_of_every_kind_has_a_target() -> None:
    found = set()
    for kind in KINDS:
        for model in _models(kind.spec):
            for name, info in model.model_fields.items():
                if info.annotation in (Ref, Ref | None):
                    found.add(name)
    named = {name for name in found if not name.endswith("secret_ref")}
    assert named == set(admission.TARGETS)


def _models(model: type[Model], seen: set[type[Model]] | None = None) -> set[type[Model]]:
    seen = set() if seen is None else seen
    if model not in seen:
        seen.add(model)
        for info in model.model_fields.values():
            for inner in _inside(info.annotation):
                _models(inner, seen)
    return seen


def _inside(annotation: Any) -> list[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [one for argument in getattr(annotation, "__args__", ()) for one in _inside(argument)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_every_kind_is_judged(kind: Kind) -> None:
    assert kind.admit is not None


def test_text_anywhere_in_a_control_plane_is_judged_under_its_own_path() -> None:
    bad = {"customServiceConfig": "debug = true"}
    spec = {
        "keystone": bad,
        "neutron": {"agent": bad},
        "nova": {"cellTemplates": {"cell1": {"computes": {"fast": bad}, "conductor": bad}}},
    }
    fields = [
        "spec.keystone.customServiceConfig",
        "spec.neutron.agent.customServiceConfig",
        "spec.nova.cellTemplates.cell1.conductor.customServiceConfig",
        "spec.nova.cellTemplates.cell1.computes.fast.customServiceConfig",
    ]
    assert judged(OpenStackControlPlaneSpec, spec).errors == tuple(Problem(field, NO_SECTION) for field in fields)


def test_bad_text_that_stands_already_does_not_hold_up_another_edit() -> None:
    bad = {"customServiceConfig": "debug = true"}
    assert judged(GlanceSpec, {**bad, "replicas": 0}, bad) == Verdict(
        warnings=(f"spec.customServiceConfig: {NO_SECTION}",)
    )
    worse = {"customServiceConfig": "debug = true\n"}
    assert judged(GlanceSpec, worse, bad).errors == (Problem("spec.customServiceConfig", NO_SECTION),)


def test_references_are_looked_for_when_they_are_new() -> None:
    everything = judged(GlanceSpec, {}).references
    assert everything == (
        Reference("spec.databaseRef", ours.MARIADB, "mariadb"),
        Reference("spec.memcachedRef", ours.MEMCACHED, "memcached"),
        Reference("spec.keystoneRef", ours.KEYSTONE, "keystone"),
    )
    spec = {"credentials": {"database": {"name": "mine"}}, "storageClass": "fast", "databaseRef": {"name": "other"}}
    assert set(judged(GlanceSpec, spec, {}).references) == {
        Reference("spec.storageClass", kinds.STORAGECLASS, "fast"),
        Reference("spec.credentials.database", kinds.SECRET, "mine", "password"),
        Reference("spec.databaseRef", ours.MARIADB, "other"),
    }
    assert judged(GlanceSpec, spec, spec) == Verdict()
    secrets = [{"name": "a", "key": "x"}, {"name": "b", "key": "y"}]
    assert judged(GlanceSpec, {"configSecrets": secrets}, {"configSecrets": secrets[:1]}).references == (
        Reference("spec.configSecrets[1]", kinds.SECRET, "b", "y"),
    )
    request = {"name": "d", "secretRef": {"name": "s"}}
    assert judged(MariaDBSpec, {"databases": [request]}).references == (
        Reference("spec.databases[0].secretRef", kinds.SECRET, "s"),
    )


def test_what_is_disabled_refers_to_nothing() -> None:
    spec = {"keystone": {"adminPasswordSecretRef": {"name": "mine"}}}
    (reference,) = judged(OpenStackControlPlaneSpec, spec).references
    assert reference == Reference("spec.keystone.adminPasswordSecretRef", kinds.SECRET, "mine", "password")
    spec["keystone"]["enabled"] = False  # type: ignore[assignment]
    assert judged(OpenStackControlPlaneSpec, spec).references == ()


def test_a_volume_that_exists_keeps_its_size_and_the_user_is_told() -> None:
    """Case 61."""
    assert judged(MariaDBSpec, {"storageSize": "10Gi"}, {"storageSize": "5Gi"}).warnings == (
        "spec.storageSize: volumes that exist keep their size",
    )
    assert judged(MariaDBSpec, {"storageSize": "5120Mi"}, {"storageSize": "5Gi"}).warnings == ()
    assert judged(OpenStackControlPlaneSpec, {"storageClass": "fast"}, {}).warnings == (
        "spec.storageClass: volumes that exist keep their class",
    )


def reviewed(kind: Kind, spec: dict[str, Any]) -> dict[str, Any]:
    request = {"uid": "u", "namespace": "here", "object": {"metadata": {"name": "one"}, "spec": spec}}
    return answer(prepare(kind, request, Nothing()))


def causes(kind: Kind, spec: dict[str, Any]) -> list[str]:
    response = reviewed(kind, spec)
    return [f"{one['field']}: {one['message']}" for one in response["status"]["details"]["causes"]]


def test_what_no_schema_can_say_is_said_all_at_once() -> None:
    spec = {
        "vniRanges": ["9:1", "1:16777216", "1:16777215"],
        "vlanRanges": ["physnet1", "physnet1:0:5", "physnet1:7:4094"],
        "resources": {"requests": {"memory": "2Gi", "cpu": "1"}, "limits": {"memory": "1Gi", "cpu": "1000m"}},
    }
    assert sorted(causes(NEUTRON, spec)) == [
        "spec.resources: requests.memory 2Gi is more than limits.memory 1Gi",
        "spec.vlanRanges[1]: 0:5 is no range within 1:4094",
        "spec.vniRanges[0]: 9:1 is no range within 1:16777215",
        "spec.vniRanges[1]: 1:16777216 is no range within 1:16777215",
    ]
    assert causes(NEUTRON, {"vniRanges": ["9:1"]}) == ["spec.vniRanges[0]: 9:1 is no range within 1:16777215"]
    spec = {"externalBridge": {"address": "172.24.4.1/33"}}
    assert causes(OVN, spec) == [
        "spec.externalBridge.address: '172.24.4.1/33' does not appear to be an IPv4 or IPv6 interface"
    ]


def test_what_a_type_and_what_a_kind_finds_come_in_one_answer() -> None:
    bad = {"customServiceConfig": "debug = true"}
    spec = {"neutron": {"vniRanges": ["1:2", "9:1"], **bad}, "placement": {"enabled": False}, "region": "a b"}
    assert sorted(causes(controlplane.SERVICE.kinds[0], spec)) == [
        f"spec.neutron.customServiceConfig: {NO_SECTION}",
        "spec.neutron.vniRanges[1]: 9:1 is no range within 1:16777215",
        "spec.nova.enabled: nova needs placement, which is disabled",
        "spec.region: String should match pattern '^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'",
    ]
    # A field that must be there and is not: what the kind would say is unknown.
    assert causes(CELL, {"cellName": "cell1"})[0] == "spec.authUrl: Field required"


def test_a_value_never_shows_in_what_is_said_about_it() -> None:
    response = reviewed(KEYSTONE, {"replicas": "hunter2", "token": {"expirationSeconds": "hunter3"}})
    assert not response["allowed"]
    assert "hunter" not in str(response)


def test_an_object_that_is_being_deleted_passes_whatever_it_is_like() -> None:
    metadata = {"name": "one", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    request = {"uid": "u", "namespace": "here", "object": {"metadata": metadata, "spec": {"replicas": "x"}}}
    assert answer(prepare(KEYSTONE, request, Nothing())) == {"uid": "u", "allowed": True}


@pytest.mark.parametrize(
    ("length", "count", "shown", "last"),
    [
        pytest.param(20, 30, 30, None, id="all"),
        pytest.param(20, 31, 29, "and 2 more", id="many"),
        pytest.param(256, 15, 15, None, id="long"),
        pytest.param(256, 16, 15, "and 1 more", id="more than the API server passes on"),
        pytest.param(400, 40, 15, "and 25 more", id="longer than one may be"),
    ],
)
def test_warnings_that_have_no_room_are_cut_and_counted(length: int, count: int, shown: int, last: str | None) -> None:
    finding = prepare(KEYSTONE, {"uid": "u", "object": {"metadata": {"name": "one"}, "spec": {}}}, Nothing())
    warnings = answer(finding, (f"{number} ".ljust(length, "x") for number in range(count)))["warnings"]
    assert [len(one) for one in warnings[:shown]] == [min(length, 256)] * shown
    assert warnings[shown:] == ([last] if last else [])
    assert sum(map(len, warnings)) < 4096


@pytest.mark.parametrize(
    ("given", "hint"), [("apps", ""), ("apl", " (did you mean api?)"), ("dbsync", " (did you mean db-sync?)")]
)
def test_a_component_that_no_pod_has_is_told(given: str, hint: str) -> None:
    mount = {"mountPath": "/etc/ssl/mine", "secretName": "ca", "components": ["api", given]}
    verdict = judged(GlanceSpec, {"extraMounts": [mount]})
    assert verdict.errors == ()
    assert verdict.warnings == (
        f"spec.extraMounts[0].components[1]: no pod is called {given}{hint}, so none gets /etc/ssl/mine for it; there "
        "are api, db-sync",
    )
    assert judged(GlanceSpec, {"extraMounts": [mount]}, {"extraMounts": [mount]}).warnings == ()


def test_the_components_of_a_part_are_those_of_the_part() -> None:
    mount = {"mountPath": "/etc/ssl/mine", "secretName": "ca", "components": ["libvirt", "conductor"]}
    templates = {"cell1": {"computes": {"compute": {"extraMounts": [mount]}}}}
    verdict = judged(OpenStackControlPlaneSpec, {"nova": {"cellTemplates": templates}})
    (warning,) = (one for one in verdict.warnings if "extraMounts" in one)
    assert warning.startswith("spec.nova.cellTemplates.cell1.computes.compute.extraMounts[0].components[1]: no pod is")
    assert warning.endswith("there are compute, libvirt")
