"""What is in the images gives nobody rights: the trees themselves, as they are built from the recipes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from openstack_operator.embedded import images, paths
from openstack_operator.embedded.images import layers
from openstack_operator.kit.types import DEFAULT_RELEASE


@pytest.fixture(scope="module")
def built() -> dict[str, layers.Layer]:
    """The layers of all images of a cloud, which are in the cache where an `up` has run."""
    found = images.build_all(paths.default().cache, DEFAULT_RELEASE, Path(__file__).parents[2], lambda line: None)
    return {layer.name: layer for image in found.images for layer in image.layers}


def privileged(root: Path) -> Iterator[str]:
    """Programs that run as another user or group than their caller, and files that give capabilities."""
    for folder, _, files in os.walk(root):
        for name in files:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and (mode & (stat.S_ISUID | stat.S_ISGID) or has_capabilities(path)):
                yield str(path.relative_to(root))


def has_capabilities(path: Path) -> bool:
    return "security.capability" in os.listxattr(path)


def test_no_file_gives_rights_to_those_who_run_it(built: dict[str, layers.Layer]) -> None:
    assert {"base", "infrastructure", f"openstack-{DEFAULT_RELEASE}", "operator-source"} <= set(built)
    found = {name: sorted(privileged(layer.root)) for name, layer in built.items()}
    assert found == {name: [] for name in built}


def test_nobody_but_root_can_change_what_is_in_an_image(built: dict[str, layers.Layer]) -> None:
    """A file that everybody may write would be a way from one container of a node to another."""
    for name, layer in built.items():
        writable = [
            str(path.relative_to(layer.root))
            for folder, _, files in os.walk(layer.root)
            for path in (Path(folder, file) for file in files)
            if stat.S_ISREG(path.lstat().st_mode) and path.lstat().st_mode & stat.S_IWOTH
        ]
        assert writable == [], name


def test_a_file_with_rights_is_found(tmp_path: Path) -> None:
    """The search itself works."""
    for name, mode in (("user", 0o4755), ("group", 0o2755), ("plain", 0o755)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to("user")
    assert sorted(privileged(tmp_path)) == ["group", "user"]
