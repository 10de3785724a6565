"""docs/how-to/add-a-service.md is true: its files and its three edits, put into a copy of the tree, make a service."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/how-to/add-a-service.md"

# A path at the beginning of a paragraph, and the block that follows it.
_BLOCK = re.compile(r"^`(src/[^`]+)`[^`]*(?:`[^`\n]*`[^`]*)*?\n```(python|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CHILD = """
from openstack_operator.controlplane import resources, types
from openstack_operator.services import almanac
spec = types.OpenStackControlPlaneSpec.model_validate({"region": "North", "almanac": {"yearsAhead": 3}})
made = resources.child(almanac.SERVICE, "cloud", spec)
print(made["metadata"]["name"], made["spec"]["yearsAhead"], made["spec"]["region"])
"""


def edited(text: str, difference: str) -> str:
    """The text with each `+` line put behind the line of context above it."""
    lines, at = text.splitlines(), 0
    for line in difference.splitlines():
        if line.startswith("+"):
            lines.insert(at, line[1:])
            at += 1
        else:
            at = lines.index(line[1:]) + 1
    return "\n".join(lines) + "\n"


def run(tree: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=tree,
        env={"PYTHONPATH": str(tree / "src"), "PATH": "/usr/bin:/bin", "MYPYPATH": str(tree / "src")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the tree with the service of the page."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", ".*", "modules"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    blocks = _BLOCK.findall(PAGE.read_text())
    assert [kind for _, kind, _ in blocks] == ["python"] * 5 + ["diff"] * 3
    for name, kind, text in blocks:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text if kind == "python" else edited(file.read_text(), text))
    return tmp_path


def test_the_service_of_the_page_is_generated_and_made_by_the_control_plane(tree: Path) -> None:
    run(tree, "-m", "openstack_operator.cli.generate", "--root", str(tree))
    crd = yaml.safe_load((tree / "deploy/crds/almanacs.openstack.k8s.io.yaml").read_text())
    assert crd["spec"]["names"]["kind"] == "Almanac"
    assert "almanacs" in (tree / "deploy/rbac.yaml").read_text()
    assert "[calendar] years_ahead" in (tree / "docs/reference/almanac.md").read_text()
    assert run(tree, "-c", CHILD) == "almanac 3 North\n"


def test_the_code_of_the_page_keeps_the_rules_of_the_project(tree: Path) -> None:
    folder = str(tree / "src/openstack_operator/services/almanac")
    run(tree, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), folder)
    run(tree, "-m", "ruff", "format", "--check", "--config", str(ROOT / "pyproject.toml"), folder)
    run(tree, "-m", "mypy", "--config-file", str(tree / "pyproject.toml"), folder)
