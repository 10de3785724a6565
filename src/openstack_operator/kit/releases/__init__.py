"""What differs between OpenStack releases, as data: one TOML file per release, never a branch in code.

``tag``: default tag of every image; ``without``: options of our rows that the release does not have; ``[images]``:
image name per role; ``compute_makes_taps``: whether nova-compute makes the taps of servers, before libvirt starts QEMU;
``[options]``: spelling of options and programs that releases renamed; ``[sighup.SERVICE]``: what SIGHUP does to the
process of each container (measured: docs/adr/0005): ``rereads``, or words for people that end before its name.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources

from openstack_operator.kit import ini
from openstack_operator.kit.types import Images
from openstack_operator.runtime import errors

REREADS = "rereads"


@dataclasses.dataclass(frozen=True)
class Release:
    """One release's file."""

    name: str
    tag: str
    images: Mapping[str, str]
    options: Mapping[str, str]
    without: frozenset[str] = frozenset()
    compute_makes_taps: bool = False
    sighup: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def rereads(self, service: str, container: str) -> bool:
        """Whether the process of a container takes new values of mutable options on SIGHUP, and works on."""
        return self.sighup.get(service, {}).get(container) == REREADS

    def rows(self, rows: Iterable[ini.Row]) -> tuple[ini.Row, ...]:
        """Those rows whose options the release has."""
        return tuple(row for row in rows if f"{row.section}/{row.option}" not in self.without)

    def option(self, meaning: str) -> str:
        return self.options[meaning]


def available() -> tuple[str, ...]:
    """Releases that have a file, oldest first."""
    folder = resources.files(__name__)
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


@functools.cache
def load(name: str) -> Release:
    """A release by name. Raises ``errors.Stalled`` that lists the known ones."""
    file = resources.files(__name__) / f"{name}.toml"
    if not file.is_file():
        raise errors.Stalled(
            "UnknownRelease", f"spec.openstackRelease: no {name} in this operator; it has {', '.join(available())}"
        )
    content = tomllib.loads(file.read_text())
    return Release(
        name,
        content["tag"],
        content["images"],
        content.get("options", {}),
        frozenset(content.get("without", ())),
        content.get("compute_makes_taps", False),
        content["sighup"],
    )


def image(release: Release, role: str, images: Images, defaults: tuple[str, str], override: str | None = None) -> str:
    """The reference of the image for a role ("nova-api").

    Precedence: ``override`` (containerImage), ``images.overrides`` by image name, then ``images`` field by field over
    ``defaults`` (registry and prefix of the operator) and the release's tag.
    """
    if override:
        return override
    name = release.images[role]
    if name in images.overrides:
        return images.overrides[name]
    # An empty one is meant: registries with images at their root, or a default registry of the container runtime.
    registry = defaults[0] if images.registry is None else images.registry
    prefix = defaults[1] if images.prefix is None else images.prefix
    path = "/".join(part for part in (registry, prefix, name) if part)
    return f"{path}:{images.tag or release.tag}"
