"""What tests render configuration files from: specs of all samples, and what steps would have found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from openstack_operator.controlplane import resources
from openstack_operator.controlplane.types import OpenStackControlPlaneSpec
from openstack_operator.kit.service import File
from openstack_operator.services import SERVICES

ROOT = Path(__file__).parents[1]
SAMPLES = [
    item
    for path in sorted((ROOT / "deploy" / "samples" / "valid").glob("*.yaml"))
    for item in yaml.safe_load_all(path.read_text())
]


class Facts(dict[str, Any]):
    """What steps would have found out: a plausible value for every name."""

    def __missing__(self, name: str) -> Any:
        last = name.rpartition(".")[2]
        if name.startswith(("database", "api_database", "cell_database")) and last in ("url", "file_url"):
            return "mysql+pymysql://user:pass@mariadb.openstack.svc/nova"
        if name.startswith("messaging"):
            return "rabbit://user:pass@rabbitmq.openstack.svc:5672/nova"
        if name.startswith("ovn."):
            return "tcp:ovn-0.ovn.openstack.svc:6641"
        if last.endswith("url"):
            return "http://keystone-internal.openstack.svc:5000"
        return {"servers": "memcached-0.memcached.openstack.svc:11211", "port": 8775, "host": "host.example"}.get(
            last, "x"
        )


def specs(file: File) -> list[Any]:
    """The specs of a kind in all samples, those that a control plane makes included."""
    kind = file.kind
    found = [kind.spec.model_validate(item["spec"]) for item in SAMPLES if item["kind"] == kind.resource.kind]
    for item in SAMPLES:
        if item["kind"] == "OpenStackControlPlane":
            cloud = OpenStackControlPlaneSpec.model_validate(item.get("spec", {}))
            for service in SERVICES:
                if service.kinds[0] is kind and resources.is_enabled(service, cloud):
                    found.append(kind.spec.model_validate(resources.child(service, "cloud", cloud)["spec"]))
    return found
