"""Samples and documented examples against the generated CRDs in a real kube-apiserver, under strict field validation.

The first comment lines of a file say what is expected of it:

    # expect: TEXT                          refused, and TEXT is in the message
    # expect-condition: Type/Reason: TEXT   accepted here; the controller stalls on it, which a controller test checks
    # expect-admission: TEXT                besides: refused where the webhook answers (tests/controllers)
    # expect-warning: TEXT                  besides: the webhook warns of it
    # not yet: spec.a, spec.b               fields that no kind has so far: refused with them, accepted without
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from openstack_operator.cli import generate
from openstack_operator.embedded.apiserver import ApiserverError, ControlPlane
from openstack_operator.runtime import kinds

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "deploy" / "samples"
VALID = sorted((SAMPLES / "valid").rglob("*.yaml"))
INVALID = sorted((SAMPLES / "invalid").rglob("*.yaml"))
DOCUMENTED = sorted((ROOT / "tests" / "seeds").glob("*.yaml"))

Object = dict[str, Any]

# Checked here, so that a typing error in a comment does not turn into a test of nothing.
EXPECTATIONS = re.compile(r"^# (expect|expect-condition|expect-admission|expect-warning|not yet): (.+)$", re.MULTILINE)
CONDITION = re.compile(r"[A-Z]\w+/[A-Z]\w+: .+")


def _name(path: Path) -> str:
    return path.stem


def _expectation(path: Path, wanted: str) -> str | None:
    found = {key: text.strip() for key, text in EXPECTATIONS.findall(path.read_text())}
    return found.get(wanted)


def _objects(path: Path) -> list[Object]:
    return [item for item in yaml.safe_load_all(path.read_text()) if item]


@pytest.fixture(scope="module")
def catalogue() -> generate.Catalogue:
    return generate.product(ROOT)


@pytest.fixture(scope="module")
def server(apiserver: ControlPlane, catalogue: generate.Catalogue) -> ControlPlane:
    """The apiserver with all CRDs of the product established."""
    apiserver.apply(*(kinds.crd(kind) for kind in catalogue.kinds))
    names = [f"crd/{kind.resource.full_name}" for kind in catalogue.kinds]
    apiserver.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    return apiserver


def _dry_run(server: ControlPlane, objects: Sequence[Object], namespace: str) -> None:
    """Creates without storing. Raises ApiserverError with everything that is wrong.

    Not a server-side apply: that refuses a wrong type with a message of its own before the schema is consulted.
    """
    documents = []
    for item in copy.deepcopy(list(objects)):
        # Samples name the namespace that the docs use; here each test has one of its own.
        item["metadata"].pop("namespace", None)
        documents.append(item)
    text = yaml.safe_dump_all(documents)
    server.kubectl("create", "--dry-run=server", "--validate=strict", "-n", namespace, "-f", "-", stdin=text)


@pytest.mark.parametrize("path", VALID, ids=_name)
def test_a_valid_sample_applies(server: ControlPlane, namespace: str, path: Path) -> None:
    """Regression r58, f53."""
    _dry_run(server, _objects(path), namespace)


@pytest.mark.parametrize("path", INVALID, ids=_name)
def test_an_invalid_sample_is_refused_with_the_message_beside_it(
    server: ControlPlane, namespace: str, path: Path
) -> None:
    refused, stalled = _expectation(path, "expect"), _expectation(path, "expect-condition")
    assert (refused is None) != (stalled is None), "one of `# expect:` and `# expect-condition:` at the head"
    judged = _expectation(path, "expect-admission") or _expectation(path, "expect-warning")
    assert judged is None or stalled is not None, "what the webhook says, the controller says where that was away"
    if stalled is not None:
        assert CONDITION.fullmatch(stalled), "# expect-condition: Type/Reason: text"
        _dry_run(server, _objects(path), namespace)
        return
    with pytest.raises(ApiserverError) as raised:
        _dry_run(server, _objects(path), namespace)
    assert refused in str(raised.value)


@pytest.mark.parametrize("path", DOCUMENTED, ids=_name)
def test_a_documented_example_applies_as_it_is_written(
    server: ControlPlane, catalogue: generate.Catalogue, namespace: str, path: Path
) -> None:
    known = {(kind.resource.api_version, kind.resource.kind) for kind in catalogue.kinds}
    objects = [item for item in _objects(path) if (item["apiVersion"], item["kind"]) in known]
    if not objects:
        pytest.skip("none of its kinds exists so far")
    absent = (_expectation(path, "not yet") or "").replace(" ", "").split(",")
    for field in filter(None, absent):
        # Alone, so that a field that works by now is found and taken out of the comment.
        others = [_without(item, [one for one in absent if one != field]) for item in objects]
        with pytest.raises(ApiserverError):
            _dry_run(server, others, namespace)
    _dry_run(server, [_without(item, absent) for item in objects], namespace)


def _without(item: Object, fields: Sequence[str]) -> Object:
    out = copy.deepcopy(item)
    for field in filter(None, fields):
        *parents, last = field.split(".")
        node = out
        for parent in parents:
            node = node.get(parent, {})
        node.pop(last, None)
    return out


def test_every_kind_has_a_valid_sample(catalogue: generate.Catalogue) -> None:
    shown = {(item["apiVersion"], item["kind"]) for path in VALID for item in _objects(path)}

    assert [
        kind.resource.kind for kind in catalogue.kinds if (kind.resource.api_version, kind.resource.kind) not in shown
    ] == []


def test_the_crds_have_no_faults_that_the_apiserver_only_reports(
    server: ControlPlane, catalogue: generate.Catalogue
) -> None:
    good = {"NamesAccepted", "Established", "KubernetesAPIApprovalPolicyConformant"}
    for kind in catalogue.kinds:
        found = server.request("GET", kinds.CRD.path(name=kind.resource.full_name))
        assert {condition["type"] for condition in found["status"]["conditions"]} <= good, kind.resource
