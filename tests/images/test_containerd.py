"""Loading into a real containerd: what it knows afterwards, that a second run does nothing, that nothing is left."""

from __future__ import annotations

import os
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from openstack_operator.embedded import paths, programs
from openstack_operator.embedded.images import catalogue, containerd, layers

CONFIGURATION = """version = 3
root = "{directory}/root"
state = "{directory}/state"
disabled_plugins = [
  "io.containerd.cri.v1.runtime",
  "io.containerd.cri.v1.images",
  "io.containerd.grpc.v1.cri",
  "io.containerd.nri.v1.nri",
]
[grpc]
address = "{directory}/socket"
[plugins."io.containerd.internal.v1.opt"]
path = "{directory}/opt"
[plugins."io.containerd.gc.v1.scheduler"]
deletion_threshold = 1
schedule_delay = "0s"
"""


@pytest.fixture
def ctr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The command prefix for a containerd of this test's own."""
    if os.geteuid() != 0:
        pytest.skip("containerd needs root")
    given = os.environ.get("OPENSTACK_OPERATOR_KUBERNETES_BIN")
    directory = Path(given) if given else programs.ensure(paths.default().cache, needed=("containerd", "ctr"))
    home = tmp_path_factory.mktemp("containerd")
    (home / "config.toml").write_text(CONFIGURATION.format(directory=home))
    with (home / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [str(directory / "containerd"), "--config", str(home / "config.toml")], stdout=log, stderr=log
        )
        prefix = [str(directory / "ctr"), "-a", str(home / "socket")]
        try:
            for _ in range(100):
                if subprocess.run([*prefix, "version"], capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.1)
            else:
                raise AssertionError((home / "log").read_text()[-2000:])
            yield prefix
        finally:
            daemon.terminate()
            daemon.wait(timeout=20)


def layer(directory: Path, name: str, key: str, **files: str) -> layers.Layer:
    """A layer with small files."""
    made = layers.Layer(name, key, directory / f"{name}-{key}")
    made.root.mkdir(parents=True)
    for file, text in files.items():
        (made.root / file).write_text(text)
    return made


def test_images_share_layers_and_a_second_load_does_nothing(ctr: list[str], tmp_path: Path) -> None:
    base, top = layer(tmp_path, "base", "1", below="base"), layer(tmp_path, "top", "1", above="top")
    images = [catalogue.Image("localhost/a:1", (base,)), catalogue.Image("localhost/b:1", (base, top))]
    store, lines = containerd.Containerd(ctr), list[str]()

    assert containerd.load(store, images, lines.append) == 2
    assert lines == ["loading base", "loading top", "2 images loaded"]
    assert set(store.images()) == {"localhost/a:1", "localhost/b:1"}
    assert store.snapshots() == set(containerd.Record(images[1]).chains)
    assert containerd.load(store, images, lines.append) == 0
    assert len(lines) == 3


def test_the_files_are_links_not_copies(ctr: list[str], tmp_path: Path) -> None:
    base = layer(tmp_path, "base", "1", below="base")
    containerd.load(containerd.Containerd(ctr), [catalogue.Image("localhost/a:1", (base,))], lambda line: None)
    assert (base.root / "below").stat().st_nlink == 2


def test_a_new_layer_replaces_the_image_and_the_old_snapshot_goes(ctr: list[str], tmp_path: Path) -> None:
    base, old, new = (
        layer(tmp_path, "base", "1"),
        layer(tmp_path, "top", "1", x="old"),
        layer(tmp_path, "top", "2", x="new"),
    )
    store = containerd.Containerd(ctr)
    containerd.load(store, [catalogue.Image("localhost/b:1", (base, old))], lambda line: None)
    image = catalogue.Image("localhost/b:1", (base, new))
    assert containerd.load(store, [image], lambda line: None) == 1
    record = containerd.Record(image)
    assert store.images() == {"localhost/b:1": record.manifest_digest}
    for _ in range(50):  # containerd collects garbage when it likes
        if store.snapshots() == set(record.chains):
            break
        time.sleep(0.1)
    assert store.snapshots() == set(record.chains)


def test_a_load_that_was_cut_is_taken_up(ctr: list[str], tmp_path: Path) -> None:
    base = layer(tmp_path, "base", "1", below="base")
    image = catalogue.Image("localhost/a:1", (base,))
    store = containerd.Containerd(ctr)
    # cut after the snapshot, before the record of the image
    store.add_snapshot(containerd.Record(image).chains[0], "", base)
    assert containerd.load(store, [image], lambda line: None) == 1
    assert set(store.images()) == {"localhost/a:1"}


def test_chain_ids_are_those_of_the_oci_specification() -> None:
    first = "sha256:" + "a" * 64
    assert containerd.chains([first, "sha256:" + "b" * 64]) == [
        first,
        "sha256:ccd722928bd92476ba1745586fed6e45a102504185ad88cd89e01ff116fd146c",
    ]


def test_the_archive_holds_manifests_and_configurations_and_no_layer(tmp_path: Path) -> None:
    base = layers.Layer("base", "1", tmp_path)
    records = [containerd.Record(catalogue.Image(f"localhost/{name}:1", (base,))) for name in ("a", "b")]
    containerd.write_archive(tmp_path / "archive.tar", records)
    with tarfile.open(tmp_path / "archive.tar") as archive:
        names = archive.getnames()
    # both images are the same content, so they are the same blobs
    blobs = [f"blobs/sha256/{digest[7:]}" for digest in (records[0].config_digest, records[0].manifest_digest)]
    assert names == ["oci-layout", *blobs, "index.json"]
