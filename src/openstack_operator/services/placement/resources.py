"""The pods of a Placement: pure functions of spec and facts."""

from __future__ import annotations

from openstack_operator.kit import commands, config, identity, kinds, releases, settings, workloads, wsgi
from openstack_operator.services.placement.config import PORT, SERVICE_TYPE
from openstack_operator.services.placement.types import PlacementSpec

UID = 42482
SERVICE = "placement"
CONF = f"{config.MERGED}/placement.conf"


def schema(instance: str) -> str:
    """Name of the database and of its user."""
    return instance.replace("-", "_")


def image(spec: PlacementSpec) -> str:
    release = releases.load(spec.openstack_release)
    return releases.image(release, "placement-api", spec.images, settings.image_source(), spec.container_image)


def api_pod(instance: str, spec: PlacementSpec, sources: config.Sources) -> workloads.Pod:
    """The pods that serve the API."""
    # The root document needs neither token nor database, so a slow database restarts nothing.
    container = wsgi.container("placement-api", PORT, "/", env={"OS_PLACEMENT_CONFIG_DIR": config.MERGED})
    return workloads.Pod(
        service=SERVICE,
        instance=instance,
        component="api",
        owner_kind=kinds.PLACEMENT.kind,
        image=image(spec),
        user=UID,
        settings=spec,
        sources=sources,
        containers=(container,),
    )


def db_sync_pod(instance: str, spec: PlacementSpec, sources: config.Sources) -> workloads.Pod:
    """The Job that makes the schema, and moves data that a newer release keeps elsewhere."""
    program = ("placement-manage", f"--config-file={CONF}", "db")
    return workloads.Pod(
        service=SERVICE,
        instance=instance,
        component="db-sync",
        owner_kind=kinds.PLACEMENT.kind,
        image=image(spec),
        user=UID,
        settings=spec,
        sources=sources,
        containers=(
            workloads.Container(
                name="db-sync",
                command=commands.line(
                    "placement.cmd.manage:main",
                    commands.Command((*program, "sync")),
                    commands.Command((*program, "online_data_migrations")),
                ),
            ),
        ),
    )


def endpoint(internal: str, public: str) -> identity.Endpoint:
    """The entry in the catalogue."""
    return identity.Endpoint(SERVICE, SERVICE_TYPE, "OpenStack Placement", internal, public)


def uwsgi() -> str:
    return wsgi.ini("placement.wsgi.api", PORT)
