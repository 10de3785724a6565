"""Where configuration lives in the cluster: two ConfigMaps and a Secret per instance, merged in each pod (seed 000).

ConfigMap ``<instance>-config-data`` has the generated files and the user's text, Secret
``<instance>-config-secrets`` the rows with credentials, ConfigMap ``<instance>-scripts`` the merge and start scripts.
A key ``nova.conf.10-generated`` is a part of ``nova.conf``; parts are concatenated in order of their numbers, which is
a correct merge under oslo.config's rules (the last value of an option wins). Any other key is a whole file.

    10-generated (ConfigMap)  20-secret (Secret)  90-custom… (the user wins; texts from Secrets in the Secret)
                 \\               |                /
          init container: merge.sh -> in-memory volume config-data-merged -> main container
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from openstack_operator.kit import custom_config, effective, ini, labels, names, overwrites, releases
from openstack_operator.kit.credentials import encode
from openstack_operator.kit.kinds import DOMAIN
from openstack_operator.kit.types import DEFAULT_RELEASE
from openstack_operator.runtime import drift, kinds
from openstack_operator.runtime.controller import Scope

HASH = f"{DOMAIN}/config-hash"
"""Annotation of pods with the hash of what they read when they start."""
MUTABLE_HASH = f"{DOMAIN}/mutable-config-hash"
"""Annotation of pods with the hash of what they read again while they run."""

SOURCE = "/var/lib/config-data/default"
MERGED = "/var/lib/config-data/merged"
SCRIPTS = "/usr/local/bin/container-scripts"

MERGE = f"""\
#!/bin/sh
# Concatenates the parts of each configuration file, in order of their numbers, over the image's own defaults.
set -eu
export LC_ALL=C
rm -rf {MERGED}/*
[ -z "${{DEFAULTS:-}}" ] || [ ! -d "$DEFAULTS" ] || cp -R "$DEFAULTS/." {MERGED}/
cd {SOURCE}
for part in *; do
  # Where there is no file at all, the pattern stands for itself.
  [ -e "$part" ] || continue
  case $part in
    *.[0-9][0-9]-*)
      file={MERGED}/${{part%.[0-9][0-9]-*}}
      # The first part replaces what the image brought.
      case " ${{seen:-}} " in *" $file "*) ;; *) : > "$file"; seen="${{seen:-}} $file" ;; esac
      cat "$part" >> "$file"; echo >> "$file" ;;
    *) cat "$part" > "{MERGED}/$part" ;;
  esac
done
"""


class Text(NamedTuple):
    """A user's text for a file; ``field`` says where it stands. A secret one is kept in the Secret, and never shown."""

    field: str
    text: str
    is_secret: bool = False


@dataclasses.dataclass(frozen=True)
class Custom:
    """What users add to a file (``levels.custom``): texts, lowest precedence first, and whole files beside it."""

    texts: tuple[Text, ...] = ()
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    files_origin: str = f"spec.{overwrites.FIELD}"
    """The fields that the files may stand in."""


@dataclasses.dataclass(frozen=True)
class File:
    """A configuration file made of rows and what users add."""

    name: str
    rows: tuple[ini.Row, ...]
    custom: Custom = Custom()


@dataclasses.dataclass(frozen=True)
class Sources:
    """What a pod mounts, and the hash of what it says: other hash, other pods."""

    config_data: str
    config_secrets: str
    scripts: str
    digest: str
    defaults: str = ""
    """Directory in the image whose files are copied first (paste files, rootwrap filters)."""
    digest_at_start: str = ""
    """The hash without users' mutable options: for processes that read those again while they run (`rereading`)."""
    mutable: tuple[str, ...] = ()
    """The mutable options that users set, as ``section/option``."""
    mutable_digest: str = ""
    """The hash of their values; empty where users set none."""
    merged: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """The files as pods merge them, passwords included."""


NONE = Sources("", "", "", "")
"""Stands in where only the labels of a pod are needed."""


async def ensure(
    scope: Scope[Any],
    service: str,
    files: Sequence[File],
    *,
    whole: Mapping[str, str] | None = None,
    whole_secret: Mapping[str, str] | None = None,
    scripts: Mapping[str, str] | None = None,
    defaults: str = "",
    instance: str = "",
    model: Any = None,
) -> Sources:
    """Writes the three objects. ``whole`` and ``whole_secret`` are files that are no rows.

    ``instance`` (default: the object's name) prefixes the objects' names; ``model`` (default: the spec) is what the
    rows read. Raises ``errors.Stalled`` with field and line for users' text that oslo.config cannot parse; then nothing
    was written and running pods stay as they are.
    """
    instance = instance or scope.name
    release = releases.load(getattr(scope.spec, "openstack_release", DEFAULT_RELEASE))
    public: dict[str, str] = dict(whole or {})
    secret: dict[str, str] = dict(whole_secret or {})
    read: dict[str, Any] = {name: effective.lines(text) for name, text in {**public, **secret}.items()}
    mutable: dict[str, dict[str, list[str]]] = {}
    for file in files:
        for one in file.custom.texts:
            custom_config.require(one.text, one.field, is_secret=one.is_secret)
        rows = (*file.rows, *overwrites.rows(file.custom.files, MERGED, file.custom.files_origin))
        rendered = ini.render(release.rows(rows), scope.spec if model is None else model, scope.facts)
        public[f"{file.name}.10-generated"] = rendered.public
        if rendered.secret:
            secret[f"{file.name}.20-secret"] = rendered.secret
        for number, one in enumerate(file.custom.texts):
            if effective.lines(one.text):
                parts = secret if one.is_secret else public
                parts[f"{file.name}.{90 + number}-custom"] = f"# {one.field}\n{one.text}"
        for name, text in file.custom.files.items():
            public[name], read[name] = text, overwrites.content(name, text)
        # Rows say each option once, under its present name: the catalogue is read where a user's text needs it.
        texts = [one.text for one in file.custom.texts if effective.lines(one.text)]
        merged = "\n".join((rendered.public, rendered.secret, *texts))
        read[file.name] = effective.content(merged, service if texts else "", release.name)
        if texts:
            own = effective.content(f"{rendered.public}\n{rendered.secret}", service, release.name)
            if found := effective.mutable(read[file.name], own, service, release.name):
                mutable[file.name] = found
    at_start = read | {
        name: {place: values for place, values in read[name].items() if place not in found}
        for name, found in mutable.items()
    }
    programs = {"merge.sh": MERGE, **(scripts or {})}
    sources = Sources(
        config_data=names.config_data(instance),
        config_secrets=names.config_secrets(instance),
        scripts=names.scripts(instance),
        digest=drift.digest([read, programs]),
        defaults=defaults,
        digest_at_start=drift.digest([at_start, programs]),
        mutable=tuple(sorted({place for found in mutable.values() for place in found})),
        mutable_digest=drift.digest(mutable) if mutable else "",
        merged={file.name: merged_text(file.name, public | secret) for file in files},
    )
    tags = labels.common(service, scope.name)
    for name, data in ((sources.config_data, public), (sources.scripts, programs)):
        await scope.apply(kinds.CONFIGMAP, {"metadata": {"name": name, "labels": tags}, "data": data})
    await scope.apply(
        kinds.SECRET,
        {"metadata": {"name": sources.config_secrets, "labels": tags}, "type": "Opaque", "data": encode(secret)},
    )
    return sources


def merged_text(file: str, parts: Mapping[str, str]) -> str:
    """What ``MERGE`` makes of the parts of a file."""
    part = re.compile(re.escape(file) + r"\.[0-9][0-9]-.*")
    return "".join(f"{parts[key]}\n" for key in sorted(filter(part.fullmatch, parts)))


def volumes(sources: Sources) -> list[dict[str, Any]]:
    """The volumes of a pod that runs with these sources."""
    return [
        {
            "name": "config-data",
            "projected": {
                "defaultMode": 0o440,
                "sources": [
                    {"configMap": {"name": sources.config_data}},
                    {"secret": {"name": sources.config_secrets}},
                ],
            },
        },
        {"name": "scripts", "configMap": {"name": sources.scripts, "defaultMode": 0o555}},
        {"name": "config-data-merged", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]


MERGED_MOUNT = {"name": "config-data-merged", "mountPath": MERGED}


def main_mounts(*, is_renewed: bool) -> list[dict[str, Any]]:
    """All of the configuration that a main container sees; ``is_renewed``: new text is written in the running one."""
    merged = MERGED_MOUNT if is_renewed else MERGED_MOUNT | {"readOnly": True}
    return [{"name": "scripts", "mountPath": SCRIPTS, "readOnly": True}, dict(merged)]


def init_container(sources: Sources, image: str, security: dict[str, Any]) -> dict[str, Any]:
    """The init container that merges."""
    return {
        "name": "merge-config",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", f"{SCRIPTS}/merge.sh"],
        "env": [{"name": "DEFAULTS", "value": sources.defaults}],
        "securityContext": security,
        "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "config-data", "mountPath": SOURCE, "readOnly": True},
            {"name": "scripts", "mountPath": SCRIPTS, "readOnly": True},
            MERGED_MOUNT,
        ],
    }
