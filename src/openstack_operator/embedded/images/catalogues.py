"""Catalogues of options and policy rules, read from a release's own packages inside its root file system.

`make catalogues` calls this through `cli/catalogues.py`; the result is committed below `kit/catalogues/`, whose module
reads it. What is read inside the root file system is in `images/catalogue/extract.py`.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

from openstack_operator.embedded.images import chroot, debian, layers, venvs

OUTPUT = f"{chroot.INPUTS}/output"


def extract(cache: Path, release: str, log: layers.Log) -> dict[str, Any]:
    """What the services of a release offer, by service. Builds the release's venv where the cache has none."""
    recipe, tools = layers.recipe("catalogue"), debian.build_tools(cache, log)
    venv = venvs.build_openstack(cache, release, log)
    log(f"catalogue {release}: reads options and policies")

    def build(directory: Path) -> None:
        output = directory / "output"
        output.mkdir()
        root = chroot.Root(
            tools.root,
            directory / "work",
            {debian.RECIPE: recipe, venvs.OPENSTACK_VENV: venv.root / venvs.OPENSTACK_VENV.lstrip("/")},
            {OUTPUT: output},
        )
        program = f"{venvs.OPENSTACK_VENV}/bin/python -W ignore {debian.RECIPE}/extract.py > {OUTPUT}/catalogue.json"
        chroot.run(root, ["sh", "-euc", program], debian.logfile_of(cache, f"catalogue-{release}"))
        debian.discard(directory / "work")

    path = layers.cached(cache / "catalogue", release, layers.content_key(recipe, venv.key), build)
    found: dict[str, Any] = json.loads((path / "output" / "catalogue.json").read_text())
    return found


def write(found: dict[str, Any], folder: Path) -> int:
    """Writes the catalogues of a release into its folder; returns their size in bytes. Equal content is equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, bytes] = {}
    for service, content in found.items():
        types: list[Any] = []
        options = {
            section: {name: entry | {"type": _number(types, entry["type"])} for name, entry in sorted(known.items())}
            for section, known in sorted(content["options"].items())
        }
        parts = {
            "options": {
                "packages": content["packages"],
                "types": types,
                "options": options,
                "named": content["named"] or None,
                "prefixes": content["prefixes"],
            },
            "policies": content["policies"],
            "help": {"options": content["help"], "policies": content["policies_help"]},
        }
        for name, part in parts.items():
            text = json.dumps(part, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            packed = lzma.compress(text.encode(), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=_FILTERS)
            files[f"{service}.{name}.xz"] = packed
    for old in folder.glob("*.xz"):
        if old.name not in files:
            old.unlink()
    for name, packed in files.items():
        (folder / name).write_bytes(packed)
    return sum(map(len, files.values()))


# Texts of up to a megabyte: a larger dictionary saves nothing and costs memory when the operator reads them.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 20}]


def _number(types: list[Any], one: Any) -> int:
    if one not in types:
        types.append(one)
    return types.index(one)
