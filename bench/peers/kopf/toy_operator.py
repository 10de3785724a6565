"""The benchmark's toy operator on kopf: handlers for the toys, indices of toys and Deployments, watches of children.

Written as kopf's documentation teaches: `hierarchies` for owners and labels, `indexing` in place of reads, `on.event`
of children for what drifts. What it leaves to the author is done sparingly: children are applied through aiohttp, not
by a client library with a thread for each request, and a child that is as wanted is not applied again.

`toy_operator.py KUBECONFIG NAMESPACE LEASE USER-AGENT`; kopf has no Lease.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import ssl
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import yaml

KUBECONFIG, NAMESPACE, _, AGENT = sys.argv[1:]
GROUP, VERSION, PLURAL, KIND = "toys.example.org", "v1", "toys", "Toy"
OURS = {"made-by": "peer"}
TOYS = f"/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}/{PLURAL}"
PATHS = {
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "Secret": f"/api/v1/namespaces/{NAMESPACE}/secrets",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
}


class Api:
    """Requests of our own, beside those of kopf."""

    def __init__(self) -> None:
        content = yaml.safe_load(Path(KUBECONFIG).read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        self.server = cluster["server"].rstrip("/")
        self.tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
            pair.write(base64.b64decode(user["client-key-data"]))
            pair.flush()
            self.tls.load_cert_chain(pair.name)
        self.session: aiohttp.ClientSession | None = None

    async def patch(self, path: str, body: dict[str, Any], content_type: str, **parameters: str) -> None:
        if self.session is None:
            connector = aiohttp.TCPConnector(ssl=self.tls, limit=32)
            self.session = aiohttp.ClientSession(connector=connector, headers={"User-Agent": AGENT})
        async with self.session.patch(
            self.server + path, params=parameters, data=json.dumps(body), headers={"Content-Type": content_type}
        ) as response:
            if response.status == 404 and path.endswith("/status"):
                return
            response.raise_for_status()
            await response.read()


api = Api()


@kopf.on.login()
def login(**known: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_kubeconfig(**known)


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    # A structural schema keeps nothing in status that it does not know.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()


# --- what is wanted ---------------------------------------------------------------------------------------------------


def children(name: str, spec: Any) -> list[dict[str, Any]]:
    """The three children of a toy, without owner and labels."""
    container = {
        "name": "toy",
        "image": "localhost/toy:1",
        "env": [{"name": "TEXT", "value": spec["text"]}],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
    labels = {"app": name}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": spec["text"]}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "data": {"password": base64.b64encode(b"generated").decode()},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": spec["replicas"],
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "volumes": [{"name": "scratch", "emptyDir": {}}]},
                },
            },
        },
    ]


def is_as_wanted(wanted: Any, actual: Any) -> bool:
    """Whether everything in ``wanted`` stands in ``actual``."""
    if isinstance(wanted, dict):
        return all(key in actual and is_as_wanted(value, actual[key]) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(wanted) == len(actual) and all(map(is_as_wanted, wanted, actual))
    return bool(wanted == actual)


async def apply(owner: Any, body: dict[str, Any]) -> None:
    kopf.append_owner_reference(body, owner=owner)
    kopf.label(body, OURS)
    path = f"{PATHS[body['kind']]}/{body['metadata']['name']}"
    await api.patch(path, body, "application/apply-patch+yaml", fieldManager=AGENT, force="true")


def status(generation: int, spec: Any, ready: int, before: Any) -> dict[str, Any]:
    """Status with its conditions; moments of conditions that stay are those of before."""
    is_ready = ready >= spec["replicas"]
    message = f"{ready} of {spec['replicas']} pods are ready"
    found = [
        ("Ready", is_ready, "Ready" if is_ready else "PodsNotReady", message),
        ("ConfigReady", True, "Ready", ""),
        ("SecretReady", True, "Ready", ""),
        ("WorkloadReady", is_ready, "Ready" if is_ready else "PodsNotReady", message),
        ("Reconciling", not is_ready, "Ready" if is_ready else "PodsNotReady", message),
        ("Stalled", False, "Ready", ""),
    ]
    moment = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    old = {one["type"]: one for one in before.get("conditions", ())}
    conditions = []
    for kind, is_true, reason, text in found:
        state = "True" if is_true else "False"
        known = old.get(kind, {})
        since = known["lastTransitionTime"] if known.get("status") == state else moment
        conditions.append(
            {
                "type": kind, "status": state, "reason": reason, "message": text,
                "observedGeneration": generation, "lastTransitionTime": since,
            }
        )  # fmt: skip
    return {"observedGeneration": generation, "size": len(spec["text"]), "conditions": conditions}


# --- handlers ---------------------------------------------------------------------------------------------------------


@kopf.index(GROUP, VERSION, PLURAL)
def toys(name: str, body: kopf.Body, **_: Any) -> dict[str, Any]:
    return {name: body}


@kopf.index("apps", "v1", "deployments", labels=OURS)
def workloads(name: str, body: kopf.Body, **_: Any) -> dict[str, Any]:
    return {name: body}


def first(index: Any, name: str) -> Any:
    return next(iter(index.get(name, ())), None)


@kopf.on.create(GROUP, VERSION, PLURAL)
@kopf.on.update(GROUP, VERSION, PLURAL, field="spec")
@kopf.on.resume(GROUP, VERSION, PLURAL)
async def reconcile(
    name: str, body: kopf.Body, spec: kopf.Spec, meta: kopf.Meta, patch: kopf.Patch, workloads: Any, **_: Any
) -> None:
    """Brings the children about, and says so."""
    for child in children(name, spec):
        await apply(body, child)
    workload = first(workloads, name)
    ready = 0 if workload is None else workload.status.get("readyReplicas", 0)
    patch.status.update(status(meta["generation"], spec, ready, body.status))


async def react(kind: str, event: Any, name: str, body: kopf.Body, toys: Any) -> None:
    """A child that is not as wanted is applied again."""
    toy = first(toys, name)
    if toy is None:
        return
    wanted = next(child for child in children(name, toy.spec) if child["kind"] == kind)
    if event["type"] == "DELETED" or not is_as_wanted(wanted, dict(body)):
        await apply(toy, wanted)


@kopf.on.event("", "v1", "configmaps", labels=OURS)
async def on_config(event: Any, name: str, body: kopf.Body, toys: Any, **_: Any) -> None:
    await react("ConfigMap", event, name, body, toys)


@kopf.on.event("", "v1", "secrets", labels=OURS)
async def on_secret(event: Any, name: str, body: kopf.Body, toys: Any, **_: Any) -> None:
    await react("Secret", event, name, body, toys)


@kopf.on.event("apps", "v1", "deployments", labels=OURS)
async def on_workload(event: Any, name: str, body: kopf.Body, toys: Any, **_: Any) -> None:
    await react("Deployment", event, name, body, toys)
    await tell(name, first(toys, name), body)


@kopf.on.event(GROUP, VERSION, PLURAL)
async def on_toy(name: str, body: kopf.Body, workloads: Any, **_: Any) -> None:
    await tell(name, body, first(workloads, name))


async def tell(name: str, toy: Any, workload: Any) -> None:
    """The toy's status follows its Deployment, once it has one."""
    if toy is None or workload is None or not toy.status.get("conditions"):
        return
    found = status(toy.meta["generation"], toy.spec, workload.status.get("readyReplicas", 0), toy.status)
    if found != {key: toy.status.get(key) for key in found}:
        await api.patch(f"{TOYS}/{name}/status", {"status": found}, "application/merge-patch+json", fieldManager=AGENT)


if __name__ == "__main__":
    asyncio.run(kopf.operator(namespaces=[NAMESPACE], standalone=True))
