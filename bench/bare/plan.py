"""The order of a bare bring-up: steps with what each needs, run by two chains at a time on two cores.

The order is that of a person who knows it by heart: each chain takes the first step of the table whose needs are met
and holds it until it answers. The steps between processes (databases, users, catalogue) are the operator's own code,
called once each.
"""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import aiohttp

from bare.processes import BareError, Machine
from bare.snapshot import Snapshot
from openstack_operator.embedded import addresses
from openstack_operator.kit import identity
from openstack_operator.runtime import errors
from openstack_operator.services.keystone.config import PORT
from openstack_operator.services.mariadb import sql
from openstack_operator.services.nova import compute_api
from openstack_operator.services.rabbitmq.config import MANAGEMENT_PORT
from openstack_operator.services.rabbitmq.management import Management

CHAINS = 2
LOOK_AGAIN_SECONDS = 1.0
HOST_SECONDS = 60

# Name of a pod or of an action below: what must be done before. The critical path comes first.
STEPS: Mapping[str, tuple[str, ...]] = {
    "mariadb-0": (),
    "rabbitmq-0": (),
    "databases": ("mariadb-0",),
    "keystone-bootstrap": ("databases",),
    "memcached-0": (),
    "keystone-api": ("keystone-bootstrap", "memcached-0"),
    "nova-cells": ("databases",),
    "ovn-nb-0": (),
    "ovn-sb-0": (),
    "ovn-openvswitch": (),
    "ovn-northd": ("ovn-nb-0", "ovn-sb-0"),
    "ovn-gateway": ("ovn-sb-0", "ovn-openvswitch"),
    "virtual-hosts": ("rabbitmq-0",),
    "placement-db-sync": ("databases",),
    "neutron-db-sync": ("databases",),
    "glance-db-sync": ("databases",),
    "catalog": ("keystone-api",),
    "nova-cell1-compute-libvirt": (),
    "placement-api": ("placement-db-sync", "keystone-api"),
    "nova-cell1-conductor": ("nova-cells", "virtual-hosts", "catalog"),
    "nova-cell1-compute": ("nova-cell1-conductor", "placement-api", "nova-cell1-compute-libvirt", "ovn-gateway"),
    "neutron-api": ("neutron-db-sync", "catalog", "virtual-hosts", "ovn-northd"),
    "nova-api": ("nova-cells", "catalog", "virtual-hosts"),
    "nova-scheduler": ("nova-cells", "virtual-hosts", "catalog", "placement-api"),
    "nova-conductor": ("nova-cells", "virtual-hosts", "catalog"),
    "glance-api": ("glance-db-sync", "catalog"),
    "nova-metadata": ("nova-cells", "catalog", "virtual-hosts"),
    "neutron-rpc-server": ("neutron-api",),
    "neutron-ovn-agent": ("ovn-gateway",),
    "neutron-ovn-maintenance-worker": ("neutron-api",),
    "neutron-periodic-workers": ("neutron-api",),
    "nova-cell1-novncproxy": ("nova-cells",),
    "openstackclient": (),
    "hosts": ("nova-cell1-compute", "nova-api", "nova-scheduler"),
}


@dataclass(frozen=True)
class Span:
    """When a step ran, in seconds since the clock was started."""

    name: str
    begin: float
    end: float


class BringUp:
    """One bring-up. ``run`` gives the spans of its steps."""

    def __init__(self, snapshot: Snapshot, machine: Machine) -> None:
        self._snapshot, self._machine = snapshot, machine
        self._actions: Mapping[str, Callable[[], Awaitable[None]]] = {
            "databases": self._make_databases,
            "virtual-hosts": self._make_virtual_hosts,
            "catalog": self._register,
            "hosts": self._wait_for_hosts,
        }
        known, live = set(STEPS) - set(self._actions), set(snapshot.pods)
        if known != live:
            raise BareError(f"the plan and the cloud differ in {', '.join(sorted(known ^ live))}: mend bare/plan.py")

    async def run(self, clock: float) -> list[Span]:
        """All steps; ``clock`` is the reading of ``time.monotonic`` that counts as zero."""
        due, done, spans = dict(STEPS), set[str](), list[Span]()
        running: dict[asyncio.Task[None], tuple[str, float]] = {}
        try:
            while due or running:
                ready = [name for name, needs in due.items() if done.issuperset(needs)]
                for name in ready[: CHAINS - len(running)]:
                    del due[name]
                    running[asyncio.ensure_future(self._step(name))] = name, time.monotonic() - clock
                ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
                    name, begin = running.pop(task)
                    done.add(name)
                    spans.append(Span(name, begin, time.monotonic() - clock))
        finally:
            for task in running:
                task.cancel()
        return spans

    async def _step(self, name: str) -> None:
        if action := self._actions.get(name):
            await action()
        else:
            await self._machine.start(self._snapshot.pods[name])

    async def _make_databases(self) -> None:
        root = self._snapshot.secret("mariadb-root")

        def grant() -> None:
            with sql.session(self._snapshot.address("mariadb"), root["password"]) as cursor:
                for one in self._snapshot.databases:
                    sql.grant(cursor, one.name, one.user, one.password)

        await asyncio.to_thread(grant)

    async def _make_virtual_hosts(self) -> None:
        admin = self._snapshot.secret("rabbitmq-admin")
        address = self._snapshot.address("rabbitmq")
        async with Management(address, MANAGEMENT_PORT, admin["user"], admin["password"]) as management:
            for one in self._snapshot.vhosts:
                await management.grant(one.name, one.user, one.password)

    async def _register(self) -> None:
        admin = self._snapshot.secret("keystone-admin")
        async with identity.Client(self._keystone, admin) as api:
            for user in self._snapshot.users:
                await api.ensure_user(user.user, user.password)
            for endpoint in self._snapshot.catalog:
                await api.ensure_endpoint(endpoint, self._snapshot.region)

    async def _wait_for_hosts(self) -> None:
        """Until nothing is missing at the compute host, as the operator sees it."""
        nova = next(one for one in self._snapshot.users if one.user == "nova")
        compute = next(one.internal for one in self._snapshot.catalog if one.type == "compute")
        url = urllib.parse.urlsplit(compute)
        assert url.hostname is not None
        service = url.hostname.partition(".")[0]
        compute = compute.replace(url.hostname, self._snapshot.address(service))
        async with asyncio.timeout(HOST_SECONDS):
            while True:
                try:
                    if not await compute_api.missing_hosts(
                        self._keystone, nova.user, nova.password, compute, "", [addresses.NODE_NAME]
                    ):
                        return
                except (errors.Unavailable, aiohttp.ClientError):
                    # The API says 404 or 500 until the first service of the cell has reported.
                    pass
                await asyncio.sleep(LOOK_AGAIN_SECONDS)

    @property
    def _keystone(self) -> str:
        return f"http://{self._snapshot.address('keystone-api')}:{PORT}/v3"
