"""keystone.conf and the rotation of keys."""

from __future__ import annotations

import base64
import configparser
import math
from typing import get_args

import pytest

from openstack_operator.kit import catalogues, ini, workloads
from openstack_operator.kit import config as kit_config
from openstack_operator.kit.types import ReleaseName
from openstack_operator.services.keystone import config, resources
from openstack_operator.services.keystone.types import FernetSpec, KeystoneSpec, TokenSpec

HOUR, DAY = 3600, 24 * 3600


@pytest.mark.parametrize(
    ("life", "window", "hours", "keys"),
    [
        (HOUR, 2 * DAY, 24, 5),  # 49 hours are three days begun
        (HOUR, 0, 24, 3),
        (DAY, 0, 24, 3),
        (DAY + 1, 0, 24, 4),
        (HOUR, 2 * DAY, 1, 51),
        (HOUR, 2 * DAY, 23, 7),  # runs at 0 and 23 o'clock: an hour apart once a day
        (HOUR, 2 * DAY, 47, 5),  # runs daily
        (HOUR, 3 * DAY, 48, 5),  # on the 29th, the 31st and the 1st
    ],
)
def test_as_many_keys_are_kept_as_tokens_can_still_be_shown(life: int, window: int, hours: int, keys: int) -> None:
    """Regression f24."""
    token = TokenSpec(expiration_seconds=life, allow_expired_window_seconds=window)
    spec = KeystoneSpec(token=token, fernet=FernetSpec(rotation_hours=hours))
    assert config.max_active_keys(spec, {}) == keys


@pytest.mark.parametrize(
    ("hours", "schedule"), [(1, "7 */1 * * *"), (6, "7 */6 * * *"), (24, "7 3 * * *"), (48, "7 3 */2 * *")]
)
def test_the_schedule_follows_the_hours(hours: int, schedule: str) -> None:
    assert config.schedule(hours) == schedule


@pytest.mark.parametrize("hours", [1, 2, 3, 4, 6, 8, 12, 24])
@pytest.mark.parametrize("span", [0.1, 1, 23, 24, 24.5, 49, 4320])
def test_an_even_schedule_rotates_once_in_its_period(hours: int, span: float) -> None:
    assert config.most_rotations(hours, span) == math.ceil(span / hours)


def test_no_row_holds_a_password() -> None:
    facts = {"database.file_url": "mysql+pymysql://keystone@h/keystone", "cache.servers": "c:11211"}
    rendered = ini.render(config.ROWS, KeystoneSpec(), facts)
    assert rendered.secret == ""
    assert "connection = mysql+pymysql://keystone@h/keystone" in rendered.public


def test_keys_are_what_fernet_takes() -> None:
    assert len(base64.urlsafe_b64decode(resources.key())) == 32
    assert resources.key() != resources.key()


def test_the_admins_password_is_not_in_the_bootstraps_command() -> None:
    pod = resources.bootstrap_pod("keystone", KeystoneSpec(region="R"), kit_config.NONE, "http://i", "http://p", "hash")
    (container,) = workloads.template(pod)["spec"]["containers"]
    command = " ".join(container["command"])
    assert "OS_BOOTSTRAP_PASSWORD" in command, "the name of the variable, which a file fills"
    assert "--bootstrap-password" not in command
    assert [one["name"] for one in container["env"]] == ["OS_CACHE__ENABLED"]


@pytest.mark.parametrize("release", get_args(ReleaseName))
def test_what_a_cache_held_before_it_went_is_over_when_it_comes_back(release: str) -> None:
    """A pod forgets nothing in a Memcached that it does without: entries must not outlive that time."""
    facts = {"database.file_url": "mysql+pymysql://keystone@h/keystone", "cache.servers": "c:11211"}
    text = ini.render(config.ROWS, KeystoneSpec(), facts).public
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(text)
    without = parsed.getint("cache", "memcache_dead_retry")
    assert parsed.getint("cache", "expiration_time") <= without
    known = catalogues.load("keystone", release)
    assert known is not None
    own = {name for name, options in known.options.items() if (found := options.get("cache_time")) and found.default}
    assert "revoke" in own
    for section in own:
        assert parsed.getint(section, "cache_time") <= without, section
