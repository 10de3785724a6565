"""`openstack-operator lint`: the check of configuration text without a cluster.

Reads plain configuration files and our own objects in YAML, with the code that the operator itself checks with
(`kit/custom_config.py`). What of YAML is checked is in `lint_objects`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import typer

from openstack_operator.kit import catalogues, custom_config
from openstack_operator.kit.custom_config import Finding

Output = Literal["text", "json", "sarif"]
STDIN = "-"
YAML = (".yaml", ".yml", ".json")
POLICY = "policy.yaml"
"""A service's rules, where a service is named, and no object of ours."""
PLAIN = (".conf", ".ini")


@dataclasses.dataclass(frozen=True)
class Remark:
    """A finding, and where it stands: ``line`` is the line of the file."""

    file: str
    line: int
    finding: Finding


def run(
    files: Sequence[str],
    service: str | None,
    release: str | None,
    output: Output,
    strict: bool,
    stdin: str | None = None,
) -> tuple[str, int]:
    """The report and the exit code: 1 for an error, or for any finding where ``strict``."""
    remarks: list[Remark] = []
    for name in files:
        remarks += _lint(name, service, release, stdin)
    text = {"text": _text, "json": _json, "sarif": _sarif}[output](remarks)
    is_bad = any(strict or remark.finding.severity == "error" for remark in remarks)
    return text, 1 if is_bad else 0


def _lint(name: str, service: str | None, release: str | None, stdin: str | None) -> Iterator[Remark]:
    if name == STDIN:
        content = sys.stdin.buffer.read() if stdin is None else stdin.encode()
        yield from _content(name, content, service is None, service, release)
        return
    path = Path(name)
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix in YAML or (file.suffix in PLAIN and (service or _service_of(file))):
                yield from _lint(str(file), service, release, stdin)
        return
    if not path.is_file():
        raise typer.BadParameter(f"{name} does not exist")
    is_yaml = path.suffix in YAML
    known = service or _service_of(path)
    if not is_yaml and known is None:
        raise typer.BadParameter(f"which service reads {name}? Say it with --service")
    yield from _content(name, path.read_bytes(), is_yaml, known, release)


def _service_of(path: Path) -> str | None:
    """The service that a configuration file belongs to by its name, such as glance-api.conf."""
    first = path.stem.replace("_", "-").partition("-")[0]
    first = "neutron" if first in ("ml2", "ovn") else first
    return first if any(first in catalogues.services(release) for release in catalogues.releases()) else None


def _content(name: str, content: bytes, is_yaml: bool, service: str | None, release: str | None) -> Iterator[Remark]:
    try:
        text = content.decode()
    except UnicodeDecodeError as problem:
        line = content[: problem.start].count(b"\n") + 1
        yield Remark(name, line, Finding("error", "unreadable", "", line, "", "", "is not UTF-8 text"))
        return
    if service is not None and Path(name).name == POLICY:
        # Here: parsing YAML costs plain files nothing.
        from openstack_operator.kit import policy_text

        known = release or catalogues.index().default_release
        for finding in policy_text.check(text, service, known, custom_config.LENIENT, field=""):
            yield Remark(name, finding.line, finding)
        return
    if is_yaml:
        # Here: parsing YAML costs plain files nothing.
        from openstack_operator.cli import lint_objects

        for line, finding in lint_objects.findings(text, release):
            yield Remark(name, line, finding)
        return
    assert service is not None  # a plain file's service is known here
    for finding in custom_config.check(text, service, release or catalogues.index().default_release, field=""):
        yield Remark(name, finding.line, finding)


# --- reports --------------------------------------------------------------------------------------------------------


def _text(remarks: Sequence[Remark]) -> str:
    lines = []
    for remark in remarks:
        finding = remark.finding
        where = f"{finding.field}: " if finding.field else ""
        lines.append(f"{remark.file}:{remark.line}: {finding.severity}: {where}{finding.message} [{finding.rule}]\n")
    return "".join(lines)


def _json(remarks: Sequence[Remark]) -> str:
    found = [
        {
            "file": remark.file,
            **dataclasses.asdict(remark.finding),
            "line": remark.line,
            "textLine": remark.finding.line,
        }
        for remark in remarks
    ]
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _sarif(remarks: Sequence[Remark]) -> str:
    """SARIF 2.1.0, which code hosts show beside the lines (docs.oasis-open.org/sarif)."""
    results: list[dict[str, Any]] = [
        {
            "ruleId": remark.finding.rule,
            "level": remark.finding.severity,
            "message": {"text": remark.finding.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "stdin" if remark.file == STDIN else Path(remark.file).as_posix()},
                        "region": {"startLine": remark.line},
                    },
                    "logicalLocations": [{"fullyQualifiedName": remark.finding.field or remark.finding.option}],
                }
            ],
        }
        for remark in remarks
    ]
    rules = [{"id": rule, "shortDescription": {"text": text}} for rule, text in custom_config.RULES.items()]
    driver = {"name": "openstack-operator lint", "rules": rules}
    report = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"
