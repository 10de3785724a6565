"""Reconciles Nova: databases and virtual hosts, the registration of cells, and one object for each part."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from openstack_operator.kit import (
    cache,
    config,
    database,
    first_sync,
    identity,
    jobs,
    kinds,
    levels,
    messaging,
    names,
    pods,
    requests,
    verified,
    watches,
)
from openstack_operator.runtime import conditions, drift, errors
from openstack_operator.runtime import kinds as built_in
from openstack_operator.runtime.client import Object
from openstack_operator.runtime.controller import Controller, Scope, Step, Watch
from openstack_operator.runtime.informer import Key
from openstack_operator.runtime.kinds import Resource
from openstack_operator.services.nova import (
    children,
    compute_api,
    host_removal,
    hosts,
    removal,
    resources,
    upgrade_check,
)
from openstack_operator.services.nova import config as files
from openstack_operator.services.nova.types import KIND, NovaSpec

PARTS = (
    kinds.NOVA_API,
    kinds.NOVA_SCHEDULER,
    kinds.NOVA_CONDUCTOR,
    kinds.NOVA_METADATA,
    kinds.NOVA_CELL,
)
CATALOG = (("nova", "compute"),)


async def ensure_credentials(scope: Scope[NovaSpec]) -> None:
    """The Secret of Nova's Keystone user exists."""
    supplied = scope.spec.credentials.service_user
    scope.facts["service_user.secret"] = await identity.ensure_user_secret(scope, resources.SERVICE, supplied)


async def ensure_databases(scope: Scope[NovaSpec]) -> None:
    """The databases of the API, of cell0 and of every cell stand in their MariaDB."""
    spec = scope.spec
    top = spec.database_ref.name
    supplied = spec.credentials.database
    await removal.ensure_register(scope)
    asked = [
        _ensure_database(scope, top, "api", "api_database", supplied),
        _ensure_database(scope, top, "cell0", "cell_database"),
    ]
    for cell, template in sorted(spec.cell_templates.items()):
        mariadb = (template.database_ref or spec.database_ref).name
        asked.append(_ensure_database(scope, mariadb, cell, f"cells.{cell}.database"))
    await requests.each(asked)


async def _ensure_database(scope: Scope[NovaSpec], mariadb: str, part: str, fact: str, supplied: Any = None) -> None:
    secret, schema = removal.database_secret(scope.name, part), removal.schema(scope.name, part)
    await database.ensure(scope, resources.SERVICE, mariadb, schema, supplied=supplied, secret=secret, fact=fact)


async def ensure_messaging(scope: Scope[NovaSpec]) -> None:
    """The virtual hosts of the API and of every cell stand in their RabbitMQ."""
    spec = scope.spec
    supplied = spec.credentials.messaging
    top = spec.messaging_ref.name
    scope.facts["messaging.secret"] = names.messaging_secret(scope.name)
    asked = [messaging.ensure(scope, resources.SERVICE, top, scope.name, supplied=supplied)]
    for cell, template in sorted(spec.cell_templates.items()):
        rabbitmq = (template.messaging_ref or spec.messaging_ref).name
        secret = removal.messaging_secret(scope.name, cell)
        vhost, fact = removal.vhost(scope.name, cell), f"cells.{cell}.messaging"
        asked.append(messaging.ensure(scope, resources.SERVICE, rabbitmq, vhost, secret=secret, fact=fact))
    await requests.each(asked)


async def observe_surroundings(scope: Scope[NovaSpec]) -> None:
    """The URLs of Keystone and the Memcached servers are known."""
    await identity.observe(scope, scope.spec.keystone_ref.name)
    await cache.observe(scope, scope.spec.memcached_ref.name)


async def ensure_config(scope: Scope[NovaSpec]) -> None:
    """The files of the Job that registers cells are written."""
    spec = scope.spec
    wanted = ["messaging.url", *(f"cells.{cell}.messaging.url" for cell in spec.cell_templates)]
    if any(fact not in scope.facts for fact in wanted):
        # The Job writes down where the message bus will be; that it is there already is not needed.
        raise errors.Waiting("NoMessaging", "waits for the Secrets of the message bus (MessagingReady)")
    # Of the files beside it the Job reads none.
    custom = config.Custom(levels.texts(scope))
    cells = [config.File(files.cell_file(cell), files.cell_rows(cell), custom) for cell in sorted(spec.cell_templates)]
    scope.facts["sources"] = await config.ensure(
        scope,
        resources.SERVICE,
        [config.File("nova.conf", files.TOP_ROWS, custom), *cells],
        whole={files.CELLS: files.cells(spec.cell_templates)},
        scripts={files.CELLS_NAME: files.SCRIPT, first_sync.NAME: first_sync.SCRIPT},
    )


async def ensure_cell_mappings(scope: Scope[NovaSpec]) -> None:
    """All schemas are current and the API database knows every cell."""
    await hosts.remember(scope)
    told = hosts.with_the_cells(scope)
    inputs, pod = (resources.cells_pod(scope.name, scope.spec, scope.facts["sources"], mapped) for mapped in ({}, told))
    # Hosts that come later have a Job of their own.
    await jobs.ensure(scope, pod, resources.CELLS, inputs=inputs)
    facts = scope.facts
    known = await removal.unmap(scope) | {
        cell: drift.digest([facts[f"cells.{cell}.database.url"], facts[f"cells.{cell}.messaging.url"]])
        for cell in scope.spec.cell_templates
    }
    scope.facts["registered"] = scope.status["registeredCells"] = {cell: known[cell] for cell in sorted(known)}


async def _ensure_part(
    scope: Scope[NovaSpec], resource: Resource, part: str, body: Callable[[Scope[NovaSpec]], dict[str, Any]]
) -> Object:
    return await children.ensure(scope, resource, children.name(scope.name, part), part, body(scope))


def _process(scope: Scope[NovaSpec], part: Any, *skipped: str) -> dict[str, Any]:
    """The spec of a part that works for all cells."""
    return (
        resources.process(scope.spec, scope.facts, names.messaging_secret(scope.name))
        | resources.part(scope.name, scope.spec, part, *skipped)
        | {
            "apiDatabaseSecretRef": {"name": removal.database_secret(scope.name, "api")},
            "cellDatabaseSecretRef": {"name": removal.database_secret(scope.name, "cell0")},
            "registeredCells": scope.facts["registered"],
        }
    )


def _started_late(scope: Scope[NovaSpec], part: Any) -> dict[str, Any]:
    """The spec of one whose first pods need a Keystone that knows them."""
    return _process(scope, part) | {"novaRef": {"name": scope.name}}


def _metadata_secret(scope: Scope[NovaSpec]) -> dict[str, str]:
    return {"name": names.join(scope.spec.neutron_ref.name, "metadata")}


async def ensure_api(scope: Scope[NovaSpec]) -> None:
    """The compute API serves."""

    def body(scope: Scope[NovaSpec]) -> dict[str, Any]:
        spec = _process(scope, scope.spec.api)
        public = scope.spec.api.public_endpoint or scope.spec.public_endpoint
        if public is not None:
            spec["publicEndpoint"] = public.model_dump(mode="json", by_alias=True, exclude_none=True)
        return spec

    item = await _ensure_part(scope, kinds.NOVA_API, "api", body)
    for field in ("internalUrl", "publicUrl"):
        if url := item.get("status", {}).get(field):
            scope.facts[f"url.{field.removesuffix('Url')}"] = scope.status[field] = url
    children.require_ready(scope, kinds.NOVA_API, item)


async def ensure_conductor(scope: Scope[NovaSpec]) -> None:
    """The super-conductor works."""
    item = await _ensure_part(
        scope, kinds.NOVA_CONDUCTOR, "conductor", lambda scope: _started_late(scope, scope.spec.conductor)
    )
    children.require_ready(scope, kinds.NOVA_CONDUCTOR, item)


async def ensure_scheduler(scope: Scope[NovaSpec]) -> None:
    """The scheduler works."""
    item = await _ensure_part(
        scope, kinds.NOVA_SCHEDULER, "scheduler", lambda scope: _started_late(scope, scope.spec.scheduler)
    )
    children.require_ready(scope, kinds.NOVA_SCHEDULER, item)


async def ensure_metadata(scope: Scope[NovaSpec]) -> str | None:
    """The metadata service for all cells answers, if there is one."""
    if not scope.spec.metadata.enabled:
        await scope.delete(kinds.NOVA_METADATA, children.name(scope.name, "metadata"))
        return "spec.metadata.enabled is false: cells have their own"

    def body(scope: Scope[NovaSpec]) -> dict[str, Any]:
        return _process(scope, scope.spec.metadata, "enabled") | {"metadataSecretRef": _metadata_secret(scope)}

    item = await _ensure_part(scope, kinds.NOVA_METADATA, "metadata", body)
    children.require_ready(scope, kinds.NOVA_METADATA, item)
    return None


async def ensure_catalog(scope: Scope[NovaSpec]) -> None:
    """Service user and endpoints stand in Keystone."""
    if "url.public" not in scope.facts:
        raise errors.Waiting("NoURL", "waits for the URLs of the API (APIReady)")
    endpoint = identity.Endpoint(
        *CATALOG[0], "OpenStack Compute", internal=scope.facts["url.internal"], public=scope.facts["url.public"]
    )
    await identity.register(scope, scope.spec.keystone_ref.name, (endpoint,), scope.spec.region)


async def ensure_cells(scope: Scope[NovaSpec]) -> str | None:
    """Every cell works."""
    spec = scope.spec
    items = []
    for cell, template in sorted(spec.cell_templates.items()):
        body = (
            resources.process(spec, scope.facts, removal.messaging_secret(scope.name, cell))
            | resources.cell(scope.name, spec, template)
            | {
                "cellName": cell,
                "cellDatabaseSecretRef": {"name": removal.database_secret(scope.name, cell)},
                "metadataSecretRef": _metadata_secret(scope),
                "placementRef": {"name": spec.placement_ref.name},
                "novaRef": {"name": scope.name},
            }
        )
        item = await children.ensure(scope, kinds.NOVA_CELL, children.name(scope.name, cell), "cell", body)
        items.append(item)
    statuses = [item.get("status", {}) for item in items]
    scope.facts["hosts"] = sorted({host for status in statuses for host in status.get("hosts", [])})
    virt = {kind for status in statuses for kind in (status.get("virtType") or "").split(",") if kind}
    scope.status["virtType"] = ",".join(sorted(virt)) or None
    if not all(conditions.is_ready(item) for item in items):
        # A nova-compute that comes back may have been forgotten by Nova meanwhile.
        verified.forget(scope, "hosts")
    for item in items:
        children.require_ready(scope, kinds.NOVA_CELL, item)
    return None


async def ensure_removal(scope: Scope[NovaSpec]) -> str | None:
    """Cells that are no longer in spec.cellTemplates are gone, with their databases and virtual hosts."""
    return await removal.drop(scope)


async def observe_hosts(scope: Scope[NovaSpec]) -> str | None:
    """Every compute host is up, mapped to its cell and offered by Placement, so that servers can boot there.

    Looked at while all cells work, libvirt on their nodes included.
    """
    wanted = scope.facts["hosts"]
    facts = scope.facts
    fingerprint = drift.digest([wanted, facts["url.internal"]])
    if not wanted or verified.is_current(scope, "hosts", fingerprint):
        facts["hosts.are_ready"] = True
        scope.status["hosts"] = wanted
        return f"{len(wanted)} hosts"
    placement = scope.get(kinds.PLACEMENT, scope.spec.placement_ref.name)
    missing = await compute_api.missing_hosts(
        facts["identity.url"],
        facts["service_user.user"],
        facts["service_user.password"],
        facts["url.internal"],
        ((placement or {}).get("status") or {}).get("internalUrl") or "",
        wanted,
    )
    scope.status["hosts"] = [host for host in wanted if host not in missing]
    if forgotten := [host for host, why in missing.items() if why == compute_api.UNMAPPED]:
        await hosts.map_again(scope, forgotten)
    if enabled := [host for host, why in missing.items() if why.startswith(compute_api.ENABLED)]:
        await scope.event("Normal", "HostsEnabled", f"libvirt is back on {', '.join(enabled[:10])}, which are enabled")
    if missing:
        shown = "; ".join(f"host {host}: {why}" for host, why in list(missing.items())[:10])
        # What has no watch is looked at again, for as long as it is missing.
        raise errors.Waiting("HostsMissing", shown, retry_after=verified.look_again(scope, "hosts"))
    verified.note(scope, "hosts", fingerprint)
    facts["hosts.are_ready"] = True
    return f"{len(wanted)} hosts"


async def finalize(scope: Scope[NovaSpec]) -> None:
    """Ends all parts, then drops databases and virtual hosts, and Nova's entries in Keystone."""
    left = []
    for resource in PARTS:
        for item in scope.children(resource):
            left.append(f"{resource.kind} {item['metadata']['name']}")
            await scope.delete(resource, item["metadata"]["name"])
    # Those of the cells, which clean their nodes as long as this Nova is on its way out.
    left += [
        f"{kinds.NOVA_COMPUTE.kind} {item['metadata']['name']}"
        for item in scope.items(kinds.NOVA_COMPUTE)
        if item["spec"].get("novaRef", {}).get("name") == scope.name and item["metadata"].get("ownerReferences")
    ]
    if left:
        raise errors.Waiting("PartsExist", f"waits for the end of {', '.join(left)}")
    spec = scope.spec
    drops = [identity.unregister(scope, spec.keystone_ref.name, CATALOG, spec.region)]
    for part in ("api", "cell0"):
        drops.append(database.drop(scope, spec.database_ref.name, removal.schema(scope.name, part)))
    drops.append(messaging.drop(scope, spec.messaging_ref.name, scope.name))
    for cell, place in removal.places(scope).items():
        drops.append(database.drop(scope, place.mariadb, removal.schema(scope.name, cell)))
        drops.append(messaging.drop(scope, place.rabbitmq, removal.vhost(scope.name, cell)))
    await requests.each(drops)


def _nova_of(compute: Object, _: Any) -> Iterable[Key]:
    if name := compute["spec"].get("novaRef", {}).get("name"):
        yield compute["metadata"]["namespace"], name


_KNOWN = ("CredentialsReady", "CellMappingsReady", "SurroundingsReady")
"""What every part's spec is made of."""
_USABLE = ("HostMappingsReady", "APIReady", "SchedulerReady", "CatalogReady", "CellsReady")

CONTROLLER = Controller(
    kind=KIND,
    steps=(
        Step("CredentialsReady", ensure_credentials, needs=()),
        Step("DatabasesReady", ensure_databases, needs=()),
        Step("MessagingReady", ensure_messaging, needs=()),
        Step("SurroundingsReady", observe_surroundings, needs=()),
        Step("ConfigReady", ensure_config, needs=("DatabasesReady",)),
        Step("CellMappingsReady", ensure_cell_mappings, needs=("ConfigReady",)),
        Step("HostMappingsReady", hosts.ensure, needs=("CellMappingsReady",)),
        Step("APIReady", ensure_api, needs=_KNOWN),
        Step("ConductorReady", ensure_conductor, needs=(*_KNOWN, "MessagingReady")),
        Step("SchedulerReady", ensure_scheduler, needs=(*_KNOWN, "MessagingReady")),
        Step("MetadataReady", ensure_metadata, needs=_KNOWN),
        Step("CatalogReady", ensure_catalog, needs=_KNOWN),
        Step("CellsReady", ensure_cells, needs=(*_KNOWN, "MessagingReady")),
        Step("CellRemovalReady", ensure_removal, needs=_KNOWN),
        Step("HostRemovalReady", host_removal.ensure, needs=(*_KNOWN, "APIReady"), advises=True),
        Step(upgrade_check.HOSTS_READY, observe_hosts, needs=_USABLE),
        Step("UpgradeCheckPassed", upgrade_check.observe, needs=_KNOWN, advises=True),
    ),
    owns=(built_in.CONFIGMAP, built_in.SECRET, built_in.JOB, *PARTS),
    watches=(
        *pods.watches(kinds.NOVA),
        # Each cell may have its own, and leaves there something to remove when it is no longer in the spec.
        watches.every(kinds.MARIADB, kinds.NOVA),
        watches.every(kinds.RABBITMQ, kinds.NOVA),
        watches.referenced(kinds.MEMCACHED, kinds.NOVA, "memcachedRef"),
        watches.referenced(kinds.KEYSTONE, kinds.NOVA, "keystoneRef"),
        Watch(kinds.NOVA_COMPUTE, _nova_of),
        Watch(built_in.POD, removal.novas_of_ending_pod),
        Watch(built_in.POD, host_removal.novas_of_ending_pod),
        watches.nodes(kinds.NOVA),
    ),
    reads=(kinds.PLACEMENT,),
    finalize=finalize,
)
