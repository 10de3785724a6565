"""What users mount into pods: where it goes, what it may not hide, and what is refused before it is stored."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from openstack_operator.kit import config, mounts, workloads
from openstack_operator.kit import kinds as ours
from openstack_operator.kit.types import ExtraMount
from openstack_operator.runtime import errors, kinds
from openstack_operator.runtime.admission import Reference, Subject
from openstack_operator.services.glance import resources as glance
from openstack_operator.services.glance.types import KIND, GlanceSpec
from openstack_operator.services.keystone import resources as keystone
from openstack_operator.services.keystone.types import KeystoneSpec
from openstack_operator.services.neutron import resources as neutron
from openstack_operator.services.neutron.types import NeutronSpec

SOURCES = config.Sources("data", "secrets", "scripts", "digest")
CA = {"mountPath": "/etc/ssl/mine", "secretName": "my.ca"}


def template(spec: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = workloads.template(glance.api_pod("glance", GlanceSpec.model_validate(spec), SOURCES))
    return body


def paths(pod: workloads.Pod) -> set[str]:
    (container,) = workloads.template(pod)["spec"]["containers"]
    return {one["mountPath"] for one in container["volumeMounts"]}


def test_each_source_becomes_a_volume_and_each_path_a_mount() -> None:
    extra = [
        CA,
        {"mountPath": "/mnt/images", "claimName": "images", "readOnly": False},
        {"mountPath": "/opt/driver.py", "configMapName": "driver", "subPath": "driver.py"},
        {"mountPath": "/opt/other.py", "configMapName": "driver", "subPath": "other.py"},
    ]
    before, after = template({}), template({"extraMounts": extra})
    volumes = [one for one in after["spec"]["volumes"] if one not in before["spec"]["volumes"]]
    (container,) = after["spec"]["containers"]
    mounted = container["volumeMounts"][len(before["spec"]["containers"][0]["volumeMounts"]) :]
    names = {one["mountPath"]: one.pop("name") for one in mounted}

    assert mounted == [
        {"mountPath": "/etc/ssl/mine", "readOnly": True},
        {"mountPath": "/mnt/images", "readOnly": False},
        {"mountPath": "/opt/driver.py", "readOnly": True, "subPath": "driver.py"},
        {"mountPath": "/opt/other.py", "readOnly": True, "subPath": "other.py"},
    ]
    sources = {one.pop("name"): one for one in volumes}
    assert sources == {
        names["/etc/ssl/mine"]: {"secret": {"secretName": "my.ca", "defaultMode": 0o440}},
        names["/mnt/images"]: {"persistentVolumeClaim": {"claimName": "images"}},
        names["/opt/driver.py"]: {"configMap": {"name": "driver", "defaultMode": 0o444}},
    }
    assert template({"extraMounts": extra[::-1]}) == template({"extraMounts": extra}), "another order rolls nothing"


def test_components_choose_the_pods() -> None:
    def found(*components: str) -> list[bool]:
        spec = GlanceSpec.model_validate({"extraMounts": [{**CA, "components": list(components)}]})
        pods = glance.api_pod("glance", spec, SOURCES), glance.db_sync_pod("glance", spec, SOURCES)
        return ["/etc/ssl/mine" in paths(pod) for pod in pods]

    assert (found(), found("api"), found("db-sync")) == ([True, True], [True, False], [False, True])


def test_a_component_with_settings_of_its_own_has_those_of_the_service_too() -> None:
    own = {"mountPath": "/mnt/own", "configMapName": "own"}
    spec = NeutronSpec.model_validate({"extraMounts": [CA], "rpcServer": {"extraMounts": [own]}})
    pods = {pod.component: pod for pod, _ in neutron.workers("neutron", spec, SOURCES).values()}

    assert {"/mnt/own", "/etc/ssl/mine"} <= paths(pods["rpc-server"])
    assert paths(pods["periodic-workers"]) & {"/mnt/own", "/etc/ssl/mine"} == {"/etc/ssl/mine"}
    assert "/etc/ssl/mine" not in paths(neutron.agent_pod("neutron", spec, SOURCES)), "it is on the nodes"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/var/lib/config-data/merged",
            "collides with /var/lib/config-data/merged, which is ours (config-data-merged)",
        ),
        ("/var/lib/config-data/merged/x", "collides with /var/lib/config-data/merged, which is ours"),
        ("/var/lib", "collides with /var/lib/config-data/default, which is ours (config-data)"),
        ("/usr/local", "collides with /usr/local/bin/container-scripts, which is ours (scripts)"),
        ("/proc", "collides with /proc, which every container needs"),
        ("/tmp", "collides with /tmp (scratch-0) in the pods of keystone api"),
        ("/etc/keystone", "collides with /etc/keystone/fernet-keys (fernet-keys) in the pods of keystone api"),
        ("/etc/keystone/fernet-keys/0", "collides with /etc/keystone/fernet-keys (fernet-keys)"),
    ],
)
def test_a_path_that_meets_one_of_ours_is_refused_by_its_name(path: str, message: str) -> None:
    spec = KeystoneSpec.model_validate({"extraMounts": [{**CA, "mountPath": path}]})
    with pytest.raises(errors.Stalled) as raised:
        workloads.template(keystone.api_pod("keystone", spec, SOURCES))
    assert raised.value.reason == "MountCollision"
    assert raised.value.message.startswith(f"extraMounts: {path} {message}")


def test_paths_beside_ours_and_inside_of_empty_directories_are_free() -> None:
    extra = [{**CA, "mountPath": path} for path in ("/etc/keystone/mine", "/tmp/mine", "/var/lib/config-data2")]
    found = paths(keystone.api_pod("keystone", KeystoneSpec.model_validate({"extraMounts": extra}), SOURCES))
    assert {"/etc/keystone/mine", "/tmp/mine", "/var/lib/config-data2"} <= found


def test_two_of_the_users_own_may_not_meet_either() -> None:
    with pytest.raises(errors.Stalled, match="/etc/ssl/mine/x collides with /etc/ssl/mine "):
        template({"extraMounts": [{**CA, "mountPath": "/etc/ssl/mine/x"}, CA]})


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"mountPath": "/x"}, "needs one of secretName, configMapName and claimName"),
        ({**CA, "claimName": "x"}, "needs one of secretName, configMapName and claimName"),
        ({**CA, "readOnly": False}, "readOnly must be true: only what a claim holds can be written to"),
        ({**CA, "mountPath": "/"}, "String should match pattern"),
        ({**CA, "mountPath": "/a/../b"}, "/a/../b is no path of a directory or file below /"),
        ({**CA, "mountPath": "/a/"}, "/a/ is no path of a directory or file below /"),
        ({**CA, "mountPath": "a"}, "String should match pattern"),
        ({**CA, "subPath": "../a"}, "String should match pattern"),
    ],
)
def test_what_no_pod_can_have_is_refused_by_the_type(mount: dict[str, Any], message: str) -> None:
    with pytest.raises(pydantic.ValidationError) as raised:
        ExtraMount.model_validate(mount)
    assert message in str(raised.value)


class NoObjects:
    def items(self, resource: Any) -> list[Any]:
        return []


def test_admission_refuses_what_is_ours_everywhere_and_looks_for_what_is_named() -> None:
    def subject(*extra: Any) -> Subject:
        spec = KIND.spec.model_validate({"extraMounts": list(extra)})
        return Subject(ours.GLANCE, "glance", "here", spec)

    bad = {**CA, "mountPath": config.MERGED}
    verdict = KIND.admit(subject(CA, bad), subject(CA), NoObjects())  # type: ignore[misc]
    (problem,) = verdict.errors
    assert str(problem) == (
        f"spec.extraMounts[1].mountPath: {config.MERGED} collides with {config.MERGED}, which is ours "
        "(config-data-merged)"
    )
    assert verdict.references == (Reference("spec.extraMounts[1].secretName", kinds.SECRET, "my.ca"),)
    again = KIND.admit(subject(CA, bad), subject(CA, bad), NoObjects())  # type: ignore[misc]
    assert again.errors == (), "what stands there already does not hold up another edit"
    claims = [{"mountPath": "/a", "claimName": "c"}, {"mountPath": "/b", "configMapName": "m"}]
    found = KIND.admit(subject(*claims), subject(), NoObjects()).references  # type: ignore[misc]
    assert [(one.resource, one.name) for one in found] == [(kinds.PVC, "c"), (kinds.CONFIGMAP, "m")]


def test_a_mount_of_ours_is_found_by_reserved_whatever_the_service() -> None:
    assert mounts.reserved(ExtraMount.model_validate(CA)) == ""
    assert "scripts" in mounts.reserved(ExtraMount.model_validate({**CA, "mountPath": config.SCRIPTS}))
