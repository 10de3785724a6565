"""A toy kind and its controller for the tests of the runtime; also a program, for tests that kill an operator.

A Toy owns a ConfigMap with its text, a Secret, and a Deployment. It is Ready when the Deployment says that all its
replicas are, and it may name a Secret of the user's. `python toy.py KUBECONFIG NAMESPACE LEASE IDENTITY` runs it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from openstack_operator.runtime import client, conditions, controller, errors, kinds, logs, manager
from openstack_operator.runtime.schema import Model

DOMAIN = "toys.example.org"
RESOURCE = kinds.Resource(DOMAIN, "v1", "toys", "Toy")


class ToySpec(Model):
    """What is wanted."""

    text: Annotated[str, Field(max_length=100)] = "hello"
    """Written to the ConfigMap; some words make a step fail."""
    replicas: Annotated[int, Field(ge=0)] = 1
    """Pods of the Deployment."""
    secret: Annotated[str, Field(max_length=253)] | None = None
    """Name of a Secret whose key `password` is copied to ours."""


class ToyStatus(kinds.Status):
    """What was found."""

    size: Annotated[int, Field(ge=0)] | None = None
    """Length of the text."""


KIND = kinds.Kind(RESOURCE, ToySpec, ToyStatus, "A toy.")
Scope = controller.Scope[ToySpec]


async def ensure_config(scope: Scope) -> None:
    """The text is in the ConfigMap."""
    match scope.spec.text:
        case "bug":
            raise ZeroDivisionError("with a password in it")
        case "away":
            raise errors.Unavailable("DatabaseAway", "db: refused")
        case "stalled":
            raise errors.Stalled("Nonsense", "spec.text: choose another")
        case "rejected":
            await scope.apply(kinds.CONFIGMAP, {"metadata": {"name": "No Such Name"}})
    scope.status["size"] = len(scope.spec.text)
    await scope.apply(kinds.CONFIGMAP, {"metadata": {"name": scope.name}, "data": {"text": scope.spec.text}})


async def ensure_secret(scope: Scope) -> None:
    """The password is in the Secret."""
    password = "generated"
    if scope.spec.secret is not None:
        password = (await scope.secret(scope.spec.secret, "password"))["password"]
    await scope.apply(kinds.SECRET, {"metadata": {"name": scope.name}, "stringData": {"password": password}})


def deployment(scope: Scope) -> dict[str, Any]:
    # Everything that the server writes in its own way: quantities, empty maps and lists, defaults.
    container = {
        "name": "toy",
        "image": "localhost/toy:1",
        "env": [{"name": "TEXT", "value": scope.spec.text}],
        "args": [],
        "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
    labels = {"app": scope.name}
    return {
        "metadata": {"name": scope.name, "labels": {}},
        "spec": {
            "replicas": scope.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "volumes": [{"name": "scratch", "emptyDir": {}}]},
            },
        },
    }


async def ensure_workload(scope: Scope) -> str:
    """All pods are ready."""
    found = await scope.apply(kinds.DEPLOYMENT, deployment(scope))
    ready = found.get("status", {}).get("readyReplicas", 0)
    if ready < scope.spec.replicas:
        message = f"Deployment {scope.name}: {ready} of {scope.spec.replicas} pods are ready"
        raise errors.Waiting("PodsNotReady", message)
    return f"{ready} pods are ready"


STEPS = (
    controller.Step("ConfigReady", ensure_config),
    controller.Step("SecretReady", ensure_secret, needs=()),
    controller.Step("WorkloadReady", ensure_workload),
)
OWNS = (kinds.CONFIGMAP, kinds.SECRET, kinds.DEPLOYMENT)


def toys(**changes: Any) -> controller.Controller[ToySpec]:
    """The controller, with some of its attributes changed."""
    return controller.Controller(**{"kind": KIND, "steps": STEPS, "owns": OWNS, **changes})


def crd() -> dict[str, Any]:
    return kinds.crd(KIND)


def ready_condition(item: dict[str, Any]) -> dict[str, Any]:
    return conditions.find(item, conditions.READY) or {}


async def main(kubeconfig: str, namespace: str, lease: str, identity: str) -> None:
    logs.configure()
    election = manager.LeaseSettings(namespace, lease, identity, duration=2, renew=0.5)
    async with client.Client(client.Config.from_kubeconfig(Path(kubeconfig)), identity) as api:
        await manager.Manager(api, [toys()], domain=DOMAIN, namespace=namespace, election=election).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
