"""Layers: directory trees kept in the cache by the hash of what they are made from.

Lives here: the recipe folder, content keys, and the atomic, resumable making of a cached directory. Called by the
builders of this package. How a directory becomes a container image is in `containerd.py`.

A layer is made in `.<name>-<key>.partial`, then renamed, so that a directory without that prefix is always whole.
What a builder downloads is kept outside the partial directory (apt archives, uv cache), so a build that was cut goes
on without downloading again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

Log = Callable[[str], None]
"""Takes one line of progress."""

RECIPES = Path(__file__).resolve().parents[4] / "images"
"""The folder `images/` at the top of the tree: package lists, lock files, scripts that run inside root file systems."""

KEPT_BUILDS = 3
"""Builds of one name that stay in the cache: another clone with another recipe does not evict this one's at once."""


class ImageError(RuntimeError):
    """An image cannot be built or loaded; the message says which step, why, and where the whole log is."""


@dataclass(frozen=True)
class Layer:
    """One directory tree that is stacked on others to become an image."""

    name: str
    key: str
    path: Path
    """Directory of the build; the tree itself is in `root`."""

    @property
    def root(self) -> Path:
        return self.path / "root"

    @property
    def ident(self) -> str:
        """Names the content: equal idents are equal trees."""
        return f"{self.name}-{self.key}"


def recipe(name: str) -> Path:
    """Path of a recipe file or folder; raises ImageError where the tree is not a source tree."""
    path = RECIPES / name
    if not path.exists():
        raise ImageError(f"recipe {path} not found: images are built from a source tree of openstack-operator")
    return path


def words(path: Path) -> list[str]:
    """The entries of a list file: one a line, comments and blank lines left out."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def files_below(directory: Path) -> Iterator[Path]:
    """Every file below a directory in a stable order, without what Python and editors leave behind."""
    for folder, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name != "__pycache__")
        yield from (Path(folder) / name for name in sorted(files) if not name.endswith((".pyc", "~", ".swp")))


def content_key(*parts: str | Path | Iterable[Path]) -> str:
    """Hash (16 hex digits) of strings, of files, and of folders with everything in them."""
    digest = hashlib.sha256()

    def add(label: str, data: bytes) -> None:
        digest.update(f"{label}\0{len(data)}\0".encode())
        digest.update(data)

    def add_file(label: str, path: Path) -> None:
        add(f"{label} {path.stat().st_mode & 0o111:o}", path.read_bytes())

    for part in parts:
        if isinstance(part, str):
            add("text", part.encode())
        elif isinstance(part, Path) and part.is_file():
            add_file("file", part)
        elif isinstance(part, Path):
            for file in files_below(part):
                add_file(str(file.relative_to(part)), file)
        else:
            for file in part:
                add_file(file.name, file)
    return digest.hexdigest()[:16]


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds a lock file: two builds of one thing, of this process or another, come one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def cached(folder: Path, name: str, key: str, build: Callable[[Path], None]) -> Path:
    """Directory `<folder>/<name>-<key>`; made by `build(directory)` if it does not exist."""
    final = folder / f"{name}-{key}"
    if final.is_dir():
        return final
    with exclusive(folder / f".{name}.lock"):
        if final.is_dir():
            return final
        partial = folder / f".{name}-{key}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        build(partial)
        partial.rename(final)
        _forget_old_builds(folder, name, final)
    return final


def cached_layer(cache: Path, name: str, key: str, build: Callable[[Path], None]) -> Layer:
    """The layer `name` of this key; `build(directory)` puts its tree into `directory/root`, which exists."""

    def build_root(directory: Path) -> None:
        (directory / "root").mkdir(mode=0o755)
        build(directory)

    return Layer(name, key, cached(cache / "rootfs", name, key, build_root))


def _forget_old_builds(folder: Path, name: str, current: Path) -> None:
    """Removes builds beyond KEPT_BUILDS. Images loaded from them live on: a snapshot has links of its own."""
    builds = [path for path in folder.glob(f"{name}-*") if path.name[len(name) + 1 :].isalnum() and path != current]
    for old in sorted(builds, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT_BUILDS - 1 :]:
        shutil.rmtree(old, ignore_errors=True)
