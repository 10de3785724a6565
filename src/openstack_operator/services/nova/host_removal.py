"""Compute hosts that no template asks for any more: Nova forgets them once they are empty.

A host leaves when its group goes from ``computes``, or its node loses the labels or goes. Its nova-compute ends then,
but the service stays in Nova, down, and with it the host's mapping and its provider in Placement. All of these go with
the service, which Nova gives up only when no server is on the host.

    no template asks for it ──> its nova-compute ends ──> Nova takes it for down ──> empty? ── yes ──> service deleted
                                                                                       │ no
                                                                                  HostsInUse: everything stays

Only hosts of the register (``hosts``) are looked at: a nova-compute that somebody else runs is never touched. Those of
a cell that leaves as a whole are the business of ``removal``. A node that moved to another cell is asked for, so its
old service stays, down: Nova deletes with a service the mapping of the host's name and the provider of its identity,
which are those of the new one as well.

Ready does not depend on it: what is left of a host is in nobody's way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openstack_operator.kit import kinds, labels, verified
from openstack_operator.runtime import errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.conditions import Outcome
from openstack_operator.runtime.controller import Scope
from openstack_operator.runtime.informer import Key
from openstack_operator.services.nova import compute_api, hosts, removal
from openstack_operator.services.nova.types import NovaSpec

COMPONENT = "compute"
SHOWN = 10
WHAT = "host removal"


async def ensure(scope: Scope[NovaSpec]) -> Outcome | None:
    """Nova has forgotten the compute hosts that no template asks for any more. Ready does not wait for it."""
    if verified.is_assumed(scope):
        return None
    cells = set(scope.spec.cell_templates)
    gone = _unasked(scope)
    lost = {host for host, cell in gone.items() if cell not in cells and cell not in removal.places(scope)}
    leaving = sorted(host for host, cell in gone.items() if cell in cells)
    working = _hosts_with_pods(scope)
    kept = {host: "its nova-compute ends" for host in leaving if host in working}
    ended = [host for host in leaving if host not in working]
    if ended:
        facts = scope.facts
        kept |= await compute_api.remove_hosts(
            facts["identity.url"],
            facts["service_user.user"],
            facts["service_user.password"],
            removal.api_url(scope),
            ended,
        )
    removed = [host for host in leaving if host not in kept]
    if removed or lost:
        await hosts.forget(scope, [*removed, *lost])
        # On a host that comes back soon servers cannot boot until it is mapped again.
        verified.forget(scope, "hosts")
    if removed:
        await scope.event("Normal", "HostsRemoved", f"Nova has forgotten {', '.join(removed[:SHOWN])}")
    return _outcome(scope, gone, working, kept)


def _outcome(
    scope: Scope[NovaSpec], cells: Mapping[str, str], working: set[str], kept: Mapping[str, str]
) -> Outcome | None:
    text = "; ".join(f"host {host} of cell {cells[host]}: {why}" for host, why in sorted(kept.items())[:SHOWN])
    if compute_api.RUNS in kept.values():
        # That it is down is told by nothing but time.
        raise errors.Waiting("HostsEnding", text, retry_after=verified.look_again(scope, WHAT))
    verified.note(scope, WHAT, "")
    if kept.keys() - working:
        return Outcome("False", "HostsInUse", f"{text}. {ADVICE}")
    if kept:
        raise errors.Waiting("HostsEnding", text)
    return None


ADVICE = (
    "No template asks for what is named here, and Nova keeps it until it is empty: move or delete the servers, or ask "
    "for the host again (the labels of its node, spec.cellTemplates)"
)


def _unasked(scope: Scope[NovaSpec]) -> dict[str, str]:
    """Cell of each host of the register that no template asks for, and on which no cell says that it works."""
    nodes = scope.manager.informer(built_in.NODE).items()
    wanted = hosts.asked(scope.name, scope.spec, nodes).keys() | hosts.wanted(scope).keys()
    return {host: cell for host, cell in hosts.registered(scope).items() if host not in wanted}


def _hosts_with_pods(scope: Scope[NovaSpec]) -> set[str]:
    pods = scope.items(built_in.POD)
    return {host_of(pod) for pod in pods if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")}


def host_of(pod: Object) -> str:
    """The host for which a pod is nova-compute; empty for all other pods."""
    tags = pod["metadata"].get("labels", {})
    if (tags.get(labels.OWNER_KIND), tags.get(labels.COMPONENT)) != (kinds.NOVA_COMPUTE.kind, COMPONENT):
        return ""
    # One that keeps its servers in memory is in a Deployment, and a host by its own name.
    is_fake = any(owner["kind"] == "ReplicaSet" for owner in pod["metadata"].get("ownerReferences", []))
    return str(tags[labels.OWNER_NAME] if is_fake else pod["spec"].get("nodeName", ""))


def novas_of_ending_pod(pod: Object, manager: Any) -> Iterator[Key]:
    """Of a nova-compute that is ending: the Nova that has its host in the register. For ``Watch``."""
    if "deletionTimestamp" not in pod["metadata"] or not (host := host_of(pod)):
        return
    namespace = pod["metadata"]["namespace"]
    for nova in manager.informer(kinds.NOVA).items(namespace):
        name = nova["metadata"]["name"]
        item = manager.informer(built_in.CONFIGMAP).get(namespace, hosts.register_name(name))
        if host in ((item or {}).get("data") or {}):
            yield namespace, name
