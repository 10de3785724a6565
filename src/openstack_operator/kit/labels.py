"""Labels of everything the operator makes, from one function (app.kubernetes.io/*), and the selectors made of them."""

from __future__ import annotations

from openstack_operator.kit.kinds import DOMAIN
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.kinds import Resource

MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "app.kubernetes.io/component"
OPERATOR = "openstack-operator"
OWNER_KIND = f"{DOMAIN}/owner-kind"
OWNER_NAME = f"{DOMAIN}/owner-name"

SELECTOR = f"{MANAGED_BY}={OPERATOR}"

# The cluster is full of these, and they are not ours: only what carries our label is cached.
_SELECTED = (
    built_in.CONFIGMAP,
    built_in.SECRET,
    built_in.SERVICE,
    built_in.POD,
    built_in.PVC,
    built_in.DEPLOYMENT,
    built_in.STATEFULSET,
    built_in.DAEMONSET,
    built_in.JOB,
    built_in.CRONJOB,
    built_in.PDB,
    built_in.SERVICEACCOUNT,
    built_in.ROLE,
    built_in.ROLEBINDING,
    built_in.NETWORKPOLICY,
)


def selector_for(resource: Resource) -> str | None:
    """The label selector with which the manager caches a resource; None: all objects."""
    return SELECTOR if resource in _SELECTED else None


def common(service: str, instance: str, component: str = "") -> dict[str, str]:
    """Labels of an object: ``service`` (keystone), ``instance`` (name of the owning object), ``component`` (api)."""
    labels = {
        "app.kubernetes.io/name": service,
        "app.kubernetes.io/instance": instance,
        MANAGED_BY: OPERATOR,
        "app.kubernetes.io/part-of": "openstack",
    }
    if component:
        labels[COMPONENT] = component
    return labels


def selector(service: str, instance: str, component: str) -> dict[str, str]:
    """What a workload or Service selects its pods by: never changes for a given workload."""
    return {
        "app.kubernetes.io/name": service,
        "app.kubernetes.io/instance": instance,
        COMPONENT: component,
    }


def pod(service: str, instance: str, component: str, owner_kind: str) -> dict[str, str]:
    """Labels of a pod: those of its workload and who explains it (``pods.keys`` wakes that object)."""
    return common(service, instance, component) | {OWNER_KIND: owner_kind, OWNER_NAME: instance}


def matches(labels: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
