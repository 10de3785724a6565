"""The Services of an API and the URLs that follow from them."""

from __future__ import annotations

from typing import Any

from openstack_operator.kit import names, workloads
from openstack_operator.kit.types import PublicEndpoint
from openstack_operator.runtime import errors, kinds
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Scope


async def ensure(
    scope: Scope[Any],
    pod: workloads.Pod,
    port: int,
    wanted: PublicEndpoint | None,
    *,
    name: str = "",
    port_name: str = "api",
) -> tuple[str, str]:
    """Makes the internal Service (called ``name``, by default `<instance>-api`) and, unless the type is ClusterIP, the
    public one; returns both base URLs without a path.

    Raises ``errors.Waiting`` while a load balancer has no address or no node has one.
    """
    public = wanted or PublicEndpoint()
    internal = name or names.api_service(scope.name)
    await scope.apply(kinds.SERVICE, workloads.service(pod, internal, {port_name: port}))
    internal_url = f"http://{names.dns(internal, scope.namespace)}:{port}"
    external = names.public_service(scope.name)
    if public.type == "ClusterIP":
        await scope.delete(kinds.SERVICE, external)
        return internal_url, f"http://{public.host}:{port}" if public.host else internal_url
    service = await scope.apply(
        kinds.SERVICE,
        workloads.service(pod, external, {port_name: port}, kind=public.type, node_port=public.node_port),
    )
    if public.type == "NodePort":
        node_port = service["spec"]["ports"][0].get("nodePort")
        if not node_port:
            raise errors.Waiting(
                "NoNodePort", f"Service {scope.namespace}/{external} has no node port yet", on=kinds.SERVICE.kind
            )
        return internal_url, f"http://{_bracketed(public.host or _node_address(scope))}:{node_port}"
    address = public.host or _balancer_address(service)
    if not address:
        message = f"Service {scope.namespace}/{external} has no load balancer address yet"
        raise errors.Waiting("NoLoadBalancer", message, on=kinds.SERVICE.kind)
    return internal_url, f"http://{_bracketed(address)}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _balancer_address(service: Object) -> str:
    for entry in service.get("status", {}).get("loadBalancer", {}).get("ingress") or []:
        address: str = entry.get("hostname") or entry.get("ip") or ""
        if address:
            return address
    return ""


def _node_address(scope: Scope[Any]) -> str:
    """Internal address of the first node by name: stable while that node lives."""
    nodes = sorted(scope.manager.informer(kinds.NODE).items(), key=lambda node: str(node["metadata"]["name"]))
    for node in nodes:
        for address in node.get("status", {}).get("addresses", []):
            if address["type"] == "InternalIP":
                found: str = address["address"]
                return found
    raise errors.Waiting("NoNode", "no node has an internal address; set spec.publicEndpoint.host", on=kinds.NODE.kind)
