"""Types to structural schemas: every error of the generator, and a toy kind in a real kube-apiserver."""

from __future__ import annotations

import copy
import enum
import ipaddress
import json
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from openstack_operator.embedded.apiserver import ControlPlane, RequestError
from openstack_operator.runtime import kinds, schema
from openstack_operator.runtime.kinds import Column, Kind, Resource, Status
from openstack_operator.runtime.schema import (
    IMMUTABLE,
    IntOrPercent,
    IntOrString,
    K8s,
    Labels,
    Model,
    Name,
    Opaque,
    Port,
    Quantity,
    Replicas,
    Rule,
    SchemaError,
)

# --- a kind with one of everything ---------------------------------------------------------------------------------


class Mode(enum.StrEnum):
    """How the toy moves."""

    ROLL = "roll"
    JUMP = "jump"


class Limits(Model):
    """What a toy may use."""

    cpu: Quantity = "100m"
    """CPU."""
    memory: Quantity | None = None
    """Memory."""


class Wheel(Model):
    """One wheel."""

    name: Name
    """Which one."""
    size: Annotated[int, Field(gt=0, lt=100)] = 10
    """Diameter in cm."""


class ToySpec(Model):
    """The toy
    that is wanted.

    It has wheels.
    """

    cel_rules = (Rule("self.mode != 'jump' || self.replicas < 5", "more than four toys do not jump", ".replicas"),)

    replicas: Replicas = 1
    """How many."""
    mode: Mode = Mode.ROLL
    """How it
    moves.

    Second paragraph."""
    limits: Limits = Limits()
    """Limits of each."""
    burst: Limits = Field(default_factory=lambda: Limits(cpu="2"))
    """Limits while it starts."""
    wheels: Annotated[tuple[Wheel, ...], Field(max_length=8), K8s(list_type="map", map_keys=("name",))] = ()
    """Wheels."""
    colours: frozenset[Literal["red", "blue"]] = frozenset()
    """Colours."""
    surge: IntOrPercent = 1
    """How many more during a change."""
    port: IntOrString | None = None
    """Port or its name."""
    tolerations: tuple[Opaque, ...] = ()
    """Taints to tolerate."""
    labels: Labels = {}
    """Labels."""
    shelf: Annotated[str, Field(max_length=20), K8s(cel=(IMMUTABLE,))] | None = None
    """Where it stands."""
    note: Annotated[str | None, K8s(nullable=True)] = None
    """null erases the note."""


class ToyStatus(Status):
    """The toys that there are."""

    replicas: int | None = None
    """How many."""


TOY = Kind(
    resource=Resource("toys.openstack.k8s.io", "v1alpha1", "toys", "Toy"),
    spec=ToySpec,
    status=ToyStatus,
    description="A toy.",
    short_names=("ty",),
    columns=(Column("Mode", ".spec.mode"),),
    scale=True,
    cel=(Rule("!has(oldSelf.spec.shelf) || has(self.spec.shelf)", "spec.shelf cannot be removed"),),
    max_name_length=20,
)


# --- conversion ----------------------------------------------------------------------------------------------------


def test_a_type_becomes_a_structural_schema() -> None:
    actual = schema.structural(ToySpec)

    properties = actual["properties"]
    int_or_string = {schema.INT_OR_STRING: True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    cpu = properties["limits"]["properties"]["cpu"]
    assert actual["description"] == "The toy that is wanted.\n\nIt has wheels."
    assert actual[schema.RULES] == [
        {
            "rule": "self.mode != 'jump' || self.replicas < 5",
            "message": "more than four toys do not jump",
            "fieldPath": ".replicas",
        }
    ]
    assert "required" not in actual
    assert properties["replicas"] == {
        "type": "integer",
        "description": "How many.",
        "default": 1,
        "minimum": 0,
        "maximum": 1000,
    }
    assert properties["mode"] == {
        "type": "string",
        "description": "How it moves.\n\nSecond paragraph.",
        "default": "roll",
        "enum": ["roll", "jump"],
    }
    assert cpu.items() >= {**int_or_string, "default": "100m", "description": "CPU."}.items()
    assert properties["limits"]["default"] == {}
    assert properties["burst"]["default"] == {"cpu": "2"}
    assert properties["wheels"]["items"]["properties"]["size"] == {
        "type": "integer",
        "description": "Diameter in cm.",
        "default": 10,
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 100,
        "exclusiveMaximum": True,
    }
    assert properties["wheels"]["items"]["required"] == ["name"]
    assert (properties["wheels"][schema.LIST_TYPE], properties["wheels"][schema.LIST_MAP_KEYS]) == ("map", ["name"])
    assert properties["colours"][schema.LIST_TYPE] == "set"
    assert properties["surge"] == {
        **int_or_string,
        "description": "How many more during a change.",
        "default": 1,
        "minimum": 0,
        "pattern": "^(100|[0-9]{1,2})%$",
    }
    assert properties["port"] == {**int_or_string, "description": "Port or its name."}
    assert properties["tolerations"]["items"] == {"type": "object", schema.PRESERVE: True}
    assert properties["note"] == {"type": "string", "description": "null erases the note.", "nullable": True}


def test_no_part_of_a_schema_is_shared_with_another() -> None:
    properties = schema.structural(ToySpec)["properties"]

    assert properties["limits"]["properties"] == properties["burst"]["properties"]
    assert properties["limits"]["properties"]["cpu"] is not properties["burst"]["properties"]["cpu"]


def test_a_field_may_be_described_like_its_type() -> None:
    class Garage(Model):
        """A garage."""

        wheel: Wheel
        """One wheel."""

    assert schema.structural(Garage)["properties"]["wheel"]["description"] == "One wheel."


def test_rules_of_base_types_hold_as_well() -> None:
    class Child(ToySpec):
        """A child."""

        cel_rules = (Rule("self.replicas > 0", "one at least"),)

    assert [rule["message"] for rule in schema.structural(Child)[schema.RULES]] == [
        "more than four toys do not jump",
        "one at least",
    ]


def test_a_rule_at_the_field_is_added_to_those_of_its_type() -> None:
    class Parent(Model):
        """A parent."""

        toy: Annotated[ToySpec, K8s(cel=(IMMUTABLE,))]
        """A toy."""

    rules = schema.structural(Parent)["properties"]["toy"][schema.RULES]
    assert [rule["message"] for rule in rules] == ["more than four toys do not jump", IMMUTABLE.message]


class Recursive(Model):
    """A tree."""

    children: tuple[Recursive, ...] = ()
    """Branches."""


class Silent(Model):
    """A type that says nothing about its field."""

    field: int


def _model(annotation: Any, **extra: Any) -> type[Model]:
    """A type with one documented field `x`."""
    return type(
        "Odd", (Model,), {"__annotations__": {"x": Annotated[annotation, Field(description="A field.")]}, **extra}
    )


BOUNDED = Annotated[str, Field(max_length=10)]
REFUSED: dict[str, tuple[type[Model], str]] = {
    "union of structs": (_model(Limits | Wheel), "Odd.x: union Limits | Wheel is not representable"),
    "unmarked int or string": (_model(int | str), "Odd.x: union integer | string is not representable"),
    "union in a list": (_model(tuple[int | str, ...]), "Odd.x[]: union integer | string"),
    "union in a map": (_model(dict[str, int | str]), "Odd.x.*: union integer | string"),
    "recursive type": (Recursive, "Recursive.children[]: recursive type Recursive"),
    "list of anything": (_model(tuple[Any, ...]), "Odd.x: array without a type of its items"),
    "tuple of fixed length": (_model(tuple[int, str]), "Odd.x: array without a type of its items"),
    "map of anything": (_model(dict[str, Any]), "Odd.x: map without a type of its values"),
    "anything": (_model(Any), "Odd.x: value without a type"),
    "constrained map keys": (_model(dict[Name, str]), "Odd.x: keys of a map cannot be constrained"),
    "null without default": (_model(int | None), "Odd.x: may be null but has no `= None`"),
    "null in a list": (_model(tuple[int | None, ...]), "Odd.x[]: may be null"),
    "unknown format": (_model(ipaddress.IPv4Network), "Odd.x: format ipv4network is not checked by Kubernetes"),
    "no docstring": (Silent, "Silent.field: no docstring"),
    "no docstring at a struct": (
        type("Odd", (Model,), {"__annotations__": {"x": Wheel}}),
        "Odd.x: no docstring",
    ),
    "no docstring below": (_model(tuple[Silent, ...]), "Odd.x[].field: no docstring"),
    "open struct": (
        _model(int, model_config={"extra": "allow"}),
        "Odd: map without a type of its values",
    ),
    "map keys of no field": (
        _model(Annotated[tuple[Wheel, ...], K8s(list_type="map", map_keys=("colour",))]),
        "Odd.x: map key colour is no field of the items",
    ),
    "optional map keys": (
        _model(Annotated[tuple[Limits, ...], K8s(list_type="map", map_keys=("memory",))]),
        "Odd.x: map key memory is neither required nor has it a default",
    ),
    "list map without keys": (
        _model(Annotated[tuple[Wheel, ...], K8s(list_type="map")]),
        "Odd.x: list type `map` and map keys come together",
    ),
    "set of structs": (
        _model(Annotated[tuple[Wheel, ...], K8s(list_type="set")]),
        "Odd.x: set of values that are not scalars",
    ),
    "list type of a string": (_model(Annotated[str, K8s(list_type="set")]), "Odd.x: list type of something"),
    "rule on an unbounded string": (
        _model(Annotated[str, K8s(cel=(IMMUTABLE,))]),
        "Odd.x: CEL rule on a value without maxLength",
    ),
    "rule on an unbounded list": (
        _model(Annotated[tuple[int, ...], K8s(cel=(IMMUTABLE,))]),
        "Odd.x: CEL rule on a value without maxItems",
    ),
    "rule on an unbounded map": (
        _model(Annotated[dict[str, int], K8s(cel=(IMMUTABLE,))]),
        "Odd.x: CEL rule on a value without maxProperties",
    ),
    "rule inside an unbounded list": (
        _model(tuple[Annotated[BOUNDED, K8s(cel=(IMMUTABLE,))], ...]),
        "Odd.x[]: CEL rule inside Odd.x, which has no upper bound",
    ),
    "rule inside an unbounded map": (
        _model(dict[str, Annotated[BOUNDED, K8s(cel=(IMMUTABLE,))]]),
        "Odd.x.*: CEL rule inside Odd.x, which has no upper bound",
    ),
    "rule that reads an unbounded string": (
        _model(str, cel_rules=(Rule("self.x.startsWith('a')", "no"),)),
        "Odd.x: read by a CEL rule but without maxLength",
    ),
}


@pytest.mark.parametrize(("model", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_structural_schema_is_refused_with_the_path_of_the_field(model: type[Model], message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        schema.structural(model)
    assert str(raised.value).startswith(message)


def test_a_rule_that_asks_only_whether_a_field_is_there_needs_no_bound() -> None:
    model = _model(str, cel_rules=(Rule("has(self.x)", "x is needed"),))

    assert schema.RULES in schema.structural(model)


# --- values in Python ----------------------------------------------------------------------------------------------


def test_a_type_reads_the_names_of_yaml_and_of_python() -> None:
    class Names(Model):
        """Names."""

        node_selector: int
        """A field."""

    assert Names.model_validate({"nodeSelector": 1}) == Names.model_validate({"node_selector": 1})
    assert Names(node_selector=1).model_dump(by_alias=True) == {"nodeSelector": 1}


def test_values_are_immutable_and_unknown_fields_refused() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Limits().cpu = "1"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        Limits.model_validate({"gpu": 1})


@pytest.mark.parametrize("value", ["0", "1", "100m", "1.5", ".5", "2Gi", "1e3", "3E", "5k"])
def test_quantities_are_accepted(value: str) -> None:
    assert Limits(cpu=value).cpu == value


def test_a_quantity_without_quotes_in_yaml_is_text_in_python() -> None:
    assert Limits.model_validate({"cpu": 2}).cpu == "2"


@pytest.mark.parametrize("value", ["", "-1", "1 Gi", "1gb", "1GiB", "Gi", "1e", "1\n", True, 1.5])
def test_bad_quantities_are_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate({"cpu": value})


@pytest.mark.parametrize("value", ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64])
def test_names_that_are_no_dns_label_are_refused(value: str) -> None:
    with pytest.raises(ValidationError):
        Wheel(name=value)


@pytest.mark.parametrize("value", [0, 65536, -1])
def test_ports_out_of_range_are_refused(value: int) -> None:
    class Listener(Model):
        """A listener."""

        port: Port
        """Where."""

    with pytest.raises(ValidationError):
        Listener(port=value)


# --- resources and kinds -------------------------------------------------------------------------------------------


def test_paths_of_resources() -> None:
    assert kinds.POD.path() == "/api/v1/pods"
    assert kinds.POD.path("ns") == "/api/v1/namespaces/ns/pods"
    assert kinds.DEPLOYMENT.path("ns", "x", "status") == "/apis/apps/v1/namespaces/ns/deployments/x/status"
    assert kinds.NODE.path(name="n") == "/api/v1/nodes/n"


@pytest.mark.parametrize(
    ("resource", "arguments"),
    [(kinds.POD, (None, "x")), (kinds.NODE, ("ns", "x")), (kinds.POD, ("ns", None, "status"))],
)
def test_paths_that_do_not_exist_are_refused(resource: Resource, arguments: tuple[str | None, ...]) -> None:
    with pytest.raises(ValueError, match=resource.kind):
        resource.path(*arguments)


def test_a_column_of_a_field_that_does_not_exist_is_refused() -> None:
    toy = Kind(TOY.resource, ToySpec, ToyStatus, "A toy.", columns=(Column("X", ".spec.modus"),))
    with pytest.raises(SchemaError, match=r"Toy column X: \.spec\.modus is no path of the object: no field modus"):
        kinds.crd(toy)


def test_scale_needs_replicas_in_status() -> None:
    with pytest.raises(SchemaError, match=r"Toy scale: \.status\.replicas is no path"):
        kinds.crd(Kind(TOY.resource, ToySpec, Status, "A toy.", scale=True))


def test_a_group_of_the_kubernetes_community_is_annotated() -> None:
    own = Kind(Resource("toys.example.org", "v1", "toys", "Toy"), ToySpec, ToyStatus, "A toy.")

    assert "api-approved.kubernetes.io" in kinds.crd(TOY)["metadata"]["annotations"]
    assert "annotations" not in kinds.crd(own)["metadata"]


# --- a real apiserver ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toys(apiserver: ControlPlane) -> ControlPlane:
    """The apiserver with the toy's CRD established."""
    name = TOY.resource.full_name
    apiserver.request("POST", kinds.CRD.path(), kinds.crd(TOY))
    apiserver.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    conditions = apiserver.request("GET", kinds.CRD.path(name=name))["status"]["conditions"]
    # NonStructuralSchema and the like show faults that the apiserver does not refuse outright.
    good = {"NamesAccepted", "Established", "KubernetesAPIApprovalPolicyConformant"}
    assert {condition["type"] for condition in conditions} <= good, conditions
    _until_served(apiserver, TOY.resource.path())
    return apiserver


def _until_served(server: ControlPlane, path: str) -> None:
    """Established is True a moment before the path is served."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            server.request("GET", path)
        except RequestError as error:
            if error.status not in (404, 429, 503):
                raise
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"{path} is not served")


Create = Callable[..., Any]


@pytest.fixture
def create(toys: ControlPlane, namespace: str) -> Create:
    """Creates a toy under strict field validation and returns it as stored."""

    def run(spec: dict[str, Any] | None = None, name: str = "toy") -> Any:
        body = {
            "apiVersion": TOY.resource.api_version,
            "kind": "Toy",
            "metadata": {"name": name},
            **({"spec": spec} if spec is not None else {}),
        }
        return toys.request("POST", f"{TOY.resource.path(namespace)}?fieldValidation=Strict", body)

    return run


def test_the_apiserver_fills_in_the_defaults(create: Create) -> None:
    defaults = {"replicas": 1, "mode": "roll", "limits": {"cpu": "100m"}, "burst": {"cpu": "2"}, "surge": 1}

    stored = create()["spec"]

    assert stored == defaults
    # What the apiserver fills in is what the type means without it.
    assert ToySpec.model_validate(stored) == ToySpec()


def test_a_full_object_round_trips(create: Create, toys: ControlPlane, namespace: str) -> None:
    full = {
        "replicas": 3,
        "mode": "jump",
        "limits": {"cpu": 2, "memory": "1Gi"},
        "burst": {"cpu": "3", "memory": "2Gi"},
        "wheels": [{"name": "left", "size": 20}, {"name": "right", "size": 10}],
        "colours": ["red", "blue"],
        "surge": "25%",
        "port": "http",
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "labels": {"a": "b"},
        "shelf": "top",
        "note": None,
    }
    stored = create(copy.deepcopy(full))["spec"]

    assert stored == full
    dumped = ToySpec.model_validate(stored).model_dump(mode="json", by_alias=True)
    assert dumped | {"colours": sorted(dumped["colours"])} == {
        **full,
        "limits": {"cpu": "2", "memory": "1Gi"},
        "colours": ["blue", "red"],
    }
    assert create(dumped, "again")["spec"]["limits"] == {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize("value", [8080, "http"])
def test_int_or_string_takes_both(create: Create, value: object) -> None:
    assert create({"port": value})["spec"]["port"] == value


REFUSED_SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"replica": 1}, 'unknown field "spec.replica"'),
    "unknown field below": ({"limits": {"gpu": 1}}, 'unknown field "spec.limits.gpu"'),
    "wrong type": ({"replicas": "2"}, "spec.replicas: Invalid value"),
    "negative replicas": ({"replicas": -1}, "greater than or equal to 0"),
    "bad quantity": ({"limits": {"cpu": "1GB"}}, "spec.limits.cpu: Invalid value"),
    "negative quantity": ({"limits": {"cpu": "-1"}}, "spec.limits.cpu: Invalid value"),
    "number of a port": ({"port": 1.5}, "spec.port: Invalid value"),
    "bad percentage": ({"surge": "101%"}, "spec.surge: Invalid value"),
    "negative surge": ({"surge": -1}, "spec.surge: Invalid value"),
    "value outside the enum": ({"mode": "fly"}, 'supported values: "roll", "jump"'),
    "bound is exclusive": ({"wheels": [{"name": "a", "size": 100}]}, "should be less than 100"),
    "key twice in a list map": ({"wheels": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
    "value twice in a set": ({"colours": ["red", "red"]}, "Duplicate value"),
    "rule over two fields": ({"mode": "jump", "replicas": 5}, "spec.replicas: Invalid value: more than four toys"),
}


@pytest.mark.parametrize(("spec", "message"), REFUSED_SPECS.values(), ids=REFUSED_SPECS.keys())
def test_the_apiserver_refuses(create: Create, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        create(spec)
    assert message in json.loads(raised.value.body)["message"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("a" * 21, "at most 20 characters"), ("a.b", "DNS label"), ("1a", "starts with a letter")],
)
def test_names_that_leave_no_room_for_derived_names_are_refused(create: Create, name: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        create({}, name)


def test_the_longest_name_is_accepted(create: Create) -> None:
    assert create({}, "a" * 20)["metadata"]["name"] == "a" * 20


def test_an_immutable_field_cannot_be_changed_or_removed(create: Create, toys: ControlPlane, namespace: str) -> None:
    create({"shelf": "top"})
    path = TOY.resource.path(namespace, "toy")

    for value, message in (("bottom", IMMUTABLE.message), (None, "spec.shelf cannot be removed")):
        with pytest.raises(RequestError, match=message):
            toys.request("PATCH", path, {"spec": {"shelf": value}}, content_type="application/merge-patch+json")


def test_two_managers_own_different_entries_of_a_list_map(create: Create, toys: ControlPlane, namespace: str) -> None:
    """Regression f61."""
    path = TOY.resource.path(namespace, "toy")
    head = {"apiVersion": TOY.resource.api_version, "kind": "Toy", "metadata": {"name": "toy"}}
    for manager in ("one", "two"):
        toys.request(
            "PATCH",
            f"{path}?fieldManager={manager}",
            {**head, "spec": {"wheels": [{"name": manager}]}},
            content_type="application/apply-patch+yaml",
        )

    stored = toys.request("GET", path)
    assert [wheel["name"] for wheel in stored["spec"]["wheels"]] == ["one", "two"]


def test_conditions_are_kept_by_type_and_status_has_a_subresource_of_its_own(
    create: Create, toys: ControlPlane, namespace: str
) -> None:
    created = create({"replicas": 2})
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Waiting",
        "message": "for the wheels",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = {**created, "status": {"conditions": [condition], "replicas": 2, "observedGeneration": 1}}

    stored = toys.request("PUT", TOY.resource.path(namespace, "toy", "status"), body)

    assert stored["status"] == body["status"]
    assert ToyStatus.model_validate(stored["status"]).conditions[0].reason == "Waiting"
    # The columns, and kubectl scale, work on it.
    header, row = toys.kubectl("-n", namespace, "get", TOY.resource.full_name).splitlines()
    assert header.split() == ["NAME", "READY", "MODE", "AGE", "MESSAGE"]
    assert (row.split()[:3], row.split()[-3:]) == (["toy", "False", "roll"], ["for", "the", "wheels"])
    toys.kubectl("-n", namespace, "scale", f"{TOY.resource.full_name}/toy", "--replicas=3")
    assert toys.request("GET", TOY.resource.path(namespace, "toy"))["spec"]["replicas"] == 3


def test_kubectl_explain_shows_the_docstrings(toys: ControlPlane) -> None:
    # The apiserver publishes the OpenAPI document of a new CRD with a delay.
    deadline = time.monotonic() + 30
    while True:
        document = json.dumps(toys.request("GET", "/openapi/v3/apis/toys.openstack.k8s.io/v1alpha1"))
        if "Diameter in cm." in document:
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert "Diameter in cm." in toys.kubectl("explain", "toys.spec.wheels", f"--api-version={TOY.resource.api_version}")
