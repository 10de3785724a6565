"""Users' policy.yaml: the language of rules as oslo.policy has it, and what is said about names."""

from __future__ import annotations

import pytest

from openstack_operator.kit import catalogues, policy_text
from openstack_operator.kit.custom_config import LENIENT, Policy

RELEASE = "2026.1"
EVERY = [(service, release) for release in catalogues.releases() for service in catalogues.services(release)]


def said(text: str, policy: Policy = LENIENT) -> list[tuple[str, int, str, str]]:
    found = policy_text.check(text, "nova", RELEASE, policy, field="f")
    return [(one.severity, one.line, one.rule, one.message) for one in found]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("", ()),
        ("@", ()),
        ("!", ()),
        ("rule:a", ("a",)),
        ("rule:a:b", ("a:b",)),
        ("not rule:a", ("a",)),
        ("not not role:x", ()),
        ("rule:a and rule:b or not (rule:c AND role:d)", ("a", "b", "c")),
        ("((rule:a) or(role:b))", None),
        ("((rule:a) or (role:b))", ("a",)),
        ("project_id:%(project_id)s and 'Member':%(role.name)s", ()),
        ("(", None),
        ("()", None),
        (")", None),
        ("   ", None),
        ("role:a role:b", None),
        ("role:a and", None),
        ("and role:a", None),
        ("not", None),
        ("admin", None),
        ("'role:a'", None),
        ("role:a or admin", None),
    ],
)
def test_a_rule_is_read_as_oslo_policy_reads_it(rule: str, names: tuple[str, ...] | None) -> None:
    """The verdicts are those of oslo.policy 4.5's parser, and of 200,000 rules made at random."""
    if names is None:
        with pytest.raises(policy_text.UnreadableRuleError):
            policy_text.references(rule)
    else:
        assert policy_text.references(rule) == names


@pytest.mark.parametrize(("service", "release"), EVERY)
def test_the_releases_own_rules_have_nothing_wrong_with_them(service: str, release: str) -> None:
    rules = catalogues.policies(service, release)
    text = "".join(f"{name!r}: {rule.check!r}\n" for name, rule in rules.items())
    found = policy_text.check(text, service, release, LENIENT, field="f")
    assert [str(one) for one in found if one.rule != "deprecated"] == []


def test_what_cannot_be_read_is_an_error_with_its_line() -> None:
    assert said("a: [\n") == [("error", 2, "unreadable", "is not YAML: did not find expected node content")]
    assert said("- a\n") == [("error", 1, "unreadable", "must be rules by name")]
    assert said("# none\n") == []
    assert said("context_is_admin: role:a\n\n'os_compute_api:servers:create': role\n") == [
        (
            "error",
            3,
            "unreadable",
            "os_compute_api:servers:create: 'role' is no check such as role:admin or rule:admin_required",
        )
    ]
    assert said("context_is_admin:\n") == [
        ("error", 1, "unreadable", "context_is_admin: '' is no text; write '' for everybody, '!' for nobody")
    ]
    assert said("context_is_admin: true\n")[0][2] == "unreadable"
    assert said("context_is_admin: {a: b}\n") == [("error", 1, "unreadable", "context_is_admin: must be text")]
    assert said("context_is_admin: [['role:a', 'role:b'], ['role:c']]\n") == [], "the former format"


def test_a_misspelt_rule_is_named_with_the_nearest_one_and_refused_where_asked() -> None:
    text = "os_compute_api:servers:creat: role:a\n"
    ((severity, line, rule, message),) = said(text)

    assert (severity, line, rule) == ("warning", 1, "unknown-rule")
    assert message.endswith("no rule here refers to it (did you mean os_compute_api:servers:create?)")
    assert said(text, Policy(unknown="Refuse"))[0][0] == "error"


def test_a_rule_of_the_users_own_is_fine_where_another_refers_to_it() -> None:
    assert said("mine: role:a\nos_compute_api:servers:create: rule:mine\n") == []
    assert said("os_compute_api:servers:create: rule:mine\n") == [
        (
            "warning",
            1,
            "undefined-rule",
            "os_compute_api:servers:create refers to mine, which does not exist, so that it refuses everybody",
        )
    ]


def test_a_circle_is_an_error_and_a_name_twice_is_told() -> None:
    assert said("a: rule:b\nb: not rule:a\nos_compute_api:servers:create: rule:a\n") == [
        ("error", 1, "cyclic-rule", "a refers to itself: a -> b -> a"),
        ("error", 2, "cyclic-rule", "b refers to itself: b -> a -> b"),
    ]
    assert said("context_is_admin: role:a\ncontext_is_admin: role:b\n") == [
        ("warning", 1, "shadowed", "context_is_admin stands again in line 2, which wins")
    ]
