"""What the operator would write for a configuration, merged by its own script and read by the real oslo.config."""

from __future__ import annotations

import base64
import dataclasses
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from openstack_operator.kit import config, ini
from openstack_operator.runtime import kinds
from openstack_operator.runtime.schema import Model

FILE = "service.conf"
FIELD = "spec.customServiceConfig"


class Nothing(Model):
    """A spec without fields."""


@dataclasses.dataclass
class Paper:
    """Stands in for the cluster: keeps what would be applied."""

    name: str = "service"
    service: str = "service"
    """Whose options are known: those of no service, unless it is one of OpenStack's."""
    spec: Nothing = dataclasses.field(default_factory=Nothing)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    async def apply(self, resource: kinds.Resource, body: dict[str, Any]) -> dict[str, Any]:
        self.objects[body["metadata"]["name"]] = body
        return body

    async def write(
        self,
        *texts: str,
        rows: Sequence[ini.Row] = (),
        fields: Sequence[str] = (FIELD, "spec.part.customServiceConfig"),
    ) -> config.Sources:
        """Writes rows and users' texts, lowest precedence first."""
        custom = config.Custom(tuple(config.Text(*one) for one in zip(fields, texts, strict=False)))
        return await config.ensure(self, self.service, [config.File(FILE, tuple(rows), custom)])  # type: ignore[arg-type]

    def merge(self, directory: Path) -> Path:
        """Runs the init container's script over the projected volume; the merged file."""
        source, merged = directory / "default", directory / "merged"
        source.mkdir()
        merged.mkdir()
        for key, text in self.objects["service-config-data"]["data"].items():
            (source / key).write_bytes(text.encode())
        for key, value in self.objects["service-config-secrets"]["data"].items():
            (source / key).write_bytes(base64.b64decode(value))
        script = self.objects["service-scripts"]["data"]["merge.sh"]
        script = script.replace(config.SOURCE, str(source)).replace(config.MERGED, str(merged))
        subprocess.run(["sh", "-c", script], check=True, env={"PATH": "/usr/bin:/bin", "DEFAULTS": ""})
        return merged / FILE


def read(file: Path, options: Mapping[str, Sequence[cfg.Opt]]) -> cfg.ConfigOpts:
    """The file as a service with these options (by section) reads it."""
    conf = cfg.ConfigOpts()
    for section, listed in options.items():
        for option in listed:
            conf.register_opt(option, group=None if section == "DEFAULT" else section)
    conf([], default_config_files=[str(file)], default_config_dirs=[])
    return conf
