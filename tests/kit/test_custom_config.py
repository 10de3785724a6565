"""What is said about users' text, against the catalogues of the releases' own packages."""

from __future__ import annotations

import time

import pytest

from openstack_operator.kit import catalogues, custom_config, ini
from openstack_operator.kit.custom_config import Policy

RELEASE = "2026.1"


def said(text: str, service: str = "nova", policy: Policy = custom_config.LENIENT) -> list[tuple[str, str, int, str]]:
    found = custom_config.check(text, service, RELEASE, policy)
    return [(one.severity, one.rule, one.line, one.message) for one in found]


@pytest.mark.parametrize(
    ("service", "text"),
    [
        ("nova", "[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\n"),
        ("nova", "[LIBVIRT]\ncpu_mode = custom\n"),
        ("nova", '[pci]\nalias = {"name":"gpu"}\nalias = {"name":"nic"}\n'),
        ("nova", "[mdev_nvidia-35]\ndevice_addresses = 0000:84:00.0\n"),
        ("nova", "[vif_plug_ovs_privileged]\nhelper_command = privsep-helper\n"),
        ("nova", "[DEFAULT]\nstate_path = /x\ninstances_path = $state_path/y\n"),
        ("keystone", "[token]\nexpiration = 010\n"),
        ("placement", "[keystone_authtoken]\nauth_type = password\nusername = a\npassword = x$$y\n"),
        ("glance", "[DEFAULT]\nenabled_backends = fast:rbd\n[fast]\nrbd_store_pool = images\n"),
        ("cinder", "[DEFAULT]\nenabled_backends = ceph-1\n[ceph-1]\nvolume_backend_name = x\nrbd_pool = volumes\n"),
        ("neutron", "[ml2_type_vlan]\nnetwork_vlan_ranges = physA:206:209\n[privsep_link]\nuser = root\n"),
        ("heat", "[DEFAULT]\ndebug = On\n"),
        ("nova", ""),
        ("nova", "# nothing\n\n[DEFAULT]\n"),
        ("almanac", "[anything]\ngoes = here\n"),
    ],
)
def test_text_that_says_what_it_means_has_no_findings(service: str, text: str) -> None:
    assert said(text, service) == []


@pytest.mark.parametrize(
    ("service", "text", "expected"),
    [
        (
            "nova",
            "[libvirt]\ncpu_mode = custom\ncpu_modell = Nehalem\n",
            (
                "warning",
                "unknown-option",
                3,
                "[libvirt] cpu_modell does not exist in nova 2026.1 (did you mean cpu_models?)",
            ),
        ),
        (
            "nova",
            "[filter_scheduler]\nenabled_filtes = ComputeFilter\n",
            (
                "warning",
                "unknown-option",
                2,
                "[filter_scheduler] enabled_filtes does not exist in nova 2026.1 (did you mean enabled_filters?)",
            ),
        ),
        (
            "nova",
            "[default]\nhost = a\n",
            (
                "warning",
                "unknown-section",
                2,
                "[default] host is in a section that does not exist in nova 2026.1 (did you mean [DEFAULT]?)",
            ),
        ),
        (
            "nova",
            "[DEFAULT]\nMy-Ip = a\n",
            ("warning", "unknown-option", 2, "[DEFAULT] My-Ip does not exist in nova 2026.1 (did you mean my_ip?)"),
        ),
        (
            "nova",
            "[DEFAULT]\nvirt_type = qemu\n",
            (
                "warning",
                "unknown-option",
                2,
                "[DEFAULT] virt_type does not exist in nova 2026.1 (did you mean [libvirt] virt_type?)",
            ),
        ),
        (
            "nova",
            "[libvirt]\nvirt_type = qemuu\n",
            (
                "error",
                "ill-typed",
                2,
                "[libvirt] virt_type must be one of kvm, lxc, qemu, parallels: 'qemuu' (did you mean qemu?)",
            ),
        ),
        (
            "nova",
            "[DEFAULT]\ndebug = true # on\n",
            (
                "error",
                "ill-typed",
                2,
                "[DEFAULT] debug must be true or false (or yes, no, on, off, 1, 0): 'true # on' "
                "(did you mean true?) (a comment needs a line of its own)",
            ),
        ),
        (
            "neutron",
            "[DEFAULT]\nbind_port = 70000\n",
            ("error", "ill-typed", 2, "[DEFAULT] bind_port must be a port number from 0 to 65535: '70000'"),
        ),
        (
            "neutron",
            "[ml2]\ntenant_network_types = geneve\n",
            (
                "warning",
                "deprecated",
                2,
                "[ml2] tenant_network_types is deprecated: the option is [ml2] project_network_types now",
            ),
        ),
        (
            "placement",
            "[keystone_authtoken]\npassword = pa$word\n",
            (
                "error",
                "bad-reference",
                2,
                "[keystone_authtoken] password has a $ that oslo.config takes for a reference to an option; "
                "write $$ for a dollar sign",
            ),
        ),
        (
            "nova",
            "[DEFAULT]\nhost = a\n  debug = true\n",
            (
                "warning",
                "swallowed",
                3,
                "[DEFAULT] host goes on in line 3: 'debug' there is part of its value, because the line is indented",
            ),
        ),
        (
            "neutron",
            "[ml2_type_vlan]\nnetwork_vlan_ranges = physA:206:209 # lab only\n",
            (
                "warning",
                "inline-comment",
                2,
                "[ml2_type_vlan] network_vlan_ranges has a value that ends in what looks like a comment; "
                "all of it is the value",
            ),
        ),
        (
            "nova",
            "[DEFAULT]\nmy_block_storage_ip = \u201ca\u201d\n",
            ("warning", "odd-character", 2, "[DEFAULT] my_block_storage_ip has a typographic quote in its value"),
        ),
        ("nova", "debug = true\n", ("error", "unreadable", 1, "no [section] before this option: 'debug = true'")),
    ],
)
def test_what_a_service_would_not_read_or_not_heed_is_named_with_line_and_remedy(
    service: str, text: str, expected: tuple[str, str, int, str]
) -> None:
    """Case 3, case 4, case 9, case 13. Regression h5."""
    assert expected in said(text, service)


def test_options_that_a_release_renamed_are_outdated_from_that_release_on() -> None:
    """Case 22."""
    text = "[ml2]\ntenant_network_types = geneve\n"
    found = {release: custom_config.check(text, "neutron", release) for release in catalogues.releases()}

    assert {release: [one.rule for one in said] for release, said in found.items()} == {
        "2025.1": [],
        "2025.2": [],
        "2026.1": ["deprecated"],
        "2026.2": ["deprecated"],
    }


def test_unknown_names_are_refused_where_the_policy_says_so() -> None:
    """Regression r47."""
    strict = Policy(unknown="Refuse")
    found = custom_config.check("[libvirt]\ncpu_modell = x\n[nowhere]\na = b\n", "nova", RELEASE, strict)

    assert [(one.severity, one.rule) for one in found] == [("error", "unknown-option"), ("error", "unknown-section")]


def test_options_of_a_driver_of_the_users_own_are_known_when_declared() -> None:
    known = Policy(unknown="Refuse", known=custom_config.known_options(("libvirt/cpu_modell", "mine/*")))

    assert said("[libvirt]\ncpu_modell = x\n[mine]\na = b\nc = d\n", policy=known) == []


def test_an_option_that_the_operator_sets_is_called_out_with_what_that_breaks() -> None:
    """Case 21."""
    rows = (
        *ini.database("database"),
        ini.spec("workers", "count", "replicas"),
        ini.fixed("oslo_concurrency", "lock_path", "/var/lib/nova/tmp", "writable"),
    )
    policy = Policy(owned=custom_config.owned(rows))
    text = "[database]\nconnection = mysql+pymysql://root:secret@elsewhere/nova\nmax_pool_size = 9\n"
    found = said(text + "[oslo_concurrency]\nlock_path = /tmp\n", policy=policy)

    assert found == [
        (
            "warning",
            "owned",
            2,
            "[database] connection overrides what the operator sets: the operator makes the database, its user and its "
            "password, and no longer gives them to the service",
        ),
        ("warning", "owned", 5, "[oslo_concurrency] lock_path overrides what the operator sets (writable)"),
    ]


def test_a_former_name_of_what_the_operator_sets_is_said_to_have_no_effect() -> None:
    policy = Policy(owned=custom_config.owned((ini.spec("ml2", "project_network_types", "types"),)))

    (found,) = custom_config.check("[ml2]\ntenant_network_types = flat\n", "neutron", RELEASE, policy)
    assert (found.rule, found.suggestion) == ("shadowed", "[ml2] project_network_types")


@pytest.mark.parametrize("text", ["[database]\nconnection = leak$me\n", "leak me", "[DEFAULT]\ndebug = leak\n"])
def test_nothing_of_a_text_with_secrets_is_shown(text: str) -> None:
    found = custom_config.check(text, "nova", RELEASE, Policy(is_secret=True))

    assert found
    assert "leak" not in " ".join(map(str, found))


def test_a_secret_option_is_never_shown() -> None:
    (found,) = custom_config.check("[database]\nconnection = leak$me\n", "nova", RELEASE)

    assert "leak" not in str(found)


def test_every_release_has_the_same_services_and_a_thousand_options_of_nova() -> None:
    assert catalogues.releases() == ("2025.1", "2025.2", "2026.1", "2026.2")
    wanted = ("cinder", "glance", "heat", "keystone", "neutron", "nova", "placement")
    for release in catalogues.releases():
        assert catalogues.services(release) == wanted
        nova = catalogues.load("nova", release)
        assert nova is not None
        assert sum(1 for _ in nova) > 1000
        assert nova.find("libvirt", "cpu_mode") is not None
        assert catalogues.policies("nova", release)["os_compute_api:servers:create"].scope == ("project",)
        assert "ordered list of CPU models" in catalogues.help_texts("nova", release).options["libvirt"]["cpu_models"]


@pytest.mark.parametrize("release", catalogues.releases())
def test_an_options_default_is_a_value_that_it_takes(release: str) -> None:
    """What the packages say of themselves, through our reader: a mistake of either shows."""
    wrong = []
    for service in catalogues.services(release):
        catalogue = catalogues.load(service, release)
        assert catalogue is not None
        lines = []
        for section, name, option in catalogue:
            if option.default and not option.sample:
                lines += [f"[{section}]", *(f"{name} = {value}" for value in option.default)]
        found = custom_config.check("\n".join(lines), service, release)
        wrong += [(service, one.option) for one in found if one.severity == "error"]

    # A whole number with the default 20.0 (cinder.volume.drivers.dell_emc.powermax.common).
    assert [one for one in wrong if one != ("cinder", "u4p_failover_timeout")] == []


def test_two_thousand_lines_are_checked_in_ten_milliseconds() -> None:
    nova = catalogues.load("nova", RELEASE)
    assert nova is not None
    lines = []
    for section, name, option in nova:
        lines += [
            f"[{section}]",
            f"{name} = {option.default[0] if option.default and '$' not in option.default[0] else 1}",
        ]
    text = "\n".join(lines[:2000])
    custom_config.check(text, "nova", RELEASE)

    # The best of many: other processes of the machine slow single ones down.
    assert any(_timed(text) < 0.010 for _ in range(200))


def _timed(text: str) -> float:
    start = time.process_time()
    custom_config.check(text, "nova", RELEASE)
    return time.process_time() - start


def test_a_text_for_another_service_gets_a_suggestion_for_its_first_names_only() -> None:
    """A search takes up to a millisecond: thousands of them would hold up everything else in the operator."""
    text = "[DEFAULT]\n" + "".join(f"debugg{number} = true\ndebugs = true\n" for number in range(1000))
    found = custom_config.check(text, "nova", "2026.1")
    assert len(found) == 2000
    suggested = [bool(one.suggestion) for one in found]
    assert any(suggested[: custom_config.MOST_SUGGESTIONS])
    assert not any(suggested[custom_config.MOST_SUGGESTIONS :])
