"""Numbers and texts that other deployments had wrong, in what our builders make."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from oslo_config import cfg
from paper import Paper, read

import seeds
from openstack_operator.kit import config, ini, jobs, labels, names, workloads
from openstack_operator.runtime import drift
from openstack_operator.services.glance import config as glance_config
from openstack_operator.services.glance import resources as glance
from openstack_operator.services.glance.types import GlanceSpec
from openstack_operator.services.keystone import config as keystone_config
from openstack_operator.services.keystone import resources as keystone
from openstack_operator.services.keystone.types import KeystoneSpec
from openstack_operator.services.mariadb import config as mariadb_config
from openstack_operator.services.mariadb import resources as mariadb
from openstack_operator.services.mariadb.types import MariaDBSpec
from openstack_operator.services.memcached import resources as memcached
from openstack_operator.services.memcached.types import MemcachedSpec
from openstack_operator.services.placement import resources as placement
from openstack_operator.services.placement.types import PlacementSpec
from openstack_operator.services.rabbitmq import config as rabbitmq_config
from openstack_operator.services.rabbitmq import resources as rabbitmq
from openstack_operator.services.rabbitmq.types import RabbitMQSpec

SOURCES = config.Sources("a", "b", "c", "d")


def pods() -> Iterable[workloads.Pod]:
    yield mariadb.pod("db", MariaDBSpec(), SOURCES)
    yield rabbitmq.pod("mq", "cloud", RabbitMQSpec(), SOURCES)
    yield memcached.pod("cache", MemcachedSpec())
    yield keystone.api_pod("keystone", KeystoneSpec(), SOURCES)
    yield glance.api_pod("glance", GlanceSpec(), SOURCES)
    yield placement.api_pod("placement", PlacementSpec(), SOURCES)


SERVERS = list(pods())
ids = [f"{pod.service}" for pod in SERVERS]


@pytest.mark.parametrize("pod", SERVERS, ids=ids)
def test_a_pod_that_must_go_is_gone_after_two_minutes_at_most(pod: workloads.Pod) -> None:
    """Case 70: a default of a week left pods Terminating for days. Regression f48."""
    assert 1 <= workloads.template(pod)["spec"]["terminationGracePeriodSeconds"] <= 120


@pytest.mark.parametrize("pod", SERVERS, ids=ids)
def test_a_slow_machine_gets_no_restart_loops(pod: workloads.Pod) -> None:
    """Case 129: minutes to start, seconds to answer, and a restart only after minutes of silence."""
    for container in workloads.template(pod)["spec"]["containers"]:
        startup, liveness = container["startupProbe"], container["livenessProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 300
        assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 120
        assert min(container[f"{name}Probe"]["timeoutSeconds"] for name in ("startup", "readiness", "liveness")) >= 5
        # A busy API still accepts connections: a slow answer is no reason to kill it.
        assert "tcpSocket" in liveness or pod.service in ("mariadb", "rabbitmq")


@pytest.mark.parametrize("pod", SERVERS, ids=ids)
def test_no_pod_has_a_password_in_its_template(pod: workloads.Pod) -> None:
    """Case 128: credentials come from mounted Secrets, never by environment or argument."""
    text = yaml.safe_dump(workloads.template(pod))

    assert "secretKeyRef" not in text
    assert "password" not in text.lower().replace("openstack", "")


def test_hashes_and_files_do_not_depend_on_pythons_hash_seed() -> None:
    """Case 20: no order of a set or of a dictionary gets into a template, a file or a hash of one, in any process."""
    said = seeds.answers("import everything\nprint('\\n'.join(everything.lines()))", "1", "2", "3")
    differ = set.union(*(set(one.splitlines()) for one in said)) - set.intersection(
        *(set(one.splitlines()) for one in said)
    )
    assert sorted(differ) == []
    assert len(said) == 1, "the order of all is one too"
    assert len(said.pop().splitlines()) > 50


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 30, 36, 40, 52, 53, 63, 253])
def test_every_name_that_is_made_fits_and_none_becomes_another(length: int) -> None:
    """Case 88, case 101: a cut name carries a hash of the whole. Regression f65."""
    one, other = "a" * length + "x", "a" * length + "y"
    made = {
        function(name)
        for name in (one, other)
        for function in (
            names.config_data,
            names.scripts,
            names.api_service,
            names.database_secret,
            names.public_service,
        )
    }

    assert len(made) == 10
    assert max(len(name) for name in made) <= names.LONGEST
    assert len(names.workload(one, "db-sync")) <= names.LONGEST_WORKLOAD
    assert len(names.job(one, "db-sync", "0" * 16)) <= names.LONGEST_WORKLOAD
    assert not any(name.endswith("-") for name in made)


def test_names_of_a_longest_instance_are_readable_and_fit_into_labels() -> None:
    """Case 101: the limit at admission leaves every derived name whole."""
    instance = "a" * names.INSTANCE_LENGTH

    assert names.workload(instance, "db-sync").startswith(f"{instance}-db-sync")
    assert names.config_secrets(instance) == f"{instance}-config-secrets"
    pod = f"{names.workload(instance, 'api')}-0"
    assert all(len(value) <= 63 for value in (*labels.pod("glance", instance, "api", "Glance").values(), pod))


def test_a_job_of_other_inputs_has_another_name() -> None:
    """Case 38: a Job cannot be changed."""
    made = set()
    for tag, text in itertools.product(("2026.1", "other"), ("d1", "d2")):
        spec = PlacementSpec.model_validate({"images": {"tag": tag}})
        pod = placement.db_sync_pod("placement", spec, config.Sources("a", "b", "c", text))
        made.add(names.job("placement", "db-sync", drift.digest(workloads.template(pod))))

    assert len(made) == 4


def test_no_job_removes_itself() -> None:
    """Case 37: one that a time to live removes would be run again. Regression r82."""
    body = jobs.job(placement.db_sync_pod("placement", PlacementSpec(), SOURCES), "x")

    assert "ttlSecondsAfterFinished" not in body["spec"]


# --- servers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "rotation_hours", "expected"),
    [
        ({}, 24, 5),
        ({"expirationSeconds": 300, "allowExpiredWindowSeconds": 0}, 1, 3),
        ({"expirationSeconds": 3600, "allowExpiredWindowSeconds": 3600}, 1, 4),
        ({"expirationSeconds": 86400, "allowExpiredWindowSeconds": 172800}, 12, 8),
    ],
)
def test_no_key_goes_while_a_token_that_it_signed_may_be_shown(
    token: dict[str, int], rotation_hours: int, expected: int
) -> None:
    """Case 45: the window of expired tokens counts."""
    spec = KeystoneSpec.model_validate({"token": token, "fernet": {"rotationHours": rotation_hours}})

    assert keystone_config.max_active_keys(spec, {}) == expected


def test_keys_are_readable_by_the_server_and_by_nobody_else_at_all_times() -> None:
    """Case 45: files of a Secret, whose owner is right from the start; directories, so that new keys appear in them."""
    template = workloads.template(keystone.api_pod("keystone", KeystoneSpec(), SOURCES))
    volumes = {one["name"]: one for one in template["spec"]["volumes"] if "secret" in one}

    assert {name: one["secret"]["defaultMode"] for name, one in volumes.items()} == {
        "fernet-keys": 0o440,
        "credential-keys": 0o440,
    }
    mounts = template["spec"]["containers"][0]["volumeMounts"]
    assert not any("subPath" in mount for mount in mounts), "such a file would never change"
    assert template["spec"]["securityContext"]["fsGroup"] == keystone.UID


def test_every_queue_is_a_quorum_queue_from_the_start() -> None:
    """Case 67: changing the kind later needs a fresh virtual host. Regression r41, f43, f44."""
    rows = {row.option: row.value(None, {}) for row in ini.messaging() if row.section == "oslo_messaging_rabbit"}

    assert rows["rabbit_quorum_queue"] is True
    assert rows["rabbit_transient_quorum_queue"] is True
    assert "default_queue_type = quorum" in rabbitmq_config.CONF.splitlines()


def test_servers_of_the_cache_are_listed_each_by_its_own_name() -> None:
    """Case 47: no Service in front; clients of every library take host:port."""
    assert memcached.servers("cache", "cloud", 2) == [
        "cache-0.cache.cloud.svc:11211",
        "cache-1.cache.cloud.svc:11211",
    ]


def test_character_set_and_snapshots_of_the_database_are_what_migrations_were_written_for() -> None:
    """Case 84: no default of a server's release decides. Regression r46, r75."""
    text = mariadb_config.my_cnf(MariaDBSpec()).splitlines()

    assert "character-set-server = utf8mb3" in text
    assert "collation-server = utf8mb3_general_ci" in text
    assert "innodb_snapshot_isolation = OFF" in text


def test_a_new_server_starts_on_an_empty_volume_and_half_a_start_leaves_nothing() -> None:
    """Case 59: the data directory gets its name when it is complete."""
    script = mariadb_config.START

    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert script.index("mariadb-install-db") < script.index("mv /var/lib/mysql/data.new /var/lib/mysql/data")


def test_pods_of_one_workload_are_told_from_all_others_in_the_namespace() -> None:
    """Case 113, case 68."""
    selectors = [tuple(sorted(workloads.selector(pod).items())) for pod in pods()]

    assert len(set(selectors)) == len(selectors)


def test_a_budget_lets_one_pod_go_at_a_time() -> None:
    """Case 63."""
    body = workloads.disruption_budget(placement.api_pod("placement", PlacementSpec(), SOURCES), "x")

    assert body["spec"]["maxUnavailable"] == 1


def test_the_internal_url_is_for_services_and_the_public_one_for_people() -> None:
    """Case 42. Regression f9, h1."""
    facts = {
        "identity.url": "http://keystone-internal.ns.svc:5000/v3",
        "identity.public_url": "https://identity.example.org/v3",
        "service_user.user": "glance",
        "service_user.password": "x",
        "cache.servers": "c:11211",
    }
    rows = {row.option: row.value(GlanceSpec(), facts) for row in ini.authtoken("image")}

    assert (rows["auth_url"], rows["www_authenticate_uri"]) == (facts["identity.url"], facts["identity.public_url"])


def test_every_client_section_has_the_region() -> None:
    """Case 40: a cloud of two regions has two of each endpoint."""
    spec = GlanceSpec(region="regionTwo")

    assert [row.value(spec, {}) for row in glance_config.ROWS if row.option == "region_name"] == ["regionTwo"]


# --- texts ----------------------------------------------------------------------------------------------------------


async def test_no_shell_looks_into_what_a_user_wrote(tmp_path: Any) -> None:
    """Case 130, case 95: neither a shell nor a template engine reads users' text. Regression f31."""
    value = "$(touch pwned) `touch pwned` {{ 1 + 1 }} {% raw %} ${HOME:-x}"
    paper = Paper()
    await paper.write(f"[a]\nbefore = {value}\n")
    merged = paper.merge(tmp_path)

    assert f"before = {value}" in merged.read_text().splitlines()
    assert not list(tmp_path.rglob("pwned"))


async def test_a_file_name_like_a_part_of_another_is_kept_apart(tmp_path: Any) -> None:
    """Case 13, case 16: parts are told by their number, and files without one are whole."""
    paper = Paper()
    await paper.write("[DEFAULT]\nhost = a\n", rows=(ini.fixed("DEFAULT", "host", "b", ""),))
    paper.objects["service-config-data"]["data"]["uwsgi.ini"] = "[uwsgi]\n"
    merged = paper.merge(tmp_path)

    assert sorted(path.name for path in merged.parent.iterdir()) == ["service.conf", "uwsgi.ini"]
    assert read(merged, {"DEFAULT": [cfg.StrOpt("host")]}).host == "a"
