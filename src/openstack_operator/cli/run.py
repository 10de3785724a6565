"""The operator process: which controllers run, and with which settings."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import Any

from openstack_operator import controlplane
from openstack_operator.kit import kinds, labels
from openstack_operator.runtime import client, errors, logs, manager
from openstack_operator.runtime.controller import Controller

FIELD_MANAGER = "openstack-operator"


def choose(names: Sequence[str]) -> list[Controller[Any]]:
    """The controllers of the named services; all of them without a name.

    Raises ``errors.OperatorError`` that lists the known ones.
    """
    known = {service.name: service for service in controlplane.EVERYTHING}
    unknown = sorted(set(names) - known.keys())
    if unknown:
        raise errors.OperatorError(f"no controllers called {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [known[name] for name in names] if names else list(known.values())
    return [controller for service in chosen for controller in service.controllers]


async def run(
    *,
    controllers: Sequence[str] = (),
    namespace: str | None = None,
    kubeconfig: str | None = None,
    leader_election: bool = True,
    host: str = "0.0.0.0",
    health_port: int = 8081,
    metrics_port: int = 8080,
) -> None:
    """Runs until SIGTERM."""
    chosen = choose(controllers)
    config = client.Config.load(kubeconfig)
    identity = os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"
    # A subset of the controllers must not wait for the lease of the others.
    name = "-".join([FIELD_MANAGER, *sorted(controllers)])
    election = manager.LeaseSettings(config.namespace, name, identity) if leader_election else None
    async with client.Client(config, FIELD_MANAGER) as api:
        operator = manager.Manager(
            api,
            chosen,
            domain=kinds.DOMAIN,
            namespace=namespace,
            selectors=labels.selector_for,
            election=election,
            host=host,
            health_port=health_port,
            metrics_port=metrics_port,
        )
        logs.get("run").info("starting", controllers=len(chosen), namespace=namespace or "all")
        await operator.run()


def start(**arguments: Any) -> None:
    """``run`` in an event loop of its own."""
    asyncio.run(run(**arguments))
