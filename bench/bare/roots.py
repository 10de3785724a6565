"""The files of the bare control plane: for each pod a root file system with the volumes of all its containers in it.

The root is the image's own layers, as containerd stacks them, below an empty writable one. Volumes hold the bytes of
the live cloud's ConfigMaps and Secrets; claims and empty volumes are empty; what is the node's is the node's. Made
before the clock runs: a machine that is set up without Kubernetes has its packages and files in place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bare import network
from bare.snapshot import Pod, Snapshot
from openstack_operator.embedded import mounts
from openstack_operator.embedded.images import Image

# What a container runtime gives to every container, and what it gives to the switch, libvirt and privileged ones.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net/tun", "kvm")
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}


class Roots:
    """All root file systems below one directory, which nobody else uses."""

    def __init__(self, base: Path, images: Sequence[Image]) -> None:
        self.base = base
        self._images = {image.name: image for image in images}

    def clear(self) -> None:
        """Removes everything, also of a run that was killed."""
        mounts.unmount(self.base)
        left = mounts.below(self.base)
        if left:
            raise RuntimeError(f"mounted still, so it stays: {', '.join(left)}")
        shutil.rmtree(self.base, ignore_errors=True)

    def prepare(self, snapshot: Snapshot) -> None:
        self.clear()
        self.base.mkdir(parents=True, mode=0o711)
        mount("-t", "tmpfs", "-o", "mode=0755,dev", "tmpfs", made(self.base / "dev"))
        for name in DEVICES:
            if Path("/dev", name).exists():
                made((self.base / "dev" / name).parent)
                subprocess.run(["cp", "-a", f"/dev/{name}", self.base / "dev" / name], check=True)
        for name, to in LINKS.items():
            (self.base / "dev" / name).symlink_to(to)
        mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=0620", "devpts", made(self.base / "dev/pts"))
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", made(self.base / "dev/shm"))
        (self.base / "dev/termination-log").touch(mode=0o666)
        (self.base / "dev/termination-log").chmod(0o666)
        (self.base / "hosts").write_text(network.hosts_file(snapshot))
        (self.base / "resolv.conf").touch()
        for pod in snapshot.pods.values():
            self._make(pod, snapshot)

    def root(self, pod: Pod) -> Path:
        return self.base / pod.name / "root"

    def environment(self, image: str) -> dict[str, str]:
        """What the image itself sets."""
        config: dict[str, Any] = dict(self._images[image].config())
        return dict(entry.split("=", 1) for entry in config["Env"])

    def _make(self, pod: Pod, snapshot: Snapshot) -> None:
        own, root = made(self.base / pod.name), made(self.root(pod))
        images = {one["image"] for one in containers(pod)}
        stacks = {tuple(str(layer.root) for layer in reversed(self._images[image].layers)) for image in images}
        if len(stacks) != 1:
            raise RuntimeError(f"pod {pod.name}: its containers are made of different layers")
        options = f"lowerdir={':'.join(stacks.pop())},upperdir={made(own / 'upper')},workdir={made(own / 'work')}"
        mount("-t", "overlay", "-o", options, "overlay", root)
        mount("-t", "proc", "proc", inside(root, "/proc"))
        bind(Path("/sys"), inside(root, "/sys"), "--bind")
        bind(self.base / "dev", inside(root, "/dev"))
        for name in ("hosts", "resolv.conf"):
            bind(self.base / name, inside(root, f"/etc/{name}", is_file=True))
        volumes = {one["name"]: one for one in pod.spec.get("volumes", [])}
        for path, name, part, propagation in sorted(places(pod)):
            source = self._volume(pod, volumes[name], snapshot) / part
            if path.startswith("/dev/"):
                continue  # Among the devices that all have.
            to = inside(root, path, is_file=source.is_file())
            bind(source, to, propagates=propagation == "Bidirectional")

    def _volume(self, pod: Pod, volume: Mapping[str, Any], snapshot: Snapshot) -> Path:
        """The directory of a volume; made at the first call."""
        if host := volume.get("hostPath"):
            there = Path(host["path"])
            return made(there) if host.get("type") == "DirectoryOrCreate" else there
        path = self.base / pod.name / "volumes" / str(volume["name"])
        if path.exists():
            return path
        made(path)
        if volume.get("emptyDir", {}).get("medium") == "Memory":
            mount("-t", "tmpfs", "tmpfs", path)
        group = pod.spec.get("securityContext", {}).get("fsGroup", 0)
        files = dict(content(volume, snapshot))
        for name, (data, mode) in files.items():
            made((path / name).parent)
            (path / name).write_bytes(data)
            (path / name).chmod(mode)
            os.chown(path / name, 0, group)
        # As the kubelet does it: the pod's group owns what it may write, and so do files made there.
        os.chown(path, 0, group)
        path.chmod(0o755 if files else 0o2777)
        return path


def containers(pod: Pod) -> list[dict[str, Any]]:
    return [*pod.spec.get("initContainers", []), *pod.spec["containers"]]


def places(pod: Pod) -> set[tuple[str, str, str, str]]:
    """Path, volume, path in the volume and propagation of every mount of any container of a pod."""
    found = {
        (one["mountPath"], one["name"], one.get("subPath", ""), one.get("mountPropagation", ""))
        for container in containers(pod)
        for one in container.get("volumeMounts", [])
    }
    if len({path for path, *_ in found}) != len(found):
        raise RuntimeError(f"pod {pod.name}: its containers mount different volumes at one path")
    return found


def content(volume: Mapping[str, Any], snapshot: Snapshot) -> Iterable[tuple[str, tuple[bytes, int]]]:
    """Name, bytes and mode of each file of a volume made of ConfigMaps and Secrets."""
    sources: list[Mapping[str, Any]]
    if "projected" in volume:
        mode, sources = volume["projected"].get("defaultMode", 0o644), volume["projected"]["sources"]
    else:
        mode, sources = (volume.get("configMap") or volume.get("secret") or {}).get("defaultMode", 0o644), [volume]
    for one in sources:
        if source := one.get("configMap"):
            data = snapshot.configmaps[source["name"]]
        elif source := one.get("secret"):
            data = snapshot.secrets[source.get("secretName") or source["name"]]
        else:
            continue
        chosen = {item["key"]: item["path"] for item in source.get("items", [])} or {key: key for key in data}
        for key, path in chosen.items():
            yield path, (data[key], mode)


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def bind(source: Path, target: Path, how: str = "--rbind", *, propagates: bool = False) -> None:
    """Shows a tree at another place. Unless it is meant to, what is unmounted there later stays mounted here."""
    mount(how, source, target)
    if not propagates:
        mount("--make-rslave", target)


def made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def inside(root: Path, path: str, *, is_file: bool = False) -> Path:
    """A path as seen from a root, there to be mounted on: absolute links stay inside of the root."""
    found = root
    for part in Path(path).parts[1:]:
        found /= part
        while found.is_symlink():
            to = found.readlink()
            found = root / to.relative_to("/") if to.is_absolute() else found.parent / to
        found = Path(os.path.normpath(found))
        if not found.is_relative_to(root):
            raise RuntimeError(f"{path} leads out of {root}")
    if is_file:
        made(found.parent)
        found.touch()
        return found
    return made(found)
