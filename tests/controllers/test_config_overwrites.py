"""Whole files of users in the place of a service's own, from the spec to the merged directory of a pod."""

from __future__ import annotations

from typing import Any

import pytest
from world import HASH, condition

from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds
from openstack_operator.services import nova

RULES = "os_compute_api:servers:create: role:member\n"
PASTE = "[composite:osapi_compute]\nuse = call:nova.api.openstack.urlmap:urlmap_factory\n"
LOGGING = "[loggers]\nkeys = root\n[handlers]\nkeys =\n[formatters]\nkeys =\n[logger_root]\nhandlers =\n"
PARTS = ("nova-api", "nova-scheduler", "nova-conductor", "nova-cell1-conductor", "nova-cell1-novncproxy")


async def surroundings(world: Any) -> None:
    for resource in (ours.MARIADB, ours.RABBITMQ, ours.MEMCACHED, ours.KEYSTONE, ours.PLACEMENT):
        await world.create(resource, resource.kind.lower(), {})
    await world.patch(ours.MEMCACHED, "memcached", {"status": {"servers": ["memcached-0:11211"]}}, "status")
    urls = {"internalUrl": "http://keystone:5000/v3", "publicUrl": "http://192.0.2.1:30500/v3"}
    await world.patch(ours.KEYSTONE, "keystone", {"status": urls}, "status")
    await world.secret("neutron-metadata", secret="shared")


async def hashes(world: Any) -> dict[str, str]:
    found = {}
    for name in PARTS:
        item = await world.until(kinds.DEPLOYMENT, lambda item: item is not None, name)
        found[name] = item["spec"]["template"]["metadata"]["annotations"][HASH]
    return found


async def data(world: Any, instance: str) -> dict[str, str]:
    found: dict[str, str] = (await world.get(kinds.CONFIGMAP, f"{instance}-config-data"))["data"]
    return found


@pytest.mark.usefixtures("registered")
async def test_files_reach_the_processes_that_read_them_and_roll_those_alone(world: Any) -> None:
    """Case 24."""
    async with world.operator("glance", controllers=nova.SERVICE.controllers) as operator:

        async def change(spec: Any, expected: str) -> set[str]:
            before = await hashes(world)
            await world.patch(ours.NOVA, "nova", {"spec": spec})

            def is_changed(item: Any) -> bool:
                return item["spec"]["template"]["metadata"]["annotations"][HASH] != before[expected]

            await world.until(kinds.DEPLOYMENT, is_changed, expected)
            await operator.settle()
            after = await hashes(world)
            return {name for name in PARTS if after[name] != before[name]}

        await surroundings(world)
        await world.create(ours.NOVA, "nova", {})
        databases = ("nova_api", "nova_cell0", "nova_cell1")
        await world.grant(ours.MARIADB, "databases", "mariadb", *databases)
        await world.grant(ours.RABBITMQ, "vhosts", "rabbitmq", "nova", "nova-cell1")
        await hashes(world)
        await operator.settle()
        jobs = await world.names(kinds.JOB)

        files = {"policy.yaml": RULES, "api-paste.ini": PASTE}
        found = await change({"defaultConfigOverwrite": files}, "nova-api")
        assert found == set(PARTS) - {"nova-cell1-novncproxy"}, "the proxy reads no rules"
        api = await data(world, "nova-api")
        assert (api["policy.yaml"], api["api-paste.ini"]) == (RULES, PASTE)
        assert "policy_file = /var/lib/config-data/merged/policy.yaml\n" in api["nova.conf.10-generated"]
        assert sorted(await data(world, "nova-scheduler")) == ["nova.conf.10-generated", "policy.yaml"]
        assert await world.names(kinds.JOB) == jobs, "no Job reads them"

        # The paste file alone, then one component alone, whose own file wins.
        files = {"api-paste.ini": PASTE.replace("urlmap", "urlmap2")}
        assert await change({"defaultConfigOverwrite": files}, "nova-api") == {"nova-api"}
        own = {"policy.yaml": RULES.replace("member", "reader"), "logging.conf": LOGGING}
        conductor = {"conductor": {"defaultConfigOverwrite": own}}
        found = await change({"cellTemplates": {"cell1": conductor}}, "nova-cell1-conductor")
        assert found == {"nova-cell1-conductor"}
        written = await data(world, "nova-cell1-conductor")
        assert (written["policy.yaml"], written["logging.conf"]) == (own["policy.yaml"], LOGGING)
        assert "log_config_append = /var/lib/config-data/merged/logging.conf\n" in written["nova.conf.10-generated"]

        # Comments, quotes and order are nothing to the process.
        before = await hashes(world)
        files = {"policy.yaml": "# why\n'os_compute_api:servers:create':   'role:member'\n"}
        await world.patch(ours.NOVA, "nova", {"spec": {"defaultConfigOverwrite": files}})
        await world.until(kinds.CONFIGMAP, lambda item: "# why" in item["data"]["policy.yaml"], "nova-api-config-data")
        await operator.settle()
        assert await hashes(world) == before

        files = {"policy.json": "{}"}
        await world.patch(ours.NOVA, "nova", {"spec": {"defaultConfigOverwrite": files}})
        item = await world.until_condition(ours.NOVA, "nova", "ConfigValid", "False", "InvalidConfig")
        assert condition(item, "ConfigValid")[2] == (
            "spec.defaultConfigOverwrite[policy.json]: is none of the files that can be overwritten here: "
            "api-paste.ini, logging.conf, policy.yaml"
        )
        await operator.settle()
        assert await hashes(world) == before, "running pods keep what they have"
