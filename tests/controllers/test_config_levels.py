"""Configuration text at every level of a cloud, down to the file that a pod merges and oslo.config reads."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg
from world import HASH, condition, decoded

from openstack_operator.kit import config, levels
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds
from openstack_operator.services import neutron, nova

OPTIONS = (
    ("oslo_messaging_rabbit", "rabbit_qos_prefetch_count"),  # the operator sets it
    ("oslo_messaging_rabbit", "heartbeat_rate"),
    ("DEFAULT", "rpc_response_timeout"),
    ("DEFAULT", "executor_thread_pool_size"),
)


def text(level: int) -> str:
    """Text of a level (1 is the control plane's): sets the last options to its number and leaves one more to those
    above than the level above it did."""
    return "".join(f"[{section}]\n{name} = {level}\n" for section, name in OPTIONS[level - 1 :])


CLOUD = {
    "openstackclient": {"enabled": False},
    "glance": {"enabled": False},
    "customServiceConfig": "# for all\n" + text(1),
    "neutron": {"customServiceConfig": text(2), "agent": {"customServiceConfig": text(3)}},
    "nova": {
        "customServiceConfig": text(2),
        "api": {"customServiceConfig": text(4)},
        "cellTemplates": {
            "cell1": {
                "customServiceConfig": text(3),
                "conductor": {"customServiceConfig": text(4)},
                "computes": {"fake": {"driver": "Fake", "customServiceConfig": text(4)}},
            }
        },
    },
}


@pytest.fixture
async def cloud(world: Any, registered: set[str]) -> AsyncIterator[Any]:
    """A control plane whose Nova and Neutron have written their files; servers and Keystone are played by the test."""
    controllers = (*nova.SERVICE.controllers, *neutron.SERVICE.controllers)
    async with world.operator("openstackcontrolplane", controllers=controllers) as operator:
        world.settle = operator.settle
        await world.secret("neutron-metadata", secret="shared")
        await world.create(ours.CONTROL_PLANE, "cloud", CLOUD)
        for resource, status in (
            (ours.MEMCACHED, {"servers": ["memcached-0:11211"]}),
            (ours.KEYSTONE, {"internalUrl": "http://keystone:5000/v3", "publicUrl": "http://192.0.2.1:30500/v3"}),
            (ours.OVN_NETWORK, {"nbConnection": "tcp:ovn:6641", "sbConnection": "tcp:ovn:6642"}),
        ):
            name = {ours.OVN_NETWORK: "ovn"}.get(resource, resource.kind.lower())
            await world.until(resource, lambda item: item is not None, name)
            await world.patch(resource, name, {"status": status}, "status")
        names = ("nova_api", "nova_cell0", "nova_cell1", "neutron")
        await world.grant(ours.MARIADB, "databases", "mariadb", *names)
        await world.grant(ours.RABBITMQ, "vhosts", "rabbitmq", "nova", "nova-cell1", "neutron")
        for resource, name in PODS:
            await world.until(resource, lambda item: item is not None, name)
        yield world


API = (kinds.DEPLOYMENT, "nova-api")
CONDUCTOR = (kinds.DEPLOYMENT, "nova-conductor")
CELL_CONDUCTOR = (kinds.DEPLOYMENT, "nova-cell1-conductor")
PROXY = (kinds.DEPLOYMENT, "nova-cell1-novncproxy")
NETWORK = (kinds.DEPLOYMENT, "neutron-api")
AGENT = (kinds.DAEMONSET, "neutron-ovn-agent")
PODS = (API, CONDUCTOR, CELL_CONDUCTOR, PROXY, NETWORK, AGENT)


async def hashes(world: Any) -> dict[str, str]:
    found = {}
    for resource, name in PODS:
        item = await world.get(resource, name)
        found[name] = item["spec"]["template"]["metadata"]["annotations"][HASH]
    return found


async def rolled(world: Any, before: dict[str, str], expected: str) -> set[str]:
    """Waits for a change of one workload and for what follows; all that have changed."""
    resource = next(resource for resource, name in PODS if name == expected)

    def is_changed(item: Any) -> bool:
        return item["spec"]["template"]["metadata"]["annotations"][HASH] != before[expected]

    await world.until(resource, is_changed, expected)
    await world.settle()
    after = await hashes(world)
    return {name for name in after if after[name] != before[name]}


async def merged(world: Any, instance: str, directory: Path) -> Path:
    """What the pods' init container makes of their volumes."""
    source, target = directory / f"{instance}-source", directory / f"{instance}-merged"
    source.mkdir()
    target.mkdir()
    for key, value in (await world.get(kinds.CONFIGMAP, f"{instance}-config-data"))["data"].items():
        (source / key).write_text(value)
    for key, value in (await world.get(kinds.SECRET, f"{instance}-config-secrets")).get("data", {}).items():
        (source / key).write_bytes(base64.b64decode(value))
    script = (await world.get(kinds.CONFIGMAP, f"{instance}-scripts"))["data"]["merge.sh"]
    script = script.replace(config.SOURCE, str(source)).replace(config.MERGED, str(target))
    process = await asyncio.create_subprocess_exec("sh", "-c", script, env={"PATH": "/usr/bin:/bin", "DEFAULTS": ""})
    assert await process.wait() == 0
    return target


async def values(world: Any, instance: str, file: str, directory: Path) -> list[int]:
    """The options of the levels as the process reads them."""
    path = await merged(world, instance, directory) / file
    conf = cfg.ConfigOpts()
    for section, name in OPTIONS:
        conf.register_opt(cfg.IntOpt(name), group=None if section == "DEFAULT" else section)
    conf([], default_config_files=[str(path)], default_config_dirs=[])
    return [(conf if section == "DEFAULT" else conf[section])[name] for section, name in OPTIONS]


async def test_the_level_nearest_to_the_process_wins_option_by_option(cloud: Any, tmp_path: Path) -> None:
    """Case 18. Regression r35."""
    found = {
        instance: await values(cloud, instance, file, tmp_path)
        for instance, file in (
            ("nova-cell1-conductor", "nova.conf"),
            ("nova-cell1-novncproxy", "nova.conf"),
            ("nova-api", "nova.conf"),
            ("nova-scheduler", "nova.conf"),
            ("nova", "nova.conf"),
            ("neutron", "neutron.conf"),
            ("neutron-ovn-agent", "neutron-ovn-agent.ini"),
        )
    }
    assert found == {
        "nova-cell1-conductor": [1, 2, 3, 4],
        "nova-cell1-novncproxy": [1, 2, 3, 3],
        "nova-api": [1, 2, 2, 4],
        "nova-scheduler": [1, 2, 2, 2],
        "nova": [1, 2, 2, 2],
        "neutron": [1, 2, 2, 2],
        "neutron-ovn-agent": [1, 2, 3, 3],
    }
    data = (await cloud.get(kinds.CONFIGMAP, "nova-cell1-conductor-config-data"))["data"]
    assert [data[key].splitlines()[0] for key in sorted(data) if key.endswith("-custom")] == [
        "# spec.customServiceConfig of OpenStackControlPlane cloud",
        "# spec.customServiceConfig of Nova nova",
        "# spec.customServiceConfig of NovaCell nova-cell1",
        "# spec.customServiceConfig",
    ]
    placement = (await cloud.get(ours.PLACEMENT, "placement"))["spec"]
    assert placement.get("inheritedConfig", []) == [], "it has none of these options"


async def test_a_change_rolls_the_pods_below_the_level_that_read_it_and_no_others(cloud: Any) -> None:
    """Regression f88."""
    await cloud.settle()

    async def change(spec: Any, expected: str) -> set[str]:
        before = await hashes(cloud)
        await cloud.patch(ours.CONTROL_PLANE, "cloud", {"spec": spec})
        return await rolled(cloud, before, expected)

    cell: dict[str, Any] = {"conductor": {"customServiceConfig": text(4).replace("4", "5")}}
    assert await change({"nova": {"cellTemplates": {"cell1": cell}}}, CELL_CONDUCTOR[1]) == {CELL_CONDUCTOR[1]}
    cell = {"customServiceConfig": text(3).replace("3", "6")}
    found = await change({"nova": {"cellTemplates": {"cell1": cell}}}, PROXY[1])
    assert found == {CELL_CONDUCTOR[1], PROXY[1]}, "the conductor sets one of the two itself"
    found = await change({"neutron": {"agent": {"customServiceConfig": ""}}}, AGENT[1])
    assert found == {AGENT[1]}
    # Neutron has no such option.
    shared = {"customServiceConfig": text(1) + "[libvirt]\ncpu_mode = none\n"}
    assert await change(shared, API[1]) == {name for _, name in PODS} - {NETWORK[1], AGENT[1]}

    # What all say otherwise changes nothing for anybody.
    before = await hashes(cloud)
    versions = {item["metadata"]["name"]: item["metadata"]["generation"] for item in await cloud.all(ours.NEUTRON)}
    commented = {"customServiceConfig": "# another\n" + shared["customServiceConfig"]}
    await cloud.patch(ours.CONTROL_PLANE, "cloud", {"spec": commented})
    await cloud.until_condition(ours.CONTROL_PLANE, "cloud", "ConfigValid")
    await cloud.settle()
    assert await hashes(cloud) == before
    assert {
        item["metadata"]["name"]: item["metadata"]["generation"] for item in await cloud.all(ours.NEUTRON)
    } == versions


async def test_secrets_stand_at_every_level_and_roll_the_pods_that_read_them(cloud: Any, tmp_path: Path) -> None:
    def snippet(value: str) -> str:
        return f"[DEFAULT]\nrpc_response_timeout = {value}\n"

    libvirt = "[libvirt]\nrbd_secret_uuid = 00000000-0000-0000-0000-000000000001\n"
    await cloud.secret("one", **{"all": libvirt, "cell": snippet("77")})
    before = await hashes(cloud)
    part = {"configSecrets": [{"name": "one", "key": "cell"}]}
    await cloud.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"nova": {"cellTemplates": {"cell1": part}}}})
    assert await rolled(cloud, before, PROXY[1]) == {PROXY[1], CELL_CONDUCTOR[1]}
    assert (await values(cloud, "nova-cell1-novncproxy", "nova.conf", tmp_path))[2] == 77
    secret = decoded(await cloud.get(kinds.SECRET, "nova-cell1-novncproxy-config-secrets"))
    (key,) = [key for key in secret if key.endswith("-custom")]
    assert secret[key].startswith("# spec.configSecrets of NovaCell nova-cell1[0]: Secret one, key cell\n")

    before = await hashes(cloud)
    await cloud.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"configSecrets": [{"name": "one", "key": "all"}]}})
    assert await rolled(cloud, before, API[1]) == {name for _, name in PODS} - {NETWORK[1], AGENT[1]}, "what it has"

    before = await hashes(cloud)
    data = {"cell": base64.b64encode(snippet("78").encode()).decode()}
    await cloud.patch(kinds.SECRET, "one", {"data": data})
    assert await rolled(cloud, before, PROXY[1]) == {PROXY[1], CELL_CONDUCTOR[1]}

    data = {"all": base64.b64encode(b"[libvrt]\na = topsecret\n").decode()}
    await cloud.patch(kinds.SECRET, "one", {"data": data})
    text = "spec.configSecrets[0]: Secret one, key all: line 2: [libvrt] does not exist in any service of this cloud"
    await cloud.until(ours.CONTROL_PLANE, lambda item: text in condition(item, "ConfigValid")[2], "cloud")


async def test_a_text_for_all_that_nobody_can_read_stops_at_the_top(cloud: Any) -> None:
    await cloud.settle()
    before = await hashes(cloud)
    await cloud.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"customServiceConfig": "[DEFAULT]\ndebug\n"}})
    item = await cloud.until_condition(ours.CONTROL_PLANE, "cloud", "ConfigValid", "False", "InvalidConfig")
    message = f"spec.{levels.TEXT}: line 2: No ':' or '=' found in assignment: 'debug'"
    assert condition(item, "Stalled") == ("True", "InvalidConfig", f"ConfigValid: {message}")
    await cloud.settle()
    assert await hashes(cloud) == before
    await cloud.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"customServiceConfig": "[DEFAULT]\ndebgu = 1\n"}})
    item = await cloud.until_condition(ours.CONTROL_PLANE, "cloud", "ConfigValid")
    assert "debgu does not exist in any service of this cloud" in condition(item, "ConfigValid")[2]


async def test_inherited_text_that_a_service_cannot_take_is_named_with_its_origin(world: Any) -> None:
    inherited = [{"origin": "spec.customServiceConfig of Nova above", "text": "[DEFAULT]\ndebug = ture\n"}]
    async with world.operator("placement"):
        await world.create(ours.PLACEMENT, "placement", {"inheritedConfig": inherited})
        item = await world.until_condition(ours.PLACEMENT, "placement", "ConfigValid", "False", "InvalidConfig")
        message = condition(item, "ConfigValid")[2]
        assert message.startswith("spec.customServiceConfig of Nova above: line 2: [DEFAULT] debug must be true or")
