"""The recipes under `images/`: complete, pinned, and free of anything of one machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from openstack_operator.embedded.images import catalogue, layers

LOCKS = sorted(layers.recipe("locks").glob("*.txt"))
SERVICES = (
    "keystone",
    "glance",
    "openstack-placement",
    "neutron",
    "nova",
    "cinder",
    "openstack-heat",
    "horizon",
    "uwsgi",
    "python-openstackclient",
)


def pinned(lock: Path) -> dict[str, str]:
    """Version by package name."""
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+) \\$", lock.read_text(), re.MULTILINE))


def test_every_release_of_the_matrix_has_a_lock_file() -> None:
    assert [lock.stem for lock in LOCKS] == ["2025.1", "2025.2", "2026.1", "2026.2"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_pins_every_service_and_every_line_has_a_hash(lock: Path) -> None:
    packages = pinned(lock)
    assert set(SERVICES) <= set(packages)
    entries = [line for line in lock.read_text().splitlines() if line and not line.startswith(("#", " "))]
    assert len(entries) == len(packages)
    for block in re.split(r"\n(?=\S)", lock.read_text().strip()):
        assert "--hash=sha256:" in block


@pytest.mark.parametrize("path", [*LOCKS, layers.recipe("uv.txt")], ids=lambda path: path.stem)
def test_a_lock_names_no_package_index(path: Path) -> None:
    assert "://" not in path.read_text()


def test_shell_recipes_stop_at_the_first_error_and_are_executable() -> None:
    scripts = sorted(layers.RECIPES.glob("*/*.sh"))
    assert scripts
    for script in scripts:
        assert "\nset -eu\n" in script.read_text(), script
        assert script.stat().st_mode & 0o111, script


def test_users_have_kollas_numbers_and_no_number_twice() -> None:
    users = [line.split() for line in layers.words(layers.recipe("base") / "users.txt")]
    numbers = {name: int(number) for name, number, _ in users}
    assert len(set(numbers.values())) == len(users)
    expected = {"keystone": 42425, "glance": 42415, "placement": 42482, "neutron": 42435, "nova": 42436}
    expected |= {"mysql": 42434, "rabbitmq": 42439, "memcached": 42457, "qemu": 42427, "openstack-operator": 65532}
    assert {name: numbers[name] for name in expected} == expected


def test_openstack_images_find_the_venv_first_and_infrastructure_images_have_none(tmp_path: Path) -> None:
    infrastructure, venv = (
        layers.Layer("infrastructure", "1", tmp_path),
        layers.Layer("openstack-2026.1", "2", tmp_path),
    )
    images = {image.name: image for image in catalogue.openstack_images("2026.1", infrastructure, venv)}
    keystone = images["localhost/openstack.kolla/keystone:2026.1"]
    assert keystone.layers == (infrastructure, venv)
    assert keystone.config()["Env"] == [f"PATH=/var/lib/kolla/venv/bin:{catalogue.SYSTEM_PATH}", "LANG=C.UTF-8"]
    mariadb = images["localhost/openstack.kolla/mariadb-server:2026.1"]
    assert mariadb.layers == (infrastructure,)
    assert mariadb.config()["Env"] == [f"PATH={catalogue.SYSTEM_PATH}", "LANG=C.UTF-8"]
    assert len(images) == len(catalogue.IMAGES)


def test_the_operators_image_runs_it_as_nobody_else(tmp_path: Path) -> None:
    base, dependencies, source = (layers.Layer(name, "1", tmp_path) for name in ("base", "dependencies", "source"))
    image = catalogue.operator_image("0.1.0", base, dependencies, source)
    config = image.config()
    assert image.name == "localhost/openstack-operator/operator:0.1.0"
    assert config["Entrypoint"] == ["python", "-m", "openstack_operator.cli.run"]
    assert config["User"] == "65532:65532"


PINNED, LATER, UNKNOWN = (
    """\
    def get(self, msg_id, timeout):
        while not watch.expired():
            try:
                return self._queues[msg_id].get(block=False)
            except queue.Empty:
                time.sleep(0.5)
""",
    """\
    def get(self, msg_id, timeout):
        try:
            return self._queues[msg_id].get(block=True, timeout=timeout)
        except queue.Empty:
            raise oslo_messaging.MessagingTimeout()
""",
    """\
    def get(self, msg_id, timeout):
        return self._replies.wait(msg_id, timeout)
""",
)


def backported(tmp_path: Path, text: str | None) -> tuple[subprocess.CompletedProcess[str], str | None]:
    """What `backports.py` says of a package with this text, and the text afterwards."""
    file = tmp_path / "oslo_messaging" / "_drivers" / "amqpdriver.py"
    if text is not None:
        file.parent.mkdir(parents=True)
        file.write_text(text)
    script = layers.recipe("openstack") / "backports.py"
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], check=False, capture_output=True, text=True)
    return done, file.read_text() if file.exists() else None


def test_a_pinned_package_gets_what_a_later_release_has_mended(tmp_path: Path) -> None:
    done, text = backported(tmp_path, PINNED)
    assert done.returncode == 0, done.stderr
    assert text is not None
    assert "get(timeout=left)" in text
    assert "sleep(0.5)" not in text
    again, _ = backported(tmp_path / "another", text)
    assert again.returncode == 1, "a venv is made once: what is there already is another release's"


@pytest.mark.parametrize("text", [LATER, None], ids=["mended", "absent"])
def test_a_package_that_needs_no_backport_stays_as_it_is(tmp_path: Path, text: str | None) -> None:
    done, after = backported(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert after == text


def test_an_image_is_not_built_from_a_package_that_nobody_has_looked_at(tmp_path: Path) -> None:
    done, after = backported(tmp_path, UNKNOWN)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{tmp_path}/oslo_messaging/_drivers/amqpdriver.py: has neither")
    assert after == UNKNOWN
