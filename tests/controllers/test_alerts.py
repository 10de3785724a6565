"""Alert rules ask for what an operator serves: every metric and every label of an expression, held against a scrape of
one that is at work."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from prometheus_client import parser
from test_controlplane import INFRASTRUCTURE, only

from openstack_operator.kit import kinds as ours

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/how-to/monitoring.md"
RULES = [
    rule for group in yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
METRIC = re.compile(r"\bopenstack_operator_\w+")
SELECTOR = re.compile(r"\b(openstack_operator_\w+)\{([^}]*)\}")
LABEL = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_how_urgent_it_is_and_where_its_page_is(rule: dict[str, Any]) -> None:
    assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert re.fullmatch(r"\d+[mh]", rule.get("for", "0m"))
    assert rule["annotations"]["summary"].endswith((".", "half an hour."))
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = {line.removeprefix("### ").lower() for line in GUIDE.read_text().splitlines() if line.startswith("### ")}
    assert ROOT / page == GUIDE
    assert anchor == rule["alert"].lower()
    assert anchor in headings


def test_every_alert_of_the_guide_exists() -> None:
    told = {line.removeprefix("### ") for line in GUIDE.read_text().splitlines() if line.startswith("### ")}
    assert told == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_expression_is_closed_everywhere(rule: dict[str, Any]) -> None:
    """That Prometheus takes the file is said by `promtool check rules`; this is what edits break."""
    expression = re.sub(r'"[^"]*"', '""', rule["expr"])
    opened = []
    for letter in expression:
        if letter in "({[":
            opened.append(letter)
        elif letter in ")}]":
            assert opened, expression
            assert opened.pop() + letter in ("()", "{}", "[]"), expression
    assert opened == []
    assert METRIC.search(expression)


async def test_what_alerts_and_the_guide_ask_for_is_served(world: Any) -> None:
    port = free_port()
    services = ("openstackcontrolplane", *INFRASTRUCTURE)
    async with world.operator(*services, metrics_port=port) as operator:
        await world.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE))
        await world.until_condition(ours.CONTROL_PLANE, "cloud", "Ready")
        await operator.settle()
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.status == 200
            text = await answer.text()
    families = list(parser.text_string_to_metric_families(text))
    labels: dict[str, set[str]] = {}
    for family in families:
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    # Counters without a sample yet are there by their type.
    known = labels.keys() | {f"{family.name}_total" for family in families if family.type == "counter"}
    asked = {name for rule in RULES for name in METRIC.findall(rule["expr"])}
    assert asked - known == set()
    for rule in RULES:
        for name, selector in SELECTOR.findall(rule["expr"]):
            if name in labels:
                assert set(LABEL.findall(selector)) <= labels[name], rule["expr"]

    told = {
        f"openstack_operator_{name}"
        for row in GUIDE.read_text().splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    bare = {family.name for family in families} | known
    assert told - bare == set()
    ours_served = {family.name for family in families if family.name.startswith("openstack_operator_")}
    hidden = {name for name in ours_served if not {name, f"{name}_total"} & told} - {
        "openstack_operator_conditions_left_out"
    }
    assert {name for name in hidden if not name.endswith("_created")} == set(), "the guide tells of every metric"

    shown = {
        (sample.labels["kind"], sample.labels["condition"]): sample.value
        for family in families
        if family.name == "openstack_operator_condition"
        for sample in family.samples
        if sample.labels["namespace"] == world.namespace
    }
    assert (shown["Memcached", "Ready"], shown["Memcached", "Stalled"]) == (1, 0)
    ended = {
        (sample.labels["kind"], sample.labels["on"])
        for family in families
        for sample in family.samples
        if sample.name == "openstack_operator_wait_seconds_count" and sample.value
    }
    assert {("MariaDB", "StatefulSet"), ("OpenStackControlPlane", "MariaDB")} <= ended
