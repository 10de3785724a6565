"""Gives images to a running containerd without packing, copying or unpacking them.

Called by `load` in `__init__.py`. A layer's files become a committed overlayfs snapshot by hard links (a copy where
the cache is on another file system), and the image is a real manifest and configuration whose layer blobs do not
exist: containerd needs those only to unpack, and the snapshots are there already. 2 GB in 80,000 files take seconds
instead of a minute, and no disk.

Life time: each image's configuration carries containerd's own reference to its topmost snapshot, so that a snapshot
goes when the last image and container using it are gone.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from openstack_operator.embedded.images import catalogue, layers

NAMESPACE = "k8s.io"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
INDEX = "application/vnd.oci.image.index.v1+json"
GC_ROOT = "containerd.io/gc.root"
GC_SNAPSHOT = "containerd.io/gc.ref.snapshot.overlayfs"
MANAGED = "openstack-operator"


class Containerd:
    """The image and snapshot store of one containerd, spoken to by `ctr`."""

    def __init__(self, ctr: Sequence[str]) -> None:
        """`ctr` is the command with what selects the instance, e.g. `[".../ctr", "-a", SOCKET]`."""
        self._ctr = [*ctr, "-n", NAMESPACE]

    def images(self) -> dict[str, str]:
        """Digest of the manifest by image name."""
        rows = (line.split() for line in self._run("images", "ls").splitlines()[1:])
        return {row[0]: row[2] for row in rows if len(row) > 2}

    def snapshots(self) -> set[str]:
        return {line.split()[0] for line in self._run("snapshots", "ls").splitlines()[1:] if line.strip()}

    def add_snapshot(self, chain: str, parent: str, layer: layers.Layer) -> None:
        """Commits the snapshot `chain` with the layer's files on top of the snapshot `parent` ("" for none)."""
        key = f"{MANAGED}-{chain[-16:]}"
        if key in self.snapshots():  # left by a run that was cut
            self._run("snapshots", "rm", key)
        self._run("snapshots", "prepare", key, *([parent] if parent else []))
        _link_tree(layer.root, _upper_directory(self._run("snapshots", "mounts", "/unused", key)))
        self._run("snapshots", "commit", chain, key)
        # nothing refers to it until the image's record exists
        self._run("snapshots", "label", chain, f"{GC_ROOT}={MANAGED}")

    def add_images(self, archive: Path) -> None:
        self._run("images", "import", "--local", "--no-unpack", str(archive))

    def refer(self, config_digest: str, chain: str) -> None:
        """Ties a snapshot's life to an image's configuration."""
        self._run("content", "label", config_digest, f"{GC_SNAPSHOT}={chain}")

    def release(self, chain: str) -> None:
        """Ends the protection of a snapshot that an image refers to now."""
        self._run("snapshots", "label", chain, f"{GC_ROOT}=")

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._ctr, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise layers.ImageError(f"ctr {' '.join(arguments[:3])} failed: {done.stderr.strip() or done.returncode}")
        return done.stdout


class Record:
    """Manifest and configuration of one image: the bytes and their digests, the same for the same content."""

    def __init__(self, image: catalogue.Image) -> None:
        self.image = image
        diffs = [_sha256(layer.ident.encode()) for layer in image.layers]
        self.chains = chains(diffs)
        self.config = _json(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": image.config(),
                "rootfs": {"type": "layers", "diff_ids": diffs},
            }
        )
        self.config_digest = _sha256(self.config)
        self.manifest = _json(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {"mediaType": CONFIG, "digest": self.config_digest, "size": len(self.config)},
                "layers": [{"mediaType": LAYER, "digest": diff, "size": 1} for diff in diffs],
            }
        )
        self.manifest_digest = _sha256(self.manifest)


def chains(diffs: Sequence[str]) -> list[str]:
    """OCI chain ids, lowest first: the names that containerd gives to the snapshots of an image's layers."""
    result: list[str] = []
    for diff in diffs:
        result.append(_sha256(f"{result[-1]} {diff}".encode()) if result else diff)
    return result


def load(containerd: Containerd, images: Sequence[catalogue.Image], log: layers.Log) -> int:
    """Makes the images known to containerd; returns how many were not there. Nothing to do costs two listings."""
    known, snapshots = containerd.images(), containerd.snapshots()
    records = [Record(image) for image in images]
    missing = [
        record
        for record in records
        if known.get(record.image.name) != record.manifest_digest or not snapshots.issuperset(record.chains)
    ]
    for record in missing:
        parent = ""
        for layer, chain in zip(record.image.layers, record.chains, strict=True):
            if chain not in snapshots:
                log(f"loading {layer.name}")
                containerd.add_snapshot(chain, parent, layer)
                snapshots.add(chain)
            parent = chain
    if missing:
        with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
            write_archive(Path(archive.name), missing)
            containerd.add_images(Path(archive.name))
        for record in missing:
            containerd.refer(record.config_digest, record.chains[-1])
        for chain in {chain for record in missing for chain in record.chains}:
            containerd.release(chain)
        log(f"{len(missing)} images loaded")
    return len(missing)


def write_archive(path: Path, records: Sequence[Record]) -> None:
    """An OCI archive with the manifests and configurations of several images, and no layers."""
    blobs = {digest: data for record in records for digest, data in _blobs(record).items()}
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [
            {
                "mediaType": MANIFEST,
                "digest": record.manifest_digest,
                "size": len(record.manifest),
                "annotations": {"io.containerd.image.name": record.image.name},
            }
            for record in records
        ],
    }
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for digest, data in blobs.items():
            _add(archive, f"blobs/sha256/{digest.removeprefix('sha256:')}", data)
        _add(archive, "index.json", _json(index))


def _blobs(record: Record) -> dict[str, bytes]:
    return {record.config_digest: record.config, record.manifest_digest: record.manifest}


def _add(archive: tarfile.TarFile, path: str, data: bytes) -> None:
    info = tarfile.TarInfo(path)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _upper_directory(mounts: str) -> Path:
    """Where a prepared snapshot's files go, from the mount command that `ctr snapshots mounts` prints."""
    words = mounts.split()
    options = words[words.index("-o") + 1].split(",")
    upper = next((option.removeprefix("upperdir=") for option in options if option.startswith("upperdir=")), None)
    # without a parent it is a bind mount: the source, after the type, is the directory
    return Path(upper or words[words.index("-t") + 2])


def _link_tree(source: Path, target: Path) -> None:
    linked = subprocess.run(["cp", "-al", f"{source}/.", str(target)], capture_output=True, text=True, check=False)
    if linked.returncode and "cross-device" in linked.stderr.lower():
        linked = subprocess.run(
            ["cp", "-a", "--reflink=auto", f"{source}/.", str(target)], capture_output=True, text=True, check=False
        )
    if linked.returncode:
        raise layers.ImageError(f"cannot link {source} into containerd: {linked.stderr.strip()[-300:]}")


def _sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
