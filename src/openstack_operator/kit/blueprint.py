"""What all pods of a service have in common; each ``resources.py`` names it once and adds what a pod has of its own."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from openstack_operator.kit import config, releases, settings, workloads
from openstack_operator.kit.types import Images, PodSettings
from openstack_operator.runtime.kinds import Resource


class Released(Protocol):
    """The spec of an object that says of which release and from where its images are (``types.Instance``)."""

    @property
    def openstack_release(self) -> Any: ...
    @property
    def images(self) -> Images: ...


@dataclasses.dataclass(frozen=True)
class Blueprint:
    """The pods of one service, made for objects of the kind ``owner`` from the image of one role of the release."""

    service: str
    owner: Resource
    role: str
    user: int | None
    """uid = gid as Kolla has it; None: containers bring their own security contexts."""

    def image(self, spec: Released, override: str | None = None) -> str:
        """The image for a spec; ``override`` is a whole reference that wins."""
        release = releases.load(spec.openstack_release)
        return releases.image(release, self.role, spec.images, settings.image_source(), override)

    def pod(
        self,
        instance: str,
        spec: Released,
        component: str,
        *containers: workloads.Container,
        own: PodSettings,
        sources: config.Sources | None = None,
        **rest: Any,
    ) -> workloads.Pod:
        """The pods of one component. ``own`` are their settings, mostly the spec itself; ``rest`` are further fields
        of ``workloads.Pod``."""
        return workloads.Pod(
            service=self.service,
            instance=instance,
            component=component,
            owner_kind=self.owner.kind,
            image=self.image(spec, own.container_image),
            user=self.user,
            settings=own,
            sources=sources,
            containers=tuple(workloads.of_release(spec.openstack_release, self.service, one) for one in containers),
            **rest,
        )
