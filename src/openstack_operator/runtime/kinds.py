"""Kinds: the resources we talk to, the custom ones we define, and the CustomResourceDefinitions made of them.

Every part of the operator names resources by the constants here (built-in ones) or by `Kind.resource` (ours).
`cli.generate` and the embedded cluster write `crd(kind)`. Types of fields and their schemas are in `schema`, access
rules in `rbac`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from openstack_operator.runtime import admission, schema
from openstack_operator.runtime.schema import K8s, Model, Rule, Time


@dataclass(frozen=True, order=True)
class Resource:
    """One resource of the Kubernetes API; `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`<plural>.<group>`, as kubectl and the names of CRDs have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of an object, of a namespace's collection, or, without a namespace, of the whole collection."""
        if not self.namespaced and namespace:
            raise ValueError(f"{self.kind} is cluster-scoped, got namespace {namespace!r}")
        if self.namespaced and name and not namespace:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        if subresource and not name:
            raise ValueError(f"subresource {subresource!r} of {self.kind} needs a name")
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, *(part for part in (name, subresource) if part)]
        return "/".join(parts)

    def __str__(self) -> str:
        return self.full_name


CONFIGMAP = Resource("", "v1", "configmaps", "ConfigMap")
SECRET = Resource("", "v1", "secrets", "Secret")
SERVICE = Resource("", "v1", "services", "Service")
SERVICEACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount")
PVC = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
POD = Resource("", "v1", "pods", "Pod")
EVENT = Resource("", "v1", "events", "Event")
NAMESPACE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment")
STATEFULSET = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMONSET = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOB = Resource("batch", "v1", "jobs", "Job")
CRONJOB = Resource("batch", "v1", "cronjobs", "CronJob")
PDB = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLEBINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
NETWORKPOLICY = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
INGRESS = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
ENDPOINTSLICE = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
STORAGECLASS = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
VALIDATINGWEBHOOKCONFIGURATION = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
CRD = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)


class Condition(Model):
    """One observation about the object, in the shape of metav1.Condition."""

    type: Annotated[str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9]*[A-Za-z0-9])?$", max_length=316)]
    """What is observed, such as Ready."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """metadata.generation of the object when the observation was made."""
    last_transition_time: Time
    """When the status of the condition last changed."""
    reason: Annotated[str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", min_length=1, max_length=1024)]
    """Why, as one word for programs."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, for people: what is missing, where, and for which input."""


class Status(Model):
    """What the operator observed."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """metadata.generation of the last spec that the operator worked on."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=64), K8s(list_type="map", map_keys=("type",))] = ()
    """Observations, in the order of the rollout."""


@dataclass(frozen=True)
class Column:
    """One column of `kubectl get`; priority 1 shows with `-o wide` only."""

    name: str
    path: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    priority: int = 0
    description: str = ""


@dataclass(frozen=True)
class Kind:
    """A custom resource of ours."""

    resource: Resource
    spec: type[Model]
    status: type[Status]
    description: str
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    """Between Ready and Age, which every kind has."""
    scale: bool = False
    """Offer `kubectl scale` and autoscalers; needs spec.replicas and status.replicas, and status.selector for HPAs."""
    cel: tuple[Rule, ...] = ()
    """Rules over the whole object, such as `self.spec.x == oldSelf.spec.x`."""
    max_name_length: int | None = None
    """Longest metadata.name that leaves room for the names derived from it. With it the name must also be a DNS label
    that starts with a letter, because Services are among the derived ones (RFC 1035 before Kubernetes 1.36)."""
    admit: admission.Admit | None = None
    """What is said at admission beyond schema and rules: a pure function of the object, its old self, and caches."""


def condition_column(name: str, condition: str, attribute: str = "status", priority: int = 0) -> Column:
    """Column with an attribute (status, reason, message) of the condition of that type."""
    return Column(
        name,
        f'.status.conditions[?(@.type=="{condition}")].{attribute}',
        priority=priority,
        description=f"{attribute.capitalize()} of the condition {condition}.",
    )


def columns(kind: Kind) -> tuple[Column, ...]:
    """All columns of a kind. The message is last: it is long, and says what everything waits for."""
    return (
        condition_column("Ready", "Ready"),
        *kind.columns,
        Column("Age", ".metadata.creationTimestamp", "date", description="Time since creation."),
        condition_column("Message", "Ready", "message"),
    )


def object_schema(kind: Kind) -> schema.Schema:
    """Returns the schema of the whole object; raises SchemaError."""
    spec = schema.structural(kind.spec, f"{kind.resource.kind}.spec")
    status = schema.structural(kind.status, f"{kind.resource.kind}.status")
    if not spec.get("required"):
        # Without it the defaults of the fields would not be filled in for an object that has no spec at all.
        spec["default"] = {}
        schema.complete_defaults(spec)
    rules = [rule.schema() for rule in (*_name_rules(kind), *kind.cel)]
    root: schema.Schema = {
        "type": "object",
        "description": schema.paragraphs(kind.description),
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {kind.resource.api_version}."},
            "kind": {"type": "string", "description": f"Always {kind.resource.kind}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    if spec.get("required"):
        root["required"] = ["spec"]
    if rules:
        root[schema.RULES] = rules
    schema.check_rules(root, kind.resource.kind)
    return root


def _name_rules(kind: Kind) -> Iterable[Rule]:
    if kind.max_name_length is None:
        return
    limit = kind.max_name_length
    yield Rule(
        f"self.metadata.name.size() <= {limit}",
        f"metadata.name must have at most {limit} characters: names of other objects are derived from it",
    )
    yield Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must be a DNS label that starts with a letter (a-z, 0-9, '-'): "
        "names of Services are derived from it",
    )


def crd(kind: Kind) -> dict[str, Any]:
    """Returns the CustomResourceDefinition; raises SchemaError with the path of the field that has no schema."""
    resource = kind.resource
    root = object_schema(kind)
    for column in kind.columns:
        _check_path(root, column.path, f"{resource.kind} column {column.name}")
    metadata: dict[str, Any] = {"name": resource.full_name}
    if resource.group.endswith((".k8s.io", ".kubernetes.io")):
        # The groups of the Kubernetes community are protected: a CRD in them is refused without this statement.
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, not an API of the Kubernetes community"}
    names: dict[str, Any] = {
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "categories": ["openstack"],
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [_printer_column(column) for column in columns(kind)],
                    "subresources": _subresources(kind, root),
                    "schema": {"openAPIV3Schema": root},
                }
            ],
        },
    }


def _printer_column(column: Column) -> dict[str, Any]:
    out: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        out["description"] = column.description
    if column.priority:
        out["priority"] = column.priority
    return out


def _subresources(kind: Kind, root: schema.Schema) -> dict[str, Any]:
    out: dict[str, Any] = {"status": {}}
    if kind.scale:
        where = f"{kind.resource.kind} scale"
        _check_path(root, ".spec.replicas", where)
        _check_path(root, ".status.replicas", where)
        out["scale"] = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        if "selector" in root["properties"]["status"]["properties"]:
            out["scale"]["labelSelectorPath"] = ".status.selector"
    return out


def _check_path(root: schema.Schema, path: str, where: str) -> None:
    """Raises SchemaError unless the plain head of a JSONPath (up to a filter or index) names fields of the schema."""
    node = root
    for name in re.split(r"[\[*]", path)[0].strip(".").split("."):
        if name == "metadata" and node is root:
            return
        child = node.get("properties", {}).get(name) or node.get("additionalProperties")
        if child is None:
            raise schema.SchemaError(where, f"{path} is no path of the object: no field {name}")
        node = child
