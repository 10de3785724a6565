"""A cluster that the user brought (`up --kubeconfig`): what it must have, and what it lacks, all named at once.

Called by `up` before it installs anything. It only asks; nothing is made.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any

from openstack_operator.runtime import client, errors

OLDEST = (1, 30)

COMPUTE, NETWORK = "openstack.k8s.io/compute", "openstack.k8s.io/network"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

# What the installation makes or changes, as (group, resource, verb).
NEEDED: tuple[tuple[str, str, str], ...] = (
    ("apiextensions.k8s.io", "customresourcedefinitions", "create"),
    ("rbac.authorization.k8s.io", "clusterroles", "create"),
    ("rbac.authorization.k8s.io", "clusterroles", "escalate"),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "create"),
    ("rbac.authorization.k8s.io", "clusterroles", "bind"),
    ("", "namespaces", "create"),
    ("", "serviceaccounts", "create"),
    ("", "services", "create"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "create"),
    ("apps", "deployments", "create"),
    ("openstack.k8s.io", "openstackcontrolplanes", "create"),
)


class ClusterError(errors.OperatorError):
    """The cluster cannot be used; the message names everything that is missing."""


async def check(kubeconfig: Path, *, guests: bool = False) -> None:
    """Raises ClusterError with all that the cluster lacks, ApiUnreachableError where nobody answers.

    ``guests``: whether a VM will be started, which takes a node for it.
    """
    async with client.Client(client.Config.load(str(kubeconfig)), "openstack-operator-cli") as api:
        found = old_version(await api.request("GET", "/version"))
        if await is_allowed(api, "storage.k8s.io", "storageclasses", "list"):
            classes = await api.request("GET", "/apis/storage.k8s.io/v1/storageclasses")
            found += missing_storage(classes["items"])
        else:
            found.append("no permission to list storageclasses.storage.k8s.io")
        if await is_allowed(api, "", "services", "list"):
            params = {"fieldSelector": "metadata.name=kubernetes"}
            services = await api.request("GET", "/api/v1/namespaces/default/services", params=params)
            found += wrong_family(services["items"])
        else:
            found.append("no permission to list services")
        if guests:
            found += await missing_nodes(api)
        for group, resource, verb in NEEDED:
            if not await is_allowed(api, group, resource, verb):
                found.append(f"no permission to {verb} {resource}{f'.{group}' if group else ''}")
    if found:
        raise ClusterError(f"the cluster of {kubeconfig} cannot be used:\n" + "\n".join(f"  - {one}" for one in found))


def old_version(version: dict[str, Any]) -> list[str]:
    """`version` is the answer of /version; some providers write the minor version as "30+"."""
    numbers = tuple(int(re.sub(r"\D", "", version[part]) or 0) for part in ("major", "minor"))
    if numbers >= OLDEST:
        return []
    return [f"it is Kubernetes {version['gitVersion']}, and {OLDEST[0]}.{OLDEST[1]} or later is needed"]


def missing_storage(classes: list[dict[str, Any]]) -> list[str]:
    """Databases and images are kept in volumes of the default StorageClass."""
    if any((c["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true" for c in classes):
        return []
    names = ", ".join(c["metadata"]["name"] for c in classes) or "none at all"
    return [f"it has no default StorageClass (classes: {names}): annotate one with {DEFAULT_CLASS}=true"]


def wrong_family(services: list[dict[str, Any]]) -> list[str]:
    """What Services get an address of is the family that pods are reached by. `services` is the API server's own one,
    which has the cluster's first family; uWSGI in front of every API listens on IPv4 alone (`http-socket = :port`)."""
    addresses = [one["spec"]["clusterIP"] for one in services]
    return [
        f"its Services get IPv6 addresses (default/kubernetes has {address}), and the APIs are served over IPv4: "
        "take a cluster with IPv4, or with both and IPv4 first"
        for address in addresses
        if ipaddress.ip_address(address).version == 6
    ]


async def missing_nodes(api: client.Client) -> list[str]:
    """Guests run on nodes that somebody chose for them."""
    if not await is_allowed(api, "", "nodes", "list"):
        return ["no permission to list nodes"]
    answer = await api.request("GET", "/api/v1/nodes", params={"labelSelector": f"{COMPUTE}=true"})
    if answer["items"]:
        return []
    return [
        f"no node has the label {COMPUTE}=true, which guests need: label one with it and with {NETWORK}=true, "
        "or start no VM (--no-vm)"
    ]


async def is_allowed(api: client.Client, group: str, resource: str, verb: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"group": group, "resource": resource, "verb": verb}},
    }
    answer = await api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)
    return bool(answer["status"]["allowed"])
