"""Settings of the operator process itself: names of its own objects, and what deploy/install.yaml puts into its
environment."""

from __future__ import annotations

import functools
import os

from openstack_operator.kit.kinds import DOMAIN

WEBHOOK = f"admission.{DOMAIN}"
"""Name of the admission webhook in its configuration."""


def webhook_secret(operator: str) -> str:
    """The Secret with the webhook's certificate; Service and configuration have the operator's own name."""
    return f"{operator}-webhook"


NAMESPACE = "openstack-operator-system"
"""Where deploy/install.yaml puts the operator."""


def namespace() -> str:
    """Where the operator runs; on a machine outside of the cluster, where it is installed unless told otherwise."""
    return os.environ.get("POD_NAMESPACE") or NAMESPACE


@functools.cache
def image_source() -> tuple[str, str]:
    """Registry and prefix of images where a spec names none."""
    return (
        os.environ.get("OPENSTACK_OPERATOR_IMAGE_REGISTRY", "localhost"),
        os.environ.get("OPENSTACK_OPERATOR_IMAGE_PREFIX", "openstack.kolla"),
    )
