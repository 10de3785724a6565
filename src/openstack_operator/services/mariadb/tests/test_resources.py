"""The server's pod."""

from __future__ import annotations

from openstack_operator.kit import config, workloads
from openstack_operator.services.mariadb import resources
from openstack_operator.services.mariadb.types import MariaDBSpec


def test_the_server_runs_as_kollas_user_with_a_volume_and_nothing_else_to_write_to() -> None:
    spec = workloads.template(resources.pod("db", MariaDBSpec(), config.NONE))["spec"]
    (container,) = spec["containers"]
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert spec["securityContext"]["runAsUser"] == 42434
    assert writable == ["/tmp", "/run/mysqld", "/var/lib/mysql"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_memory_request_follows_the_buffer_pool() -> None:
    def memory(mebibytes: int) -> str:
        pod = resources.pod("db", MariaDBSpec(buffer_pool_mebibytes=mebibytes), config.NONE)
        found: str = workloads.template(pod)["spec"]["containers"][0]["resources"]["requests"]["memory"]
        return found

    assert (memory(16), memory(1024)) == ("144Mi", "1152Mi")
