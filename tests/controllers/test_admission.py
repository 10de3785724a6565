"""Objects of ours at a real API server that asks the operator's webhook: samples, and what holds without it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator import controlplane
from openstack_operator.embedded.apiserver import free_ports
from openstack_operator.kit import kinds as ours
from openstack_operator.kit import settings
from openstack_operator.runtime import errors, kinds, webhook

SAMPLES = Path(__file__).parents[2] / "deploy" / "samples"
SAID = re.compile(r"^# expect-(admission|warning): (.+)$", re.MULTILINE)
INVALID = {path.stem: path.read_text() for path in sorted((SAMPLES / "invalid").glob("*.yaml"))}
VALID = {path.stem: path.read_text() for path in sorted((SAMPLES / "valid").glob("*.yaml"))}
EVERYTHING = [service.name for service in controlplane.EVERYTHING]
RESOURCES = [kind.resource for service in controlplane.EVERYTHING for kind in service.kinds]


@contextlib.asynccontextmanager
async def judging(world: Any, *services: str) -> AsyncIterator[Any]:
    """An operator that is asked about objects of this namespace; the API server asks it already."""
    port = free_ports(1)[0]
    where = {"url": f"https://127.0.0.1:{port}{webhook.PATH}"}
    body = webhook.configuration(world.namespace, settings.WEBHOOK, RESOURCES, where, "nobody")
    body["webhooks"][0]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    await world.api.create(kinds.VALIDATINGWEBHOOKCONFIGURATION, body)
    names = webhook.Settings(
        world.namespace, settings.WEBHOOK, world.namespace, "webhook", ("IP:127.0.0.1",), port, "127.0.0.1"
    )
    try:
        async with world.operator(*(services or EVERYTHING), admission=names) as operator:
            await until_asked(world)
            yield operator
    finally:
        await world.api.delete(kinds.VALIDATINGWEBHOOKCONFIGURATION, world.namespace)


async def until_asked(world: Any) -> None:
    """The API server learns of a configuration, and of whom it trusts, by a watch of its own."""
    async with asyncio.timeout(20):
        while True:
            if await is_asked(world):
                return
            await asyncio.sleep(0.05)


async def is_asked(world: Any) -> bool:
    body = {
        "apiVersion": ours.KEYSTONE.api_version,
        "kind": ours.KEYSTONE.kind,
        "metadata": {"name": "probe", "namespace": world.namespace},
        "spec": {"customServiceConfig": "nonsense"},
    }
    try:
        await world.api.request("POST", f"{ours.KEYSTONE.path(world.namespace)}?dryRun=All", body=body)
    except errors.ApiError:
        return True
    return False


async def kubectl(world: Any, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """What a person sees."""
    command = [str(world.cluster.cluster.programs / "kubectl"), f"--kubeconfig={world.cluster.kubeconfig}"]
    return await asyncio.to_thread(
        subprocess.run, [*command, "-n", world.namespace, *arguments], input=text, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("sample", [name for name, text in INVALID.items() if SAID.search(text)])
async def test_a_sample_is_refused_or_warned_of_as_it_says(world: Any, sample: str) -> None:
    text = INVALID[sample].replace("namespace: openstack\n", f"namespace: {world.namespace}\n")
    found = SAID.search(text)
    assert found is not None
    what, message = found[1], found[2].replace(" openstack/", f" {world.namespace}/")
    async with judging(world) as operator:
        *before, last = yaml.safe_load_all(text)
        for item in before:
            said = await kubectl(world, "apply", "-f", "-", text=yaml.safe_dump(item))
            assert said.returncode == 0, said.stderr
        if what == "admission":
            await operator.settle()
        said = await kubectl(world, "apply", "-f", "-", text=yaml.safe_dump(last))
        if what == "warning":
            assert said.returncode == 0
            assert f"Warning: {message}\n" in said.stderr
        else:
            assert said.returncode == 1
            assert message in said.stderr
            # Warnings stand in lines before it.
            assert f'The {last["kind"]} "{last["metadata"]["name"]}" is invalid: ' in said.stderr


async def test_valid_samples_are_let_through(world: Any) -> None:
    async with judging(world):
        for sample, text in VALID.items():
            text = text.replace("namespace: openstack\n", f"namespace: {world.namespace}\n")
            said = await kubectl(world, "create", "--dry-run=server", "-f", "-", text=text)
            assert said.returncode == 0, (sample, said.stderr)


def cloud_text(spec: dict[str, Any]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": ours.CONTROL_PLANE.api_version,
            "kind": ours.CONTROL_PLANE.kind,
            "metadata": {"name": "cloud"},
            "spec": spec,
        }
    )


async def test_what_to_write_instead_is_told_however_deep_the_field_is(world: Any) -> None:
    text = "[libvirt]\ncpu_modell = Nehalem\n"
    spec = {"nova": {"cellTemplates": {"cell1": {"computes": {"compute": {"customServiceConfig": text}}}}}}
    async with judging(world):
        said = await kubectl(world, "apply", "--dry-run=server", "-f", "-", text=cloud_text(spec))
    assert said.returncode == 0
    assert said.stderr.splitlines() == [
        "Warning: spec.nova.cellTemplates.cell1.computes.compute.customServiceConfig: line 2: [libvirt] cpu_modell "
        "does not exist in nova 2026.1 (did you mean cpu_models?)"
    ]


async def test_all_that_is_wrong_in_a_cloud_is_said_at_once(world: Any) -> None:
    """Case 109. Regression h17."""
    spec = {
        "keystone": {"customServiceConfig": "debug = true\n"},
        "glance": {"customServiceConfig": "[DEFAULT]\nthis is no option\n", "storageClass": "none-such"},
        "placement": {"enabled": False},
        "nova": {"cellTemplates": {"cell1": {"computes": {"fast": {"customServiceConfig": "x"}}}}},
    }
    async with judging(world):
        said = await kubectl(world, "apply", "-f", "-", text=cloud_text(spec))
    assert said.stderr.splitlines() == [
        'The OpenStackControlPlane "cloud" is invalid: ',
        "* spec.keystone.customServiceConfig: line 1: no [section] before this option: 'debug = true'",
        "* spec.glance.customServiceConfig: line 2: No ':' or '=' found in assignment: 'this is no option'",
        "* spec.nova.cellTemplates.cell1.computes.fast.customServiceConfig: line 1: "
        "no [section] before this option: 'x'",
        "* spec.nova.enabled: nova needs placement, which is disabled",
    ]


async def test_without_the_webhook_bad_text_is_caught_by_the_condition_and_mended(world: Any) -> None:
    """Case 105: written in an outage, refused by the controller, mended with the webhook; other edits go on."""
    await world.create(ours.MARIADB, "mariadb", {})
    await world.create(ours.MEMCACHED, "memcached", {})
    bad = "[DEFAULT]\ndebug = true\nnonsense\n"
    async with judging(world, "keystone"):
        pass
    await world.create(ours.KEYSTONE, "keystone", {"customServiceConfig": bad})
    playing = asyncio.ensure_future(world.play_servers())
    async with judging(world, "memcached", "keystone"):
        text = "spec.customServiceConfig: line 3"
        await world.until_condition(ours.KEYSTONE, "keystone", "ConfigValid", "False", "InvalidConfig", text)
        said = await kubectl(world, "scale", "keystone/keystone", "--replicas=0")
        assert said.returncode == 0, said.stderr
        said = await kubectl(world, "label", "keystone/keystone", "a=b")
        assert said.returncode == 0, said.stderr
        said = await kubectl(
            world, "patch", "keystone/keystone", "--type=merge", "-p", '{"spec":{"fernet":{"rotationHours":12}}}'
        )
        assert said.returncode == 0, said.stderr
        assert said.stderr.startswith(f"Warning: {text}: ")
        with pytest.raises(errors.ApiError, match="line 1: no"):
            await world.patch(ours.KEYSTONE, "keystone", {"spec": {"customServiceConfig": "worse"}})
        await world.patch(ours.KEYSTONE, "keystone", {"spec": {"customServiceConfig": ""}})
        await world.until_condition(ours.KEYSTONE, "keystone", "ConfigValid")
        await world.delete(ours.KEYSTONE, "keystone")
    playing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await playing


# Fields that nothing of ours can change afterwards. Each is held by the schema: a webhook may be away.
IMMUTABLE = [
    (
        ours.NOVA_CELL,
        "cellName",
        "cell2",
        {
            "cellName": "cell1",
            "authUrl": "http://keystone/v3",
            "memcachedServers": "memcached:11211",
            "serviceUserSecretRef": {"name": "user"},
            "messagingSecretRef": {"name": "bus"},
            "cellDatabaseSecretRef": {"name": "db"},
        },
    ),
    (ours.PLACEMENT, "databaseRef", {"name": "other"}, {}),
    (ours.PLACEMENT, "region", "regionTwo", {}),
    (ours.CONTROL_PLANE, "region", "regionOne", {}),
    (ours.NOVA, "cellTemplates", {"cell1": {"databaseRef": {"name": "other"}}}, {}),
    (
        ours.NOVA,
        "cellTemplates",
        {"cell2": {"databaseRef": None}},
        {"cellTemplates": {"cell2": {"databaseRef": {"name": "own"}}}},
    ),
    (ours.CONTROL_PLANE, "nova", {"cellTemplates": {"cell1": {"databaseRef": {"name": "other"}}}}, {}),
]


@pytest.mark.parametrize(("resource", "field", "value", "spec"), IMMUTABLE, ids=lambda value: str(value)[:20])
async def test_an_immutable_field_stays_where_no_webhook_answers(
    world: Any, resource: kinds.Resource, field: str, value: Any, spec: dict[str, Any]
) -> None:
    """Case 40 (a region that is renamed); Regression f85, h12: on another server a service found an empty database."""
    await world.create(resource, "one", spec)
    with pytest.raises(errors.ApiError, match=f"spec.{field}.*cannot be changed"):
        await world.patch(resource, "one", {"spec": {field: value}})


async def test_the_name_of_a_cloud_fits_into_labels(world: Any) -> None:
    """Case 101."""
    with pytest.raises(errors.ApiError, match="must have at most 63 characters"):
        await world.create(ours.CONTROL_PLANE, "a" * 64, {})
    assert await world.create(ours.CONTROL_PLANE, "a" * 63, {})
