"""The toys' controller on our runtime (tests/runtime), with a Lease as the operator's own.

`toys` starts it as a program: `toy_operator.py KUBECONFIG NAMESPACE LEASE USER-AGENT`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/runtime"))

import toy

from openstack_operator.runtime import client, logs, manager


async def main(kubeconfig: str, namespace: str, lease: str, agent: str) -> None:
    logs.configure()
    election = manager.LeaseSettings(namespace, lease, agent)
    async with client.Client(client.Config.from_kubeconfig(Path(kubeconfig)), agent) as api:
        await manager.Manager(api, [toy.toys()], domain=toy.DOMAIN, namespace=namespace, election=election).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
