"""The operator process: which controllers run, and with which settings."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from openstack_operator import controlplane
from openstack_operator.kit import kinds, labels, settings
from openstack_operator.runtime import client, errors, lease, logs, manager, webhook
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
    webhook_port: int = 0,
) -> None:
    """Runs until SIGTERM."""
    chosen = choose(controllers)
    config = client.Config.load(kubeconfig)
    identity = os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"
    # A subset of the controllers must not wait for the lease of the others, and has a webhook of its own.
    name = "-".join([FIELD_MANAGER, *sorted(controllers)])
    election = manager.LeaseSettings(config.namespace, name, identity) if leader_election else None
    admission = webhook.Settings(
        configuration=name,
        webhook=settings.WEBHOOK,
        namespace=config.namespace,
        secret=settings.webhook_secret(name),
        names=(f"DNS:{name}.{config.namespace}.svc",),
        port=webhook_port,
        host=host,
    )
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
            admission=admission if webhook_port else None,
        )
        logs.get("run").info("starting", controllers=len(chosen), namespace=namespace or "all")
        await operator.run()


def parser() -> argparse.ArgumentParser:
    """The options. Plain argparse: the operator's pod does not pay for the libraries of the other commands."""
    options = argparse.ArgumentParser(
        prog="openstack-operator run",
        description="Run the operator until SIGTERM.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    options.add_argument("--controllers", default="", help="comma-separated services to run; all of them when empty")
    options.add_argument("--namespace", default="", help="only objects of this namespace; all of them when empty")
    options.add_argument("--kubeconfig", help="cluster to use; default: KUBECONFIG, then the pod's service account")
    options.add_argument(
        "--leader-election", default=True, action=argparse.BooleanOptionalAction, help="work only while holding a Lease"
    )
    options.add_argument("--health-port", type=int, default=8081, help="port of /healthz and /readyz; 0: none")
    options.add_argument("--metrics-port", type=int, default=8080, help="port of /metrics; 0: none")
    options.add_argument("--webhook-port", type=int, default=0, help="port of the admission webhook; 0: none")
    options.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    options.add_argument("--log-format", default="json", choices=("json", "human"))
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the operator's pod, and what ``openstack-operator run`` calls.

    Where the Lease is lost, as after ten seconds without an API server, the program begins anew in its process: nothing
    that it was at goes on, and it waits for the Lease at once. A container that ends is started again after 10, 20, 40
    and more seconds, in which nobody would repair anything.
    """
    options = parser().parse_args(arguments)
    logs.configure(options.log_level, options.log_format)
    try:
        asyncio.run(
            run(
                controllers=[name for name in options.controllers.split(",") if name],
                namespace=options.namespace or None,
                kubeconfig=options.kubeconfig,
                leader_election=options.leader_election,
                health_port=options.health_port,
                metrics_port=options.metrics_port,
                webhook_port=options.webhook_port,
            )
        )
    except lease.LostError as problem:
        logs.get("run").warning("begins anew", problem=str(problem))
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


if __name__ == "__main__":
    try:
        main()
    except errors.OperatorError as problem:
        sys.exit(f"error: {problem}")
