"""Everything that is downloaded is what it was when it was chosen: pinned with hashes, or signed where no hash can be.

Python packages and Go modules have hashes. Debian packages have none: mirrors keep the newest version only, so that a
pinned one could not be installed a month later; what holds for them is the signature of Debian's archive. Two sets of
Python packages have versions and no hashes, and are named here: what builds the few packages that come as source, and
the suite of `make tempest`, which is never part of a cloud.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = [
    *sorted((ROOT / "requirements").glob("*.txt")),
    *sorted((ROOT / "images/locks").glob("*.txt")),
    ROOT / "images/uv.txt",
    ROOT / "src/openstack_operator/embedded/go.txt",
]
MODULES = sorted((ROOT / "src/openstack_operator/embedded/modules").glob("*/go.mod"))
RECIPES = [
    *(ROOT / name for name in ("up", "down", "test", "Makefile")),
    *sorted((ROOT / "scripts").iterdir()),
    *sorted(path for path in (ROOT / "images").rglob("*") if path.suffix in (".sh", ".py")),
    *sorted((ROOT / "src/openstack_operator/embedded").rglob("*.py")),
]
WITHOUT_HASHES = {"scripts/tempest.sh"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("lock", LOCKS, ids=name)
def test_every_python_package_has_one_version_and_hashes(lock: Path) -> None:
    text = "\n".join(line for line in lock.read_text().splitlines() if not line.startswith("#"))
    entries = re.split(r"\n(?=\S)", text.strip())
    assert entries
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==[^\s;]+( ; [^\\\n]+)? \\\n", entry), entry.splitlines()[0]
        hashes = entry.splitlines()[1:]
        assert hashes, entry
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes), entry


def test_every_installation_asks_for_hashes() -> None:
    asking, others = set(), set()
    for path in RECIPES:
        text = path.read_text()
        if re.search(r"\bpip\b.*\b(install|download)\b|\"(install|download)\"", text):
            (asking if "--require-hashes" in text else others).add(name(path))
    assert {"scripts/python.sh", "images/openstack/build.sh", "images/operator/build.sh"} <= asking
    assert {one for one in others if "pip" in (ROOT / one).read_text()} == WITHOUT_HASHES


def test_the_builders_of_source_packages_are_all_that_has_a_bound_instead_of_a_hash() -> None:
    text = (ROOT / "images/openstack/build-constraints.txt").read_text()
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == ["setuptools<80"]


def requirements(text: str) -> list[tuple[str, str]]:
    """Modules and versions of go.mod, as they are after its `replace` lines; replacements by directories have none."""
    replaced = {
        found[1]: (found[2], found[3] or "")
        for found in re.finditer(r"^(?:replace )?\s*(\S+)(?: v\S+)? => (\S+)(?: (v\S+))?", text, re.MULTILINE)
    }
    found = re.findall(r"^(?:require )?\s*([\w.-]+\.[\w./~-]+) (v\S+)(?: // indirect)?$", text, re.MULTILINE)
    return [one for one in (replaced.get(path, (path, version)) for path, version in found) if one[1]]


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_every_go_module_has_hashes(module: Path) -> None:
    known = set()
    for line in module.with_name("go.sum").read_text().splitlines():
        path, version, digest = line.split()
        assert re.fullmatch(r"h1:[A-Za-z0-9+/]{43}=", digest), line
        known.add((path, version))
    wanted = requirements(module.read_text())
    assert len(wanted) > 50
    assert [one for one in wanted if (one[0], f"{one[1]}/go.mod") not in known] == []


def test_go_takes_no_module_that_go_sum_does_not_know() -> None:
    text = (ROOT / "src/openstack_operator/embedded/programs.py").read_text()
    assert '"GOFLAGS": "-mod=readonly' in text
    for path in RECIPES:
        assert not re.search(r"GONOSUMCHECK|GONOSUMDB|GOINSECURE|GOFLAGS.*-mod=mod", path.read_text()), name(path)


def test_debian_packages_are_those_that_the_archive_has_signed() -> None:
    """Which versions these are is the mirror's to say: no recipe pins one."""
    forbidden = r"trusted=yes|allow-unauthenticated|AllowUnauthenticated|AllowInsecure|allow-insecure|no-check-gpg"
    for path in RECIPES:
        assert not re.search(forbidden, path.read_text(), re.IGNORECASE), name(path)
    assert "signed-by={KEYRING}" in (ROOT / "src/openstack_operator/embedded/images/debian.py").read_text()


def test_nothing_is_fetched_around_the_package_managers() -> None:
    for path in RECIPES:
        text = "\n".join(line.partition("#")[0] for line in path.read_text().splitlines())
        assert not re.search(r"\b(curl|wget|git clone)\b[^\n]*https?:", text), name(path)
