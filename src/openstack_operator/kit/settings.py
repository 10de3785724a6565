"""Settings of the operator process itself, from its environment (deploy/install.yaml sets them)."""

from __future__ import annotations

import functools
import os


@functools.cache
def image_source() -> tuple[str, str]:
    """Registry and prefix of images where a spec names none."""
    return (
        os.environ.get("OPENSTACK_OPERATOR_IMAGE_REGISTRY", "localhost"),
        os.environ.get("OPENSTACK_OPERATOR_IMAGE_PREFIX", "openstack.kolla"),
    )
