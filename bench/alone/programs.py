"""What runs the operators: environments of ours and of the one on kopf, and the program on controller-runtime.

Each is kept in the cache under a hash of everything that it is made from, so that it is made once, and never in the
tree. Called by `operator_alone`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from openstack_operator.embedded import programs
from openstack_operator.runtime import errors

PEERS = Path(__file__).resolve().parents[1] / "peers"
KOPF = PEERS / "kopf"
CONTROLLER_RUNTIME = PEERS / "controller-runtime"
RUNTIME = Path(__file__).resolve().parents[2] / "requirements" / "runtime.txt"


class PeerError(errors.OperatorError):
    """A peer cannot be made; the message has what its builder said."""


def ours(cache: Path, log: programs.Log) -> str:
    """A Python with what the operator's image has, and nothing else: libraries take what they find beside them."""
    return _environment(cache / "bench" / "operator", RUNTIME, log)


def kopf(cache: Path, log: programs.Log) -> tuple[str, ...]:
    """The command of the operator on kopf, without arguments."""
    return _environment(cache / "bench" / "kopf", KOPF / "requirements.txt", log), str(KOPF / "toy_operator.py")


def _environment(place: Path, requirements: Path, log: programs.Log) -> str:
    """The Python of a virtual environment with pinned packages."""

    def build(stage: Path) -> None:
        _run([sys.executable, "-m", "venv", str(stage)])
        pip = [str(stage / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--no-deps", "--require-hashes", "-r", str(requirements)])

    place = place / _key((requirements,), sys.version)
    # Its programs name the place where they were made: it is made where it stays.
    _made(place, build, log, is_movable=False)
    return str(place / "bin/python")


def controller_runtime(cache: Path, log: programs.Log) -> tuple[str, ...]:
    """The command of the operator on controller-runtime, without arguments."""
    go = programs.find_go(cache, log)
    environment = programs.go_environment() | {
        "GOCACHE": str(cache / "go-build"),
        "GOMODCACHE": str(cache / "go-mod"),
    }

    def build(stage: Path) -> None:
        command = [str(go), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(stage / "peer"), "."]
        _run(command, cwd=CONTROLLER_RUNTIME, env=environment)

    place = cache / "bench" / "controller-runtime" / _key(CONTROLLER_RUNTIME.iterdir(), programs.go_version(go))
    _made(place, build, log)
    return (str(place / "peer"),)


def _key(sources: Iterable[Path], compiler: str) -> str:
    digest = hashlib.sha256(compiler.encode())
    for path in sorted(sources):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _made(place: Path, build: Callable[[Path], None], log: programs.Log, *, is_movable: bool = True) -> None:
    """Runs a build, unless its result is there; half a result is never taken for one."""
    whole = place / ".whole"
    if whole.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with programs.locked(place.parent / ".lock", log):
        if whole.exists():
            return
        log(f"making {place.parent.name}")
        shutil.rmtree(place, ignore_errors=True)
        if not is_movable:
            build(place)
        else:
            with tempfile.TemporaryDirectory(dir=place.parent) as stage:
                build(Path(stage))
                shutil.copytree(stage, place)
        whole.touch()


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, check=False, capture_output=True, text=True)
    if done.returncode:
        raise PeerError(f"{' '.join(command[:4])} … ended with {done.returncode}: {done.stderr.strip()[-800:]}")
