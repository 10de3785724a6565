"""Reconciles OpenStackControlPlane: applies every service's object at once and mirrors their state.

Services wait for each other by themselves, each for exactly what it needs, so whatever can run in parallel does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from openstack_operator.controlplane import resources
from openstack_operator.controlplane.types import KIND, OpenStackControlPlaneSpec, Phase
from openstack_operator.kit import config_validity, credentials, kinds, levels, names, pods, workloads
from openstack_operator.kit.service import Service
from openstack_operator.kit.types import ConfigPolicy
from openstack_operator.runtime import conditions, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Controller, Scope, Step, Watch
from openstack_operator.runtime.informer import Key
from openstack_operator.services import SERVICES

# Phases of seed 002 §5.1, by the service whose condition is the first one unmet. Derived for people only.
PHASES: dict[str, Phase] = {
    "mariadb": "Infrastructure",
    "rabbitmq": "Infrastructure",
    "memcached": "Infrastructure",
    "keystone": "Identity",
    "nova": "Compute",
}


def condition(service: Service) -> str:
    """The condition that mirrors a service, such as KeystoneReady."""
    return f"{service.kinds[0].resource.kind}Ready"


async def ensure_accepted(scope: Scope[OpenStackControlPlaneSpec]) -> None:
    """This is the only control plane of its namespace; of two the older one stays."""
    others = [item for item in scope.items(kinds.CONTROL_PLANE) if item["metadata"]["uid"] != scope.uid]
    age = (scope.object["metadata"]["creationTimestamp"], scope.name)
    for other in others:
        metadata = other["metadata"]
        if (metadata["creationTimestamp"], metadata["name"]) < age:
            raise errors.Stalled(
                "NamespaceTaken",
                f"OpenStackControlPlane {scope.namespace}/{metadata['name']} is in this namespace already; "
                "delete one of the two or use another namespace",
            )


async def ensure_config_valid(scope: Scope[OpenStackControlPlaneSpec]) -> str | None:
    """The configuration text for all services can be read, and its values fit the release's options."""
    spec = scope.spec
    used = [service.name for service in SERVICES if service.files and resources.is_enabled(service, spec)]
    policy = spec.config_policy or ConfigPolicy()
    field = f"spec.{levels.TEXT}"
    found = config_validity.judge_shared(spec.custom_service_config, used, spec.openstack_release, policy, field=field)
    return await config_validity.tell(scope, found + await config_validity.shared_secret_findings(scope, used))


def ensure_service(service: Service) -> Callable[[Scope[OpenStackControlPlaneSpec]], Awaitable[None]]:
    """The step of one service."""
    resource = service.kinds[0].resource

    async def ensure(scope: Scope[OpenStackControlPlaneSpec]) -> None:
        if not resources.is_enabled(service, scope.spec):
            await scope.prune(resource, keep=())
            return
        item = await scope.apply(resource, resources.child(service, scope.name, scope.spec))
        if service.name == "keystone":
            scope.status["identityUrl"] = item.get("status", {}).get("publicUrl")
            scope.status["adminSecret"] = item.get("status", {}).get("adminSecret")
        with _phase(scope, PHASES.get(service.name, "CoreServices")):
            mirror(item)

    ensure.__doc__ = f"The object {service.name} ({resource.kind}) is Ready, or the service is disabled."
    return ensure


def mirror(item: Object) -> None:
    """Raises the child's own state, so that the message at the top names what blocks at the bottom."""
    if conditions.is_ready(item):
        return
    where = f"{item['kind']} {item['metadata']['namespace']}/{item['metadata']['name']}"
    ready = conditions.find(item, conditions.READY)
    stalled = conditions.find(item, conditions.STALLED)
    if ready is None or ready.get("observedGeneration") != item["metadata"]["generation"]:
        raise errors.Waiting("Reconciling", f"{where} is not reconciled yet", on=item["kind"])
    message = f"{where}: {ready['message']}"
    if stalled is not None and stalled["status"] == "True":
        raise errors.Stalled(ready["reason"], message)
    raise errors.Waiting(ready["reason"], message, on=item["kind"])


async def ensure_client(scope: Scope[OpenStackControlPlaneSpec]) -> None:
    """The pod with the openstack command runs, or is disabled."""
    with _phase(scope, "CoreServices"):
        await _ensure_client(scope)
    scope.status.setdefault("phase", "Ready")


async def _ensure_client(scope: Scope[OpenStackControlPlaneSpec]) -> None:
    if not scope.spec.openstackclient.enabled:
        await scope.prune(built_in.DEPLOYMENT, keep=())
        return
    keystone = scope.get(kinds.KEYSTONE, "keystone")
    admin = scope.get(built_in.SECRET, names.admin_secret("keystone"))
    if keystone is None or admin is None:
        raise errors.Waiting(
            "NotFound", f"Keystone {scope.namespace}/keystone has no admin yet", on=kinds.KEYSTONE.kind
        )
    url, password = keystone["status"]["internalUrl"], credentials.decode(admin)["password"]
    values = resources.client_secret(url, password, scope.spec.region)
    await credentials.ensure(scope, resources.CLIENT, resources.CLIENT, values)
    pod = resources.client_pod(scope.name, scope.spec)
    item = await scope.apply(built_in.DEPLOYMENT, workloads.deployment(pod, resources.CLIENT, 1))
    workloads.wait(scope, built_in.DEPLOYMENT, item)


@contextlib.contextmanager
def _phase(scope: Scope[OpenStackControlPlaneSpec], unmet: Phase) -> Iterator[None]:
    """The first step that finds something unmet gives its phase to the status."""
    try:
        yield
    except errors.StepError:
        scope.status.setdefault("phase", unmet)
        raise


async def finalize(scope: Scope[OpenStackControlPlaneSpec]) -> None:
    """Deletes every service's object and waits until all are gone."""
    scope.status["phase"] = "Deleting"
    left = []
    for service in SERVICES:
        for child in scope.children(service.kinds[0].resource):
            await scope.delete(service.kinds[0].resource, child["metadata"]["name"])
            ready = conditions.find(child, conditions.READY)
            why = f" ({ready['message']})" if ready and ready["reason"] == conditions.REASON_DELETING else ""
            left.append(f"{child['kind']} {child['metadata']['name']}{why}")
    if left:
        raise errors.Waiting("ServicesLeft", f"waits for the end of {', '.join(left)}")


def _others(item: Object, manager: Any) -> Iterable[Key]:
    """When one of two control planes goes, the other may be accepted."""
    for other in manager.informer(kinds.CONTROL_PLANE).items(item["metadata"]["namespace"]):
        if other["metadata"]["uid"] != item["metadata"]["uid"]:
            yield other["metadata"]["namespace"], other["metadata"]["name"]


CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("Accepted", ensure_accepted, needs=()),
        Step(config_validity.CONDITION, ensure_config_valid, needs=("Accepted",)),
        *(
            Step(
                condition(service),
                ensure_service(service),
                needs=("Accepted", config_validity.CONDITION) if service.files else ("Accepted",),
            )
            for service in SERVICES
        ),
        Step("ClientReady", ensure_client, needs=("Accepted", "KeystoneReady")),
    ),
    owns=(*(service.kinds[0].resource for service in SERVICES), built_in.SECRET, built_in.DEPLOYMENT),
    watches=(*pods.watches(kinds.CONTROL_PLANE), Watch(kinds.CONTROL_PLANE, _others)),
    finalize=finalize,
)
