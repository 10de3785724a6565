"""Cached directories: made once, whole or not at all, named by their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from openstack_operator.embedded.images import layers


def test_a_layer_is_built_once_and_found_afterwards(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(directory: Path) -> None:
        built.append(directory)
        (directory / "root" / "file").write_text("content")

    first = layers.cached_layer(tmp_path, "base", "1234", build)
    second = layers.cached_layer(tmp_path, "base", "1234", build)
    assert first == second == layers.Layer("base", "1234", tmp_path / "rootfs" / "base-1234")
    assert (first.root / "file").read_text() == "content"
    assert len(built) == 1


def test_a_build_that_fails_leaves_no_layer_and_the_next_run_starts_clean(tmp_path: Path) -> None:
    def broken(directory: Path) -> None:
        (directory / "half").touch()
        raise layers.ImageError("no network")

    with pytest.raises(layers.ImageError, match="no network"):
        layers.cached(tmp_path, "base", "1234", broken)
    assert not (tmp_path / "base-1234").exists()
    made = layers.cached(tmp_path, "base", "1234", lambda directory: (directory / "whole").touch())
    assert sorted(path.name for path in made.iterdir()) == ["whole"]


def test_only_the_newest_builds_of_a_name_are_kept(tmp_path: Path) -> None:
    other = layers.cached(tmp_path, "operator-source", "0000", lambda directory: None)
    for key in ("aaaa", "bbbb", "cccc", "dddd"):
        layers.cached(tmp_path, "operator", key, lambda directory: None)
    kept = {path.name for path in tmp_path.glob("operator-*")}
    assert "operator-dddd" in kept
    assert len(kept - {other.name}) == layers.KEPT_BUILDS
    assert other.is_dir()


def test_the_key_follows_content_and_mode_and_ignores_compiled_files(tmp_path: Path) -> None:
    script = tmp_path / "build.sh"
    script.write_text("true\n")
    before = layers.content_key(tmp_path, "trixie")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "module.pyc").touch()
    assert layers.content_key(tmp_path, "trixie") == before
    script.chmod(0o755)
    executable = layers.content_key(tmp_path, "trixie")
    script.write_text("false\n")
    changed = layers.content_key(tmp_path, "trixie")
    assert len({before, executable, changed, layers.content_key(tmp_path, "sid")}) == 4


def test_a_missing_recipe_is_named() -> None:
    with pytest.raises(layers.ImageError, match=r"locks/1999\.1\.txt"):
        layers.recipe("locks/1999.1.txt")
