"""The servers' pods and addresses."""

from __future__ import annotations

from openstack_operator.kit import workloads
from openstack_operator.services.memcached import resources
from openstack_operator.services.memcached.types import MemcachedSpec


def test_the_command_line_is_the_configuration() -> None:
    spec = workloads.template(resources.pod("cache", MemcachedSpec(cache_mebibytes=32, max_connections=99)))["spec"]
    (container,) = spec["containers"]
    assert container["command"] == ["memcached", "-p", "11211", "-U", "0", "-m", "32", "-c", "99"]
    assert container["resources"]["requests"]["memory"] == "48Mi"
    assert spec["securityContext"]["runAsUser"] == 42457


def test_every_member_has_an_address_and_no_replica_has_none() -> None:
    assert resources.servers("cache", "ns", 2) == ["cache-0.cache.ns.svc:11211", "cache-1.cache.ns.svc:11211"]
    assert resources.servers("cache", "ns", 0) == []
