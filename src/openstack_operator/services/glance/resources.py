"""The pods of a Glance and their volume: pure functions of spec and facts."""

from __future__ import annotations

from openstack_operator.kit import blueprint, commands, config, kinds, names, workloads, wsgi
from openstack_operator.services.glance.config import CONF, DATA, PORT
from openstack_operator.services.glance.types import GlanceSpec

UID = 42415
SERVICE = "glance"
BLUEPRINT = blueprint.Blueprint(SERVICE, kinds.GLANCE, "glance-api", UID)
VOLUME = "images"

# uWSGI refuses a chunk beyond its limit, 1 MiB by default: exactly what Nova sends, and clients may send more.
CHUNK_LIMIT_BYTES = 64 * 1024 * 1024
# What is being transferred when a pod must go gets this long to finish.
GRACE_SECONDS = 120


def self_url(instance: str, namespace: str) -> str:
    """URL under which what was staged is imported: any pod's, since all of them have the same volume."""
    return f"http://{names.dns(names.api_service(instance), namespace)}:{PORT}"


def claim_name(instance: str) -> str:
    """The claim of the volume; a StatefulSet would call it so, as there was one in earlier versions."""
    return f"{VOLUME}-{names.workload(instance, 'api')}-0"


def api_pod(instance: str, spec: GlanceSpec, sources: config.Sources) -> workloads.Pod:
    """The pods that serve the API."""
    container = wsgi.container(
        "glance-api",
        PORT,
        "/healthcheck",
        env={"OS_GLANCE_CONFIG_DIR": config.MERGED},
        memory="256Mi",
    )
    return BLUEPRINT.pod(
        instance,
        spec,
        "api",
        workloads.with_mounts(container, {"name": VOLUME, "mountPath": DATA}),
        own=spec,
        sources=sources,
        grace_seconds=GRACE_SECONDS,
        volumes=({"name": VOLUME, "persistentVolumeClaim": {"claimName": claim_name(instance)}},),
        # In a rollout the new pod serves before the old one ends, and has the same volume meanwhile.
        is_on_one_node=True,
    )


def db_sync_pod(instance: str, spec: GlanceSpec, sources: config.Sources) -> workloads.Pod:
    """The Job that makes the schema and fills in the catalogue of metadata definitions."""
    program = ("glance-manage", f"--config-file={config.MERGED}/{CONF}")
    return BLUEPRINT.pod(
        instance,
        spec,
        "db-sync",
        workloads.Container(
            name="db-sync",
            command=commands.line(
                "glance.cmd.manage:main",
                commands.Command((*program, "db_sync")),
                commands.Command((*program, "db_load_metadefs")),
                conf=f"{config.MERGED}/{CONF}",
            ),
            cpu=workloads.CPU_COMMON,
        ),
        own=spec,
        sources=sources,
    )


def uwsgi() -> str:
    """The server's configuration: bodies of any size and shape, and no transfer is cut by a rollout."""
    extra = (
        f"chunked-input-limit = {CHUNK_LIMIT_BYTES}",
        # The last of the options wins. The kubelet kills at GRACE_SECONDS; importing tasks end before that.
        f"worker-reload-mercy = {GRACE_SECONDS - 10}",
    )
    return wsgi.ini("glance.wsgi.api", PORT, extra=extra)
