"""Users' YAML is read as kubectl reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openstack_operator.cli import lint_objects, manifests, plan
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import client

SCALARS = (
    "52:54:00:16:41:11", "12:30", "1:2", "0755", "08", "010", "0o17", "0x1F", "0xb", "0b11", "-0b1", "1_000", "1.10",
    "1e3", "1.5E-3", ".5", "+3", "-0x10", "--", "+", ".", "_1", "1_", "0_", "0x", "1.", "2024-01-01", "=",
    "2024-01-01T00:00:00Z", "yes", "On", "off", "y", "n", "Y", "No", "TRUE", "tRUE", "null", "~", "Null", "nULL", "v1",
    "18446744073709551616", "192.0.2.1", "1.2.3", '"12:30"', "'08'", "!!str 12", "a b", "0.0", "1e400x",
)  # fmt: skip
KEYS = ("12:30", "yes", "1", "010", "1.5", "on", "=")


def written() -> str:
    values = "".join(f"  v{number}: {text}\n" for number, text in enumerate(SCALARS))
    keys = "".join(f"  {key}: k\n" for key in KEYS)
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n{values}  empty:\n  block: |\n    12:30\n"
        f"keys:\n{keys}base: &b {{q: 1}}\nmerged: {{<<: *b, r: 08}}\n"
    )


def test_scalars_keys_and_merges_are_what_kubectl_takes_them_for(cluster: Any, tmp_path: Path) -> None:
    """Case 14: an unquoted address was a number to base 60 here and a text in the cluster."""
    path = tmp_path / "object.yaml"
    path.write_text(written())
    said = cluster.kubectl("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", str(path))

    # Go writes floats without a point; and to Python True is 1.
    (mine,), theirs = manifests.documents(written()), json.loads(said, parse_int=float)
    names = {f"v{number}": text for number, text in enumerate(SCALARS)}
    differ = {
        names.get(key, key): (value, theirs["data"][key])
        for key, value in mine["data"].items()
        if value != theirs["data"][key] or isinstance(value, bool) != isinstance(theirs["data"][key], bool)
    }
    assert differ == {}
    assert {**mine, "metadata": theirs["metadata"]} == theirs


async def test_a_plan_is_about_the_values_that_kubectl_would_send(world: Any) -> None:
    """Case 14: an address, a time and a date without quotes."""
    text = (
        f"apiVersion: {ours.MEMCACHED.api_version}\nkind: Memcached\nmetadata:\n  name: cache\n  annotations:\n"
        "    mac: 52:54:00:16:41:11\n    at: 12:30\nspec:\n  nodeSelector:\n    since: 2024-01-01\n"
    )
    config = client.Config.from_kubeconfig(world.cluster.kubeconfig)
    made = await plan.make(text, config, world.namespace, ("memcached",))

    assert [(one.verb, one.kind, one.name) for one in made.changes] == [
        ("create", one, "cache") for one in ("Memcached", "Service", "StatefulSet")
    ]


def test_lint_takes_a_service_for_disabled_where_kubectl_would() -> None:
    """Case 14: `enabled: no` is a boolean to kubectl too, and `enabled: "no"` is none."""

    def found(enabled: str) -> list[tuple[int, str, str]]:
        text = (
            f"apiVersion: {ours.CONTROL_PLANE.api_version}\nkind: {ours.CONTROL_PLANE.kind}\nmetadata: {{name: c}}\n"
            f"spec:\n  nova: {{enabled: {enabled}}}\n  customServiceConfig: |\n    [libvirt]\n    virt_type = qemuu\n"
        )
        return [(line, one.severity, one.rule) for line, one in lint_objects.findings(text, None)]

    assert found("yes") == found('"no"') == [(8, "error", "ill-typed")]
    assert found("no") == found("false") == [(8, "warning", "unknown-section")]
