"""What every pod of a cloud has to have, and what other deployments' pods lacked."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pods
import pytest
from pods import CELL, METADATA, PROCESS, TOP

import openstack_operator
from openstack_operator.kit import catalogues, ini, labels, open_files, releases, workloads
from openstack_operator.services.glance import config as glance
from openstack_operator.services.glance.types import GlanceSpec
from openstack_operator.services.mariadb import config as mariadb
from openstack_operator.services.mariadb.types import MariaDBSpec
from openstack_operator.services.neutron import config as neutron
from openstack_operator.services.neutron import resources as neutron_resources
from openstack_operator.services.neutron.types import NeutronSpec
from openstack_operator.services.nova import children
from openstack_operator.services.nova.api import config as nova_api
from openstack_operator.services.nova.api.types import NovaAPISpec
from openstack_operator.services.nova.compute import config as compute
from openstack_operator.services.nova.compute import resources as compute_resources
from openstack_operator.services.nova.compute.types import NovaComputeSpec
from openstack_operator.services.nova.conductor import config as conductor
from openstack_operator.services.nova.conductor.types import NovaConductorSpec
from openstack_operator.services.nova.metadata import config as metadata
from openstack_operator.services.nova.metadata.types import NovaMetadataSpec
from openstack_operator.services.nova.novncproxy import config as novncproxy
from openstack_operator.services.nova.novncproxy.types import NovaNoVNCProxySpec
from openstack_operator.services.nova.scheduler import config as scheduler
from openstack_operator.services.nova.scheduler.types import NovaSchedulerSpec
from openstack_operator.services.ovn import config as ovn
from openstack_operator.services.ovn import resources as ovn_resources
from openstack_operator.services.ovn.types import OVNNetworkSpec
from openstack_operator.services.rabbitmq import config as rabbitmq

SOURCE = Path(openstack_operator.__file__).parent
APIS, UWSGI, DAEMONS, EVERYTHING = pods.apis(), pods.uwsgi(), pods.daemons(), pods.everything()
RELEASE = releases.load("2026.1")
NEUTRON = neutron.rows(RELEASE), NeutronSpec()
FILES: dict[str, tuple[tuple[ini.Row, ...], Any]] = {
    "glance": (glance.ROWS, GlanceSpec()),
    "neutron": NEUTRON,
    "nova": (nova_api.ROWS, NovaAPISpec.model_validate(TOP)),
    "nova metadata": (metadata.GLOBAL_ROWS, NovaMetadataSpec.model_validate(TOP | METADATA)),
    "novncproxy": (novncproxy.ROWS, NovaNoVNCProxySpec.model_validate(CELL)),
    "nova-scheduler": (scheduler.ROWS, NovaSchedulerSpec.model_validate(TOP)),
    "nova-conductor": (conductor.SUPER_ROWS, NovaConductorSpec.model_validate(TOP)),
    "nova-compute": (compute.ROWS, NovaComputeSpec.model_validate(PROCESS)),
    "neutron-rpc-server": NEUTRON,
    "neutron-periodic-workers": NEUTRON,
    "neutron-ovn-maintenance-worker": NEUTRON,
    "neutron-ovn-agent": (neutron.AGENT_ROWS, NeutronSpec()),
}
"""Rows of the file that the pod of this name reads, with a spec."""


class Facts(dict[str, Any]):
    """Some value for everything that steps find out."""

    def __missing__(self, name: str) -> str:
        return "x"


def containers(pod: workloads.Pod) -> list[dict[str, Any]]:
    spec = workloads.template(pod)["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


def options(text: str) -> dict[str, str]:
    """Of an uWSGI file: the last of a name wins."""
    return dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)


def value(name: str, section: str, option: str) -> Any:
    """What the pod's file sets, None where it leaves the option alone."""
    rows, spec = FILES[name]
    return next((row.value(spec, Facts()) for row in rows if (row.section, row.option) == (section, option)), None)


# --- resources ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_container_asks_for_processor_and_memory(name: str) -> None:
    """Regression r68: pods without requests were the first to starve, OVN's databases among them."""
    lacking = [
        one["name"] for one in containers(EVERYTHING[name]) if set(one["resources"]["requests"]) < {"cpu", "memory"}
    ]

    assert lacking == []


@pytest.mark.parametrize("name", UWSGI)
def test_an_api_is_as_many_processes_as_it_has_pods(name: str) -> None:
    """Regression r15, r52, r90: neither the options of the service nor the node's processors decide."""
    found = options(UWSGI[name])

    assert (found["processes"], found["lazy-apps"]) == ("1", "true")
    assert "cheaper" not in found


@pytest.mark.parametrize("name", UWSGI)
def test_a_server_whose_application_cannot_be_loaded_ends(name: str) -> None:
    """Regression r92: it went on, and answered everything with 500."""
    assert options(UWSGI[name])["need-app"] == "true"


@pytest.mark.parametrize(
    ("name", "section", "option"),
    [
        ("nova-conductor", "conductor", "workers"),
        ("nova-scheduler", "scheduler", "workers"),
        ("neutron-rpc-server", "DEFAULT", "rpc_workers"),
    ],
)
def test_a_daemon_has_one_worker_whatever_the_node_has(name: str, section: str, option: str) -> None:
    """Regression r90: a worker for each processor took a gigabyte on a large node."""
    service = name.partition("-")[0]
    catalogue = catalogues.load(service, "2026.1")
    assert catalogue is not None
    known = catalogue.find(section, option)
    assert known is not None
    assert not known.default, "left alone it is the number of processors"

    assert value(name, section, option) == 1


def databases(rows: tuple[ini.Row, ...], cells: int) -> int:
    """How many databases a process opens connections to. Who knows that of the API finds those of all cells in it."""
    sections = {row.section for row in rows if row.option == "connection"}
    return len(sections) + (cells if "api_database" in sections else 0)


def connections(cells: int, replicas: int) -> int:
    """What all processes of a cloud with one database server may open together: an API as many as it has threads to
    each database, a daemon its pool and what may be opened beside that."""
    catalogue = catalogues.load("nova", "2026.1")
    assert catalogue is not None
    known = catalogue.find("database", "max_overflow")
    assert known is not None
    overflow = int((known.default or ["0"])[0])

    def of(name: str) -> int:
        rows, _ = FILES.get(name, ((ini.fact("database", "connection", "x"),), None))
        return databases(rows, cells)

    def pool(name: str) -> int:
        return int(value(name, "database", "max_pool_size")) + overflow

    top = sum(int(options(text)["threads"]) * of(name) for name, text in UWSGI.items())
    top += sum(pool(name) * of(name) for name in DAEMONS if of(name))
    of_cell = pool("nova-conductor") * databases(conductor.CELL_ROWS, cells) + pool("novncproxy") * of("novncproxy")
    return replicas * (top + cells * of_cell)


@pytest.mark.parametrize(("cells", "replicas", "most"), [(1, 1, 1000), (2, 1, 1100), (10, 1, 3100), (1, 3, 2300)])
def test_the_connections_of_all_processes_fit_into_the_database(cells: int, replicas: int, most: int) -> None:
    """Case 126. Regression r36: what all workers may open together was more than the server takes. One cell with one
    process of each kind fits into the default; others need as much as this of `maxConnections` in the worst case, or
    databases of their own for their cells."""
    assert [name for name in DAEMONS if databases(FILES[name][0], 1)] == [
        "nova-scheduler", "nova-conductor", "neutron-rpc-server", "neutron-periodic-workers",
        "neutron-ovn-maintenance-worker",
    ]  # fmt: skip
    assert connections(cells, replicas) < most
    assert (most == MariaDBSpec().max_connections) == (cells == replicas == 1)


@pytest.mark.parametrize(("before", "after"), [("900", "500"), ("500", "500"), ("300", "300")])
def test_the_limit_of_open_files_is_lowered_and_never_raised(before: str, after: str) -> None:
    """Regression r18, r86: a billion open files are allowed here and a thousand there."""
    script = f"set -eu\nulimit -n {before}\n{open_files.limit(500)}ulimit -n"
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True)

    assert done.stdout == f"{after}\n"


@pytest.mark.parametrize("script", [mariadb.START, rabbitmq.START], ids=["mariadb", "rabbitmq"])
def test_servers_that_take_memory_for_every_file_that_they_may_open_start_below_a_limit(script: str) -> None:
    """Regression r18, r86."""
    before, _, command = script.rpartition("\nexec ")

    assert command.count("\n") == 1
    assert f"{before}\n".endswith(open_files.limit())
    assert open_files.MOST == 65536
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize("name", UWSGI)
def test_uwsgi_makes_no_table_of_a_billion_descriptors(name: str) -> None:
    """Regression r86: it allocates memory for each that the container may have."""
    assert options(UWSGI[name])["max-fd"] == "4096"


# --- the end of a pod -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", APIS)
def test_a_request_in_progress_may_take_as_long_as_its_server_lets_it(name: str) -> None:
    """Regression r19, r54: Kubernetes killed what was still draining."""
    template = workloads.template(APIS[name])["spec"]
    mercy = int(options(UWSGI[name])["worker-reload-mercy"])
    (container,) = template["containers"]
    *_, waits = container["lifecycle"]["preStop"]["exec"]["command"]
    before = int(waits.rpartition("; exec sleep ")[2])

    assert before > 0, "endpoints are told first"
    assert template["terminationGracePeriodSeconds"] > before + mercy
    # Nova's API waits that long for an answer of a conductor (rpc_response_timeout).
    assert mercy >= 60


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_gives_up_by_itself_before_it_is_killed(name: str) -> None:
    """Regression r19, r54: by default the services wait for 60 and 180 seconds."""
    own = value(name, "DEFAULT", "graceful_shutdown_timeout")

    assert own, "the default of the release may be longer than the pod's time"
    assert workloads.template(DAEMONS[name])["spec"]["terminationGracePeriodSeconds"] > own


def test_a_single_message_bus_is_stopped_and_not_drained() -> None:
    """Regression r9: draining moves work to other members, and there are none."""
    (container,) = workloads.template(EVERYTHING["rabbitmq"])["spec"]["containers"]

    assert "lifecycle" not in container
    assert rabbitmq.START.splitlines()[-1].startswith("exec "), "the server itself is told to end"


# --- probes ---------------------------------------------------------------------------------------------------------


# Servers whose port may stay open while they hang: they are asked for a first byte.
ASKED = ("mariadb", "rabbitmq")


@pytest.mark.parametrize("name", EVERYTHING)
def test_no_probe_kills_what_is_slow(name: str) -> None:
    """Regression r29, f18: five minutes to start, seconds to answer, and a restart only after minutes of silence."""
    for container in containers(EVERYTHING[name]):
        probes = ("startup", "readiness", "liveness")
        found = {probe: container[f"{probe}Probe"] for probe in probes if f"{probe}Probe" in container}
        if found:
            assert found["startup"]["periodSeconds"] * found["startup"]["failureThreshold"] >= 300
            assert min(one["timeoutSeconds"] for one in found.values()) >= 5
        if "liveness" in found:
            assert name in ASKED or "tcpSocket" in found["liveness"]
            assert found["liveness"]["periodSeconds"] * found["liveness"]["failureThreshold"] >= 180


def test_agents_of_many_nodes_roll_side_by_side() -> None:
    """Regression r30: one pod at a time took longer than anybody waits where there were a hundred nodes."""
    body = workloads.daemon_set(DAEMONS["nova-compute"], "x")

    assert body["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "10%"


# --- what a pod sees ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_locks_are_where_the_pod_may_write(name: str) -> None:
    """Regression r31: a mount over /run hid the directory of the locks. Each process that may take one says where: no
    release has a default for it, and without a directory they end with an error."""
    said = value(name, "oslo_concurrency", "lock_path")
    assert said, "locks of several processes have no place"
    path = Path(said)
    (container,) = workloads.template(EVERYTHING[name])["spec"]["containers"]
    writable = [one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")]

    assert {str(one) for one in (path, *path.parents)} & set(writable)


@pytest.mark.parametrize("name", EVERYTHING)
def test_nothing_is_written_to_an_image_and_caches_are_the_pods_own(name: str) -> None:
    """Regression r47: a cache of plugins that everybody could write to."""
    for container in containers(EVERYTHING[name]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True, container["name"]
        env = {one["name"]: one.get("value") for one in container.get("env", [])}
        assert env.get("XDG_CACHE_HOME", "/tmp") == "/tmp"


def test_no_clusters_domain_is_assumed() -> None:
    """Regression r43: names ended in cluster.local, which not every cluster is called."""
    texts = [str(workloads.template(pod)) for pod in EVERYTHING.values()]
    texts += [path.read_text() for path in SOURCE.rglob("*") if path.suffix in (".py", ".sh", ".toml")
              and "embedded" not in path.parts]  # fmt: skip

    assert [text[:80] for text in texts if "cluster.local" in text] == []


def test_no_pods_labels_are_those_that_select_another_workload() -> None:
    """Regression r85: a Job's pod was sent requests of the API."""
    tags = {name: workloads.template(pod)["metadata"]["labels"] for name, pod in EVERYTHING.items()}
    meet = [
        (one, other)
        for one, other in itertools.permutations(EVERYTHING, 2)
        if labels.matches(tags[other], workloads.selector(EVERYTHING[one]))
    ]

    assert meet == []


def references(found: Any) -> Iterator[str]:
    """Names of the objects that a pod is made of or belongs to."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key in ("configMap", "secret", "configMapKeyRef", "secretKeyRef"):
                yield value.get("name") or value["secretName"]
            elif key in ("claimName", "serviceAccountName", "subdomain"):
                yield value
            else:
                yield from references(value)
    elif isinstance(found, list):
        for value in found:
            yield from references(value)


def test_pods_of_objects_with_any_name_have_what_is_theirs() -> None:
    """Regression f83, f84: with another name than the usual one, a pod waited for a Secret of the usual name.
    Configuration comes from what a step found."""
    found = {name: set(references(workloads.template(pod))) for name, pod in pods.renamed("my-own").items()}
    sources = {pods.SOURCES.config_data, pods.SOURCES.config_secrets, pods.SOURCES.scripts}

    assert {name: [one for one in listed - sources if "my-own" not in one] for name, listed in found.items()} == {
        name: [] for name in found
    }
    assert set().union(*found.values()) >= {
        "my-own-fernet-keys", "my-own-credential-keys", "my-own-admin", "my-own-scripts", "images-my-own-api-0"
    }  # fmt: skip
    tags = {name: workloads.template(pod)["metadata"]["labels"] for name, pod in pods.renamed("my-own").items()}
    assert {one["app.kubernetes.io/instance"] for one in tags.values()} == {"my-own"}


def test_neutron_looks_for_metadata_where_the_nova_of_a_control_plane_serves_them() -> None:
    """Regression f83, f84: of a Nova with another name it has to be told by `novaMetadataHost`."""
    # Its object bears the service's name (`controlplane/resources.py`), and the Service that of its child.
    assert NeutronSpec().nova_metadata_host == children.name("nova", "metadata")
    assert neutron_resources.metadata_host(NeutronSpec(), "cloud") == "nova-metadata.cloud.svc"


def test_a_node_has_one_name_in_nova_neutron_and_ovn() -> None:
    """Case 90: a port is bound on the host that Nova names, by the agent and the chassis of that name. The pods of a
    node take it from the same field, and not from what the node calls itself: short, long or by address."""
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}
    named = {
        (name, one["name"], variable["name"]): variable["valueFrom"]
        for name in ("nova-compute", "neutron-ovn-agent", "openvswitch")
        for one in containers(EVERYTHING[name])
        for variable in one.get("env", [])
        if variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") in ("spec.nodeName", "metadata.name")
    }

    assert named == {
        ("nova-compute", compute_resources.NODE_CONTAINER, "NODE_NAME"): field,
        # Its identity comes from the name too.
        ("nova-compute", "nova-compute", "NODE_NAME"): field,
        ("neutron-ovn-agent", "neutron-ovn-agent", "OS_DEFAULT__HOST"): field,
        ("openvswitch", "ovs-vswitchd", "NODE_NAME"): field,
    }
    assert "[DEFAULT]\\nhost = %s\\n" in compute.NODE
    assert '"external-ids:hostname=$NODE_NAME"' in ovn.script("vswitchd.sh")
    # No file that is read after it says another one.
    assert [name for name in ("nova-compute", "neutron-ovn-agent") if value(name, "DEFAULT", "host")] == []


@pytest.mark.parametrize("which", ["nb", "sb"])
def test_people_in_a_pod_of_ovn_reach_its_database_without_looking_for_it(which: str) -> None:
    """Regression r22: `ovn-nbctl show` found no database."""
    (container,) = workloads.template(EVERYTHING[f"ovn {which}"])["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env[f"OVN_{which.upper()}_DB"] == f"unix:/run/ovn/{which}.sock"
    assert "punix:$run/$DATABASE.sock" in ovn.script("database.sh")

    pod = ovn_resources.northd_pod("ovn", OVNNetworkSpec(), "tcp:192.0.2.1:6641", "tcp:192.0.2.2:6642")
    (container,) = workloads.template(pod)["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert (env["OVN_NB_DB"], env["OVN_SB_DB"]) == ("tcp:192.0.2.1:6641", "tcp:192.0.2.2:6642")
