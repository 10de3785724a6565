"""The pods of a Keystone and the objects around them: pure functions of spec and facts."""

from __future__ import annotations

import base64
import os
from typing import Any

import yaml

from openstack_operator.kit import blueprint, commands, config, kinds, labels, names, workloads, wsgi
from openstack_operator.runtime.client import Object
from openstack_operator.services.keystone.config import (
    BOOTSTRAP_NAME,
    CREDENTIAL_KEYS,
    FERNET_KEYS,
    PORT,
    SECONDS_APART,
    schedule,
)
from openstack_operator.services.keystone.types import KeystoneSpec

UID = 42425
SERVICE = "keystone"
BLUEPRINT = blueprint.Blueprint(SERVICE, kinds.KEYSTONE, "keystone", UID)
CONF = f"{config.MERGED}/keystone.conf"
"""More than others ask for: in a rollout, and after a restart of everything, all of them wait for Keystone."""
ADMIN_MOUNT = "/etc/openstack-admin"


def fernet_secret(instance: str) -> str:
    return names.join(instance, "fernet-keys")


def credential_secret(instance: str) -> str:
    return names.join(instance, "credential-keys")


def key() -> str:
    """A new fernet key, as text."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def _keys(instance: str) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """Volumes and mounts of the key directories. Directories, not single files: these are updated in running pods."""
    volumes = tuple(
        {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}
        for name, secret in (
            ("fernet-keys", fernet_secret(instance)),
            ("credential-keys", credential_secret(instance)),
        )
    )
    mounts = (
        {"name": "fernet-keys", "mountPath": FERNET_KEYS, "readOnly": True},
        {"name": "credential-keys", "mountPath": CREDENTIAL_KEYS, "readOnly": True},
    )
    return volumes, mounts


def api_pod(instance: str, spec: KeystoneSpec, sources: config.Sources) -> workloads.Pod:
    """The pods that serve the API."""
    volumes, mounts = _keys(instance)
    container = wsgi.container(
        "keystone-api",
        PORT,
        "/healthcheck",
        env={"OS_KEYSTONE_CONFIG_DIR": config.MERGED, "OS_KEYSTONE_CONFIG_FILES": "keystone.conf"},
        cpu=workloads.CPU_FIRST,
    )
    return BLUEPRINT.pod(
        instance,
        spec,
        "api",
        workloads.with_mounts(container, *mounts),
        own=spec,
        sources=sources,
        volumes=volumes,
        grace_seconds=wsgi.GRACE_SECONDS,
    )


def bootstrap_pod(
    instance: str, spec: KeystoneSpec, sources: config.Sources, internal: str, public: str, password_hash: str
) -> workloads.Pod:
    """The Job that makes the schema and the admin user: both in one process."""
    volumes, mounts = _keys(instance)
    options = {
        "username": "admin",
        "project-name": "admin",
        "role-name": "admin",
        "service-name": "keystone",
        "region-id": spec.region,
        "internal-url": internal,
        "public-url": public,
    }
    bootstrap = [f"--bootstrap-{option}={value}" for option, value in options.items()]
    program = ("keystone-manage", f"--config-file={CONF}")
    return BLUEPRINT.pod(
        instance,
        spec,
        "bootstrap",
        workloads.Container(
            name="bootstrap",
            command=(
                "sh",
                f"{config.SCRIPTS}/{BOOTSTRAP_NAME}",
                *commands.line(
                    "keystone.cmd.manage:main",
                    commands.Command((*program, "db_sync")),
                    commands.Command(
                        (*program, "bootstrap", *bootstrap),
                        files={"OS_BOOTSTRAP_PASSWORD": f"{ADMIN_MOUNT}/password"},
                    ),
                    conf=CONF,
                ),
            ),
            # What the cache says of regions and users may be about an earlier database.
            env={"OS_CACHE__ENABLED": "false"},
            cpu=workloads.CPU_FIRST,
            mounts=(*mounts, {"name": "admin", "mountPath": ADMIN_MOUNT, "readOnly": True}),
        ),
        own=spec,
        sources=sources,
        hash_extra=password_hash,
        volumes=(
            *volumes,
            {
                "name": "admin",
                "secret": {
                    "secretName": names.admin_secret(instance),
                    "defaultMode": 0o440,
                    "items": [{"key": "password", "path": "password"}],
                },
            },
        ),
    )


def clouds_yaml(url: str, password: str, region: str) -> str:
    """A clouds.yaml with the admin as cloud ``openstack``."""
    auth = {
        "auth_url": url,
        "username": "admin",
        "password": password,
        "project_name": "admin",
        "user_domain_name": "Default",
        "project_domain_name": "Default",
    }
    cloud = {"auth": auth, "region_name": region, "identity_api_version": 3, "interface": "public"}
    return yaml.safe_dump({"clouds": {"openstack": cloud}}, sort_keys=False)


def rotation(instance: str, spec: KeystoneSpec, sources: config.Sources, max_active_keys: int) -> dict[str, Object]:
    """ServiceAccount, Role, RoleBinding and CronJob of the key rotation: it may read and change one Secret."""
    name = names.workload(instance, "fernet-rotate")
    pod = BLUEPRINT.pod(
        instance,
        spec,
        "fernet-rotate",
        workloads.Container(
            name="rotate",
            command=(
                "python3",
                f"{config.SCRIPTS}/rotate.py",
                fernet_secret(instance),
                str(max_active_keys),
                str(SECONDS_APART),
            ),
        ),
        own=spec,
        sources=sources,
    )
    template = workloads.template(pod)
    template["spec"] |= {
        "restartPolicy": "OnFailure",
        "serviceAccountName": name,
        "automountServiceAccountToken": True,
    }
    metadata = {"name": name, "labels": labels.common(SERVICE, instance, "fernet-rotate")}
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [fernet_secret(instance)],
        "verbs": ["get", "patch"],
    }
    return {
        "serviceaccounts": {"metadata": metadata, "automountServiceAccountToken": False},
        "roles": {"metadata": metadata, "rules": [rule]},
        "rolebindings": {
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name}],
        },
        "cronjobs": {
            "metadata": metadata,
            "spec": {
                "schedule": schedule(spec.fernet.rotation_hours),
                "concurrencyPolicy": "Forbid",
                "successfulJobsHistoryLimit": 1,
                "failedJobsHistoryLimit": 1,
                "jobTemplate": {"metadata": {"labels": metadata["labels"]}, "spec": {"template": template}},
            },
        },
    }


def uwsgi() -> str:
    return wsgi.ini("keystone.wsgi.api", PORT)
