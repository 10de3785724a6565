"""What the documents point to exists: links, files, commands and options of the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from openstack_operator.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "STYLE.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Where a path in a text may begin.
TOPS = (ROOT, ROOT / "src/openstack_operator", ROOT / "tests")

# The pages on a made-up service and the rule on names speak of files that are not there.
MADE_UP = ("almanac", "NNNN", "…", "<", "*")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_to_files(page: Path) -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", page.read_text()) if "://" not in link]
    assert [link for link in links if link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_files_that_are_named_exist(page: Path) -> None:
    names = re.findall(r"`([\w./-]+/[\w.-]*\.(?:py|toml|yaml|txt|md|sh)|[\w-]+(?:/[\w-]+)+/)`", page.read_text())
    names = [name for name in names if not name.startswith("/") and not any(word in name for word in MADE_UP)]
    assert [name for name in names if not any((top / name).exists() for top in TOPS)] == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_and_their_options_are_those_of_the_command_line(page: Path) -> None:
    commands = typer.main.get_command(main.app).commands  # type: ignore[attr-defined]
    scripts = {"./up": "up", "./down": "down"}
    wrong = []
    for start, rest in re.findall(
        r"(openstack-operator |kubectl openstack |\./up\b|\./down\b)([^\n`)|#]*)", page.read_text()
    ):
        words = rest.split()
        name = scripts.get(start) or next(iter(words), "")
        if not re.fullmatch(r"[a-z][a-z-]*", name) or (start.strip() == "openstack-operator" and not words):
            continue
        if name not in commands:
            wrong.append(f"{start}{rest}")
            continue
        known = {
            option for parameter in commands[name].params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        # Options of `run` are its own parser's.
        if name != "run":
            wrong += [f"{name} {word}" for word in words if word.startswith("--") and word.split("=")[0] not in known]
    assert wrong == []
