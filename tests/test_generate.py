"""Generated files: access rules and the install manifest in a real kube-apiserver, and that the tree is up to date."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import Field

from openstack_operator.cli import generate
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.runtime import kinds, rbac
from openstack_operator.runtime.kinds import Kind, Resource, Status
from openstack_operator.runtime.schema import K8s, Model, Name, Replicas, Rule

ROOT = Path(__file__).parents[1]


class Part(Model):
    """A part."""

    name: Name
    """Name."""


class BoatSpec(Model):
    """The boat that is wanted."""

    replicas: Replicas = 1
    """How many | at most."""
    parts: Annotated[tuple[Part, ...], Field(max_length=4), K8s(list_type="map", map_keys=("name",))] = ()
    """Parts."""
    sizes: dict[str, int] = {}
    """Sizes of parts."""
    harbour: Annotated[str, Field(max_length=63), K8s(cel=(Rule("self != 'none'", "a harbour is needed"),))]
    """Where it lies."""


BOAT = Kind(
    resource=Resource("boats.example.org", "v1alpha1", "boats", "Boat"),
    spec=BoatSpec,
    status=Status,
    description="Floats.\n\nMostly.",
    short_names=("bo",),
    max_name_length=30,
)


@dataclasses.dataclass(frozen=True)
class Watch:
    resource: Resource


@dataclasses.dataclass(frozen=True)
class Controller:
    kind: Kind = BOAT
    owns: tuple[Resource, ...] = ()
    watches: tuple[Watch, ...] = ()
    reads: tuple[Resource, ...] = ()
    rules: tuple[rbac.PolicyRule, ...] = ()


@dataclasses.dataclass(frozen=True)
class Service:
    kinds: tuple[Kind, ...]
    controllers: tuple[Controller, ...]


FLEET = generate.catalogue(
    [Service((BOAT,), (Controller(owns=(kinds.DEPLOYMENT, kinds.SECRET), watches=(Watch(kinds.POD),)),))], "1.2.3"
)


# --- access rules --------------------------------------------------------------------------------------------------


def test_rules_follow_from_what_controllers_declare() -> None:
    one = Controller(
        owns=(kinds.SECRET, kinds.DEPLOYMENT, kinds.SERVICE),
        watches=(Watch(kinds.POD), Watch(kinds.SECRET)),
        reads=(kinds.NODE,),
        rules=(
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["update"], "resourceNames": ["ca"]},
        ),
    )
    another = Controller(owns=(kinds.CONFIGMAP,), rules=one.rules)
    owned = ["create", "delete", "get", "list", "patch", "watch"]

    assert rbac.rules([one, another]) == [
        {"apiGroups": [""], "resources": ["configmaps", "secrets", "services"], "verbs": owned},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": owned},
        {"apiGroups": ["boats.example.org"], "resources": ["boats"], "verbs": ["get", "list", "patch", "watch"]},
        {"apiGroups": ["boats.example.org"], "resources": ["boats/finalizers"], "verbs": ["update"]},
        {"apiGroups": ["boats.example.org"], "resources": ["boats/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["update"], "resourceNames": ["ca"]},
    ]


def test_rules_do_not_depend_on_the_order_of_controllers() -> None:
    controllers = [Controller(owns=(kinds.SECRET, kinds.POD)), Controller(reads=(kinds.NODE,), owns=(kinds.JOB,))]

    assert rbac.rules(controllers) == rbac.rules(controllers[::-1])


def test_no_controllers_need_no_rules() -> None:
    assert rbac.rules([]) == []


def test_a_kind_that_is_defined_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"boats\.boats\.example\.org is defined twice"):
        generate.catalogue([Service((BOAT,), ()), Service((BOAT,), ())], "1")


# --- text ----------------------------------------------------------------------------------------------------------


def test_generated_text_is_stable_and_clean() -> None:
    wanted = generate.files(FLEET)

    assert wanted == generate.files(FLEET)
    for path, text in wanted.items():
        assert [line for line in text.splitlines() if line != line.rstrip()] == [], path
        assert text.endswith("\n"), path
        if path.suffix == ".yaml":
            assert "&id" not in text, path
            assert all(yaml.safe_load_all(text)), path


def test_the_reference_page_lists_every_field_with_type_default_and_effect() -> None:
    page = generate.reference(BOAT)

    assert [line for line in page.splitlines() if line.startswith("| `spec")] == [
        "| `spec.replicas` | integer, 0 to 1000 | `1` | How many \\| at most. |",
        "| `spec.parts` | list of object |  | Parts. |",
        "| `spec.parts[].name` | string | (required) | Name. |",
        "| `spec.sizes` | map of integer |  | Sizes of parts. |",
        "| `spec.harbour` | string | (required) | Where it lies. |",
    ]
    assert "- `spec.harbour`: a harbour is needed" in page
    assert '| Message | `.status.conditions[?(@.type=="Ready")].message` | always |' in page
    assert generate.index([BOAT]).endswith("| [Boat](boat.md) | `boats.example.org/v1alpha1` | Floats. |\n")


def test_only_what_differs_is_written_and_only_generated_files_are_removed(tmp_path: Path) -> None:
    wanted = generate.files(FLEET)
    generate.write(tmp_path, generate.outdated(tmp_path, wanted))
    assert generate.outdated(tmp_path, wanted) == {}

    stale, foreign = tmp_path / "deploy/crds/old.yaml", tmp_path / "docs/reference/written-by-hand.md"
    stale.write_text(generate.YAML_MARK)
    foreign.write_text("# By hand\n")
    (tmp_path / "deploy/rbac.yaml").write_text("edited")

    changed = generate.outdated(tmp_path, wanted)
    assert changed == {Path("deploy/rbac.yaml"): wanted[Path("deploy/rbac.yaml")], Path("deploy/crds/old.yaml"): None}
    generate.write(tmp_path, changed)
    assert (stale.exists(), foreign.exists()) == (False, True)


def test_the_tree_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().out


# --- a real apiserver ----------------------------------------------------------------------------------------------


def _can(apiserver: ControlPlane, verb: str, what: str, namespace: str = "default", name: str = "") -> bool:
    account = f"system:serviceaccount:{generate.NAMESPACE}:{generate.OPERATOR}"
    plural, _, subresource = what.partition("/")
    answer: dict[str, Any] = apiserver.request(
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": account,
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": {
                    "namespace": namespace,
                    "verb": verb,
                    "group": plural.partition(".")[2],
                    "resource": plural.partition(".")[0],
                    "subresource": subresource,
                    "name": name,
                },
            },
        },
    )
    return bool(answer["status"]["allowed"])


def test_the_install_manifest_applies_and_grants_what_is_declared_and_no_more(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    text = generate.files(FLEET)[Path("deploy/install.yaml")]

    # Not `apply`: a second install with another version in the same cluster would be a different test.
    output = apiserver.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=text)

    assert [line.split()[0] for line in output.splitlines()] == [
        "namespace/openstack-operator-system",
        "customresourcedefinition.apiextensions.k8s.io/boats.boats.example.org",
        "serviceaccount/openstack-operator",
        "clusterrole.rbac.authorization.k8s.io/openstack-operator",
        "clusterrolebinding.rbac.authorization.k8s.io/openstack-operator",
        "role.rbac.authorization.k8s.io/openstack-operator-leader-election",
        "rolebinding.rbac.authorization.k8s.io/openstack-operator-leader-election",
        "role.rbac.authorization.k8s.io/openstack-operator-webhook",
        "rolebinding.rbac.authorization.k8s.io/openstack-operator-webhook",
        "clusterrole.rbac.authorization.k8s.io/openstack-operator-view",
        "clusterrole.rbac.authorization.k8s.io/openstack-operator-edit",
        "service/openstack-operator",
        "networkpolicy.networking.k8s.io/openstack-operator",
        "deployment.apps/openstack-operator",
        "validatingwebhookconfiguration.admissionregistration.k8s.io/openstack-operator",
    ]
    allowed = {
        (verb, what): _can(apiserver, verb, what)
        for verb, what in (
            ("patch", "deployments.apps"),
            ("delete", "secrets"),
            ("watch", "pods"),
            ("patch", "boats.boats.example.org"),
            ("patch", "boats.boats.example.org/status"),
            ("create", "events"),
        )
    }
    assert all(allowed.values()), allowed
    refused = {
        (verb, what): not _can(apiserver, verb, what)
        for verb, what in (
            ("update", "deployments.apps"),
            ("delete", "pods"),
            ("create", "boats.boats.example.org"),
            ("delete", "boats.boats.example.org"),
            ("get", "leases.coordination.k8s.io"),
            ("get", "nodes"),
            ("escalate", "clusterroles.rbac.authorization.k8s.io"),
        )
    }
    assert all(refused.values()), refused
    assert _can(apiserver, "update", "leases.coordination.k8s.io", generate.NAMESPACE)
    hooks = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    assert _can(apiserver, "patch", hooks, "", generate.OPERATOR)
    assert not any(_can(apiserver, verb, hooks, "", "somebody-elses") for verb in ("get", "patch", "update", "delete"))
    assert not any(_can(apiserver, verb, hooks, "", generate.OPERATOR) for verb in ("create", "update", "delete"))


def test_the_operator_is_connected_to_for_its_webhook_by_all_for_metrics_by_pods_and_for_health_by_its_node_only() -> (
    None
):
    policy = generate.network_policy("1.2.3")
    pod = generate.deployment("1.2.3")["spec"]["template"]
    port_of = {one["name"]: one["containerPort"] for one in pod["spec"]["containers"][0]["ports"]}
    admitted = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["spec"]["ingress"]}

    assert set(port_of) == {"webhook", "metrics", "health"}
    assert admitted == {port_of["webhook"]: None, port_of["metrics"]: [{"namespaceSelector": {}}]}
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    # What it connects to is nobody's business here: the API server, DNS, databases, Keystone.
    assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_the_operators_pod_passes_the_restricted_pod_security_standard(apiserver: ControlPlane) -> None:
    manifest = generate.deployment("1.2.3")
    template = manifest["spec"]["template"]
    apiserver.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(generate.namespace("1.2.3")))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", **template["metadata"]}}
    # The namespace enforces `restricted`; a dry run goes through admission.
    pod["spec"] = {key: value for key, value in template["spec"].items() if key != "serviceAccountName"}

    apiserver.request("POST", f"{kinds.POD.path(generate.NAMESPACE)}?dryRun=All&fieldValidation=Strict", pod)

    container = template["spec"]["containers"][0]
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "openstack-operator"
    assert container["image"] == "localhost/openstack-operator/operator:1.2.3"
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert container["livenessProbe"]["httpGet"]["port"] == "health"
