"""Which host belongs to which cell, and what the Jobs have been told of it."""

from __future__ import annotations

from typing import Any

from openstack_operator.kit import config, jobs
from openstack_operator.services.nova import hosts, resources
from openstack_operator.services.nova.types import NovaSpec

SOURCES = config.Sources("data", "secrets", "scripts", "digest")
FAKE: dict[str, Any] = {"computes": {"compute": {"driver": "Fake"}}}


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def cell(**selector: str) -> dict[str, Any]:
    return {"computes": {"compute": {"nodeSelector": selector}}}


def job(component: str, told: dict[str, str], second: int, *, has_ended: bool = True) -> dict[str, Any]:
    build = resources.cells_pod if component == resources.CELLS else resources.hosts_pod
    made: dict[str, Any] = jobs.job(build("nova", NovaSpec(), SOURCES, told), component)
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    return made | ({"status": {"succeeded": 1}} if has_ended else {})


def test_nodes_belong_to_the_cell_whose_labels_they_have_and_fake_hosts_to_their_own() -> None:
    spec = NovaSpec.model_validate({"cellTemplates": {"cell1": cell(rack="1"), "cell2": cell(rack="2"), "trial": FAKE}})
    nodes = [node("a", rack="1"), node("b", rack="2", more="x"), node("control"), {"metadata": {"name": "bare"}}]
    assert hosts.expected("nova", spec, nodes, {}) == {"a": "cell1", "b": "cell2", "nova-trial-compute": "trial"}


def test_a_node_that_two_cells_ask_for_belongs_to_the_one_that_runs_there() -> None:
    spec = NovaSpec.model_validate({"cellTemplates": {"cell1": cell(rack="1"), "cell2": cell(gpu="yes")}})
    both = [node("a", rack="1", gpu="yes")]
    assert hosts.asked("nova", spec, both) == {"a": {"cell1", "cell2"}}
    assert hosts.expected("nova", spec, both, {"cell1": [], "cell2": []}) == {}
    assert hosts.expected("nova", spec, both, {"cell1": [], "cell2": ["a"]}) == {"a": "cell2"}


def test_the_newest_job_that_has_ended_says_what_nova_knows() -> None:
    of_cells = job("cells", {"a": "cell1"}, 1)
    of_hosts = job("hosts", {"a": "cell1", "b": "cell1"}, 2)
    assert hosts.told([]) == {}
    assert hosts.told([of_cells, of_hosts]) == {"a": "cell1", "b": "cell1"}
    assert hosts.told([of_hosts, job("cells", {"a": "cell1"}, 3)]) == {"a": "cell1"}
    assert hosts.told([of_cells, job("hosts", {"b": "cell1"}, 2, has_ended=False)]) == {"a": "cell1"}


def test_another_job_is_none_of_those_that_map_hosts() -> None:
    other = job("cells", {"a": "cell1"}, 1)
    other["metadata"]["labels"]["app.kubernetes.io/component"] = "remove-cell2"
    assert hosts.told([other]) == {}
