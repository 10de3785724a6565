"""What a service folder exports: its kinds and controllers, listed in ``services/__init__.py``."""

from __future__ import annotations

import dataclasses
from typing import Any

from openstack_operator.runtime.controller import Controller
from openstack_operator.runtime.kinds import Kind, Resource


@dataclasses.dataclass(frozen=True)
class Service:
    """One service. ``needs`` are the kinds that must be Ready before it can be: the rollout's order follows."""

    name: str
    controllers: tuple[Controller[Any], ...]
    needs: tuple[Resource, ...] = ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(controller.kind for controller in self.controllers)
