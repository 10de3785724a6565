"""Requests of the operator with all its controllers for a whole cloud, from nothing to Ready.

What a node would do is played by the benchmark's `alone/workloads.py`, and what is outside of the cluster's API counts
as being as it should.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from budgets import hold

import watching
from alone import clouds, workloads
from openstack_operator import controlplane
from openstack_operator.cli import run
from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import kinds as ours
from openstack_operator.kit import labels, verified
from openstack_operator.runtime import client, conditions, kinds, manager

NAMESPACE, NAME, AGENT = "cloud", "openstack", "budget"
SECONDS = 240


def requests(cluster: ControlPlane, since: int) -> list[str]:
    """Resources of the requests of the operator, watches, LISTs and Events left out; `…/status` for those of status."""
    found = []
    for event in cluster.audit_events(since):
        is_ours = event.get("userAgent") == AGENT and event["stage"] == "ResponseComplete"
        reference = event.get("objectRef", {})
        if is_ours and event["verb"] not in ("watch", "list") and reference.get("resource") != "events":
            found.append("/".join(filter(None, (reference["resource"], reference.get("subresource")))))
    return found


def is_quiet(operator: manager.Manager) -> bool:
    queues = [runner.queue for runner in operator.runners]
    # Messages that came too early are written two seconds later.
    return not any(queue.busy or len(queue) or queue.soon(3.0) for queue in queues)


async def test_a_cloud_costs_no_more_writes_than_it_may(own_apiserver: ControlPlane) -> None:
    cluster = own_apiserver
    crds = [kinds.crd(kind) for service in controlplane.EVERYTHING for kind in service.kinds]
    cluster.apply(*crds, clouds.STORAGE_CLASS)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    config = client.Config.from_kubeconfig(cluster.kubeconfig)
    async with client.Client(config, "user") as user, client.Client(config, AGENT) as api:
        await user.create(kinds.NODE, workloads.node(NAMESPACE))
        await user.create(kinds.NAMESPACE, {"metadata": {"name": NAMESPACE}})
        operator = manager.Manager(
            api, run.choose(()), domain=ours.DOMAIN, namespace=NAMESPACE, selectors=labels.selector_for
        )
        verified.assume(operator, lambda scope, what, fingerprint: None)
        player = workloads.Workloads(user, NAMESPACE, workloads.WORKLOADS, pods=True)
        tasks = [asyncio.ensure_future(player.run()), asyncio.ensure_future(operator.run(handle_signals=False))]
        try:
            await watching.eventually(lambda: operator.started.is_set() or tasks[1].done(), "caches synced")
            before = cluster.audit_size()
            templates = {"cell1": {"computes": {"compute": {"driver": "Fake"}}}}
            body: dict[str, Any] = {
                "metadata": {"name": NAME, "namespace": NAMESPACE},
                "spec": {"nova": {"cellTemplates": templates}},
            }
            await user.create(ours.CONTROL_PLANE, body)
            await watching.until(user, ours.CONTROL_PLANE, NAMESPACE, NAME, conditions.is_ready, SECONDS)
            await watching.eventually(lambda: is_quiet(operator), "nothing left to do", SECONDS)
            found = requests(cluster, before)
            hold("control_plane.requests", len(found))
            hold("control_plane.status_writes", sum(one.endswith("/status") for one in found))
            hold("control_plane.own_status_writes", found.count(f"{ours.CONTROL_PLANE.plural}/status"))

            before = cluster.audit_size()
            for runner in operator.runners:
                for item in operator.informer(runner.controller.kind.resource).items():
                    runner.enqueue((NAMESPACE, item["metadata"]["name"]))
            await watching.eventually(lambda: is_quiet(operator), "nothing left to do", SECONDS)
            hold("control_plane.idle_requests", len(requests(cluster, before)))
        finally:
            operator.stop()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(tasks[1]), 20)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
