"""The pods of a Placement: pure functions of spec and facts."""

from __future__ import annotations

from openstack_operator.kit import blueprint, commands, config, kinds, workloads, wsgi
from openstack_operator.services.placement.config import PORT
from openstack_operator.services.placement.types import PlacementSpec

UID = 42482
SERVICE = "placement"
BLUEPRINT = blueprint.Blueprint(SERVICE, kinds.PLACEMENT, "placement-api", UID)
CONF = f"{config.MERGED}/placement.conf"


def api_pod(instance: str, spec: PlacementSpec, sources: config.Sources) -> workloads.Pod:
    """The pods that serve the API."""
    # The root document needs neither token nor database, so a slow database restarts nothing.
    # Computes start when they find it.
    container = wsgi.container(
        "placement-api", PORT, "/", env={"OS_PLACEMENT_CONFIG_DIR": config.MERGED}, cpu=workloads.CPU_AWAITED
    )
    return BLUEPRINT.pod(
        instance,
        spec,
        "api",
        container,
        own=spec,
        sources=sources,
        grace_seconds=wsgi.GRACE_SECONDS,
    )


def db_sync_pod(instance: str, spec: PlacementSpec, sources: config.Sources) -> workloads.Pod:
    """The Job that makes the schema, and moves data that a newer release keeps elsewhere."""
    program = ("placement-manage", f"--config-file={CONF}", "db")
    return BLUEPRINT.pod(
        instance,
        spec,
        "db-sync",
        workloads.Container(
            name="db-sync",
            command=commands.line(
                "placement.cmd.manage:main",
                commands.Command((*program, "sync")),
                commands.Command((*program, "online_data_migrations")),
                conf=CONF,
                section="placement_database",
            ),
            cpu=workloads.CPU_AWAITED,
        ),
        own=spec,
        sources=sources,
    )


def uwsgi() -> str:
    return wsgi.ini("placement.wsgi.api", PORT)
