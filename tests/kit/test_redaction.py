"""Secrets in what programs say: each kind of place in which they were seen."""

from __future__ import annotations

import base64

import pytest

from openstack_operator.kit import redaction


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no such URL: mysql+pymysql://nova:p@ss/w@db:3306/nova", "no such URL: mysql+pymysql://nova:***@db:3306/nova"),
        ("rabbit://u:p@one:5672,u:q@two:5672//", "rabbit://u:***@two:5672//"),
        ("http://keystone:5000/v3 refused", "http://keystone:5000/v3 refused"),
        ("bad option password = hunter2, line 3", "bad option password = ***, line 3"),
        ('{"auth": {"password": "a b", "user": "x"}}', '{"auth": {"password": ***, "user": "x"}}'),
        ("admin_password: hunter2", "admin_password: ***"),
        ("metadata_proxy_shared_secret='x y' is too short", "metadata_proxy_shared_secret=*** is too short"),
        ("X-Auth-Token: 0123456789abcdef", "X-Auth-Token: ***"),
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer ***"),
        ("token gAAAAABmZ2Zm-3f4g5h6j7k8l9qwertz is over", "token *** is over"),
        ("near: ALTER USER x IDENTIFIED BY 'hunter2';", "near: ALTER USER x IDENTIFIED BY '***';"),
        (
            "Access denied for user 'x'@'h' (using password: YES)",
            "Access denied for user 'x'@'h' (using password: YES)",
        ),
        ('Back-off pulling image "x@sha256:0123abcd"', 'Back-off pulling image "x@sha256:0123abcd"'),
        ('secret "nova-db" not found', 'secret "nova-db" not found'),
        ("ValueError: bad option", "ValueError: bad option"),
        ("failed to fetch token: pod not found", "failed to fetch token: pod not found"),
        ("syntax error, unexpected token: }", "syntax error, unexpected token: }"),
        ("shared_secret = abc", "shared_secret = ***"),
    ],
)
def test_what_looks_like_a_secret_is_masked_and_nothing_else(text: str, shown: str) -> None:
    assert redaction.without_patterns(text) == shown


def test_a_known_secret_is_masked_as_it_is_and_as_it_stands_in_urls() -> None:
    assert redaction.without_values("is a/b+c, is a%2Fb%2Bc", {"a/b+c"}) == "is ***, is ***"


def test_of_two_secrets_the_longer_one_is_masked_first() -> None:
    assert redaction.without_values("abcdef abc", {"abc", "abcdef"}) == "*** ***"


@pytest.mark.parametrize(
    ("key", "value", "is_secret"),
    [
        ("password", "abcd", True),
        ("password", "abc", False),
        ("user", "a-very-long-user-name", False),
        ("cookie", "ABCDEFGH", True),
        ("0", "c2l4dGVlbiBjaGFyYWN0ZXJz", True),
        ("region", "RegionOne", False),
        ("transport_url", "rabbit://u:p@host:5672/long-enough", False),
        ("10-secrets.conf", "[database]\nconnection = x", False),
    ],
)
def test_which_values_of_a_secret_are_looked_for(key: str, value: str, is_secret: bool) -> None:
    found = redaction.secret_values({"data": {key: base64.b64encode(value.encode()).decode()}})
    assert found == ({value} if is_secret else set())
