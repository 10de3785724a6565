"""The StatefulSet and Services of a server that other services ask for something (MariaDB, RabbitMQ)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openstack_operator.kit import names, workloads
from openstack_operator.runtime import errors, kinds
from openstack_operator.runtime.controller import Scope


async def ensure(scope: Scope[Any], pod: workloads.Pod, ports: Mapping[str, int], *, field: str, noun: str) -> None:
    """The server runs and accepts connections, under its own name and each member under one that is stable.

    ``field`` is where status lists what was granted (``kit.grants``), ``noun`` what people call the server. Raises
    ``errors.Waiting`` until it runs, and as long as nobody wants it to.
    """
    spec = scope.spec
    members = names.members_service(scope.name)
    await scope.apply(kinds.SERVICE, workloads.service(pod, members, ports, headless=True))
    # There is one pod at most: nobody is better off where a server that is not well cannot be reached either. One whose
    # volume is full answers still what it only has to read.
    await scope.apply(kinds.SERVICE, workloads.service(pod, scope.name, ports, only_ready=False))
    body = workloads.stateful_set(pod, scope.name, spec.replicas, volume=spec, service_name=members)
    item = await workloads.apply_stateful_set(scope, body, spec)
    scope.status["replicas"] = item.get("status", {}).get("replicas", 0)
    # What was granted stands whether the server is up or not; the next step observes it again.
    scope.status[field] = scope.object.get("status", {}).get(field, [])
    workloads.wait(scope, kinds.STATEFULSET, item)
    if spec.replicas == 0:
        raise errors.Waiting("NoReplicas", f"spec.replicas is 0: the {noun} is stopped")
