"""What the operator would write into the status of an object that is Ready."""

from __future__ import annotations

from typing import Any

from openstack_operator.embedded.apiserver import ControlPlane
from openstack_operator.kit import kinds
from openstack_operator.runtime import conditions


def set_ready(server: ControlPlane, name: str) -> None:
    """Makes a control plane in the namespace default Ready, and leaves nothing else in its status."""
    item: dict[str, Any] = server.request("GET", kinds.CONTROL_PLANE.path("default", name))
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": conditions.now(),
    }
    path = kinds.CONTROL_PLANE.path("default", name, "status")
    server.request("PUT", path, {**item, "status": {"conditions": [ready]}})
