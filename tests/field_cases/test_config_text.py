"""Users' configuration text: what reaches the service, and what is refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg
from paper import FIELD, Paper, read

from openstack_operator.kit import config, ini
from openstack_operator.runtime import errors

DEBUG = cfg.BoolOpt("debug", default=False)
HOST = cfg.StrOpt("host", default="host-of-the-machine")


async def effective(tmp_path: Path, *texts: str, rows: Any = (), **options: list[cfg.Opt]) -> cfg.ConfigOpts:
    """What a service reads with these texts over these rows."""
    paper = Paper()
    await paper.write(*texts, rows=rows)
    return read(paper.merge(tmp_path), options)


async def refusal(text: str) -> str:
    """The message with which a text is refused; nothing was written."""
    paper = Paper()
    with pytest.raises(errors.Stalled) as raised:
        await paper.write(text)
    assert raised.value.reason == "InvalidConfig"
    assert paper.objects == {}, "running pods keep what they have"
    return raised.value.message


async def digest(*texts: str) -> str:
    return (await Paper().write(*texts)).digest


async def digest_of_nova(text: str) -> str:
    """With the options of Nova known, and one that the operator sets."""
    rows = (ini.fixed("DEFAULT", "compute_driver", "libvirt.LibvirtDriver", "test"),)
    return (await Paper(service="nova").write(text, rows=rows)).digest


# --- the oracle: what a service would make of it --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("debug = true\n", 1),
        ("# a comment\n\ndebug = true\n", 3),
        ("[DEFAULT] # c\n", 1),
        ("[DEFAULT]\ndebug\n", 2),
        ("[DEFAULT]\ndebug \u2013 true\n", 2),
        ("[DEFAULT]\n<<<<<<< HEAD\n", 2),
        ("[DEFAULT\ndebug = true\n", 1),
        ("[]\ndebug = true\n", 1),
        ("\ufeff[DEFAULT]\ndebug = true\n", 1),
        ("[DEFAULT]\nlist = a,\n  b\n# between\n  c\n", 5),
    ],
)
async def test_what_no_service_could_read_is_refused_with_field_and_line(text: str, line: int) -> None:
    """Case 0 (oracle table), case 13 (b, f)."""
    assert (await refusal(text)).startswith(f"{FIELD}: line {line}: ")


@pytest.mark.parametrize(
    ("text", "option", "expected"),
    [
        ("[DEFAULT]\nhost = x$$y\n", HOST, "x$y"),
        ("[DEFAULT]\nhost = x\\$y\n", HOST, "x$y"),
        ("[DEFAULT]\nhost = xy$\n", HOST, "xy$"),
        ("[DEFAULT]\nhost = a%b%(x)s%%\n", HOST, "a%b%(x)s%%"),
        ("[DEFAULT]\nhost = ab#cd\n", HOST, "ab#cd"),
        ('[DEFAULT]\nhost = "ab c"\n', HOST, "ab c"),
        ("[DEFAULT]\nhost = ab  \n", HOST, "ab"),
        ("[DEFAULT]\nhost: a=b\n", HOST, "a=b"),
        ("[DEFAULT]\nhost =\n", HOST, ""),
        ("[DEFAULT]\nhost = a\n  b\n", HOST, "a\nb"),
        ("[default]\nhost = a\n", HOST, "host-of-the-machine"),
        ("[ DEFAULT ]\nhost = a\n", HOST, "host-of-the-machine"),
        ("[DEFAULT]\nhost = a\n[DEFAULT]\nhost = b\n", HOST, "b"),
        ("[DEFAULT]\nlist = a,\n  b\n", cfg.ListOpt("list"), ["a", "b"]),
        ("[DEFAULT]\nlist =\n", cfg.ListOpt("list", default=["x"]), []),
        ("[DEFAULT]\nhost = a\u2028b\n", HOST, "a\u2028b"),
        ("[DEFAULT]\nhost = a\x85b\n", HOST, "a\x85b"),
    ],
)
async def test_a_service_reads_what_it_would_read_from_a_file_of_the_users_own(
    tmp_path: Path, text: str, option: cfg.Opt, expected: Any
) -> None:
    """Case 0 (oracle table)."""
    own = tmp_path / "own.conf"
    own.write_bytes(text.encode())
    merged = tmp_path / "merged"
    merged.mkdir()

    assert read(own, {"DEFAULT": [option]})[option.name] == expected, "the table"
    assert (await effective(merged, text, DEFAULT=[option]))[option.name] == expected


# --- cases ----------------------------------------------------------------------------------------------------------


async def test_an_option_without_a_section_is_refused_and_never_lands_in_the_section_before() -> None:
    """Case 1."""
    message = await refusal("debug = true\n")

    assert message == f"{FIELD}: line 1: no [section] before this option: 'debug = true'"


@pytest.mark.parametrize("text", ["# add your customization here", "   \n\n", "", "[DEFAULT]\n# nothing yet\n", "\n"])
async def test_a_placeholder_changes_nothing_for_the_service(tmp_path: Path, text: str) -> None:
    """Case 2."""
    rows = (ini.fixed("DEFAULT", "debug", True, "test"),)
    conf = await effective(tmp_path, text, rows=rows, DEFAULT=[DEBUG, HOST])

    assert (conf.debug, conf.host) == (True, "host-of-the-machine")


NOTHING = ["", "\n", "   \n\n", "# why\n", "; why\n# not\n", "[DEFAULT]\n# nothing yet\n", "[libvirt]\n\n[DEFAULT]\n"]


@pytest.mark.parametrize("text", NOTHING)
async def test_a_text_that_says_nothing_has_the_hash_of_no_text(text: str) -> None:
    """Case 2: no restart when switching between them."""
    assert await digest(text) == await digest()


PLAIN = "[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\n[DEFAULT]\ndebug = true\n"
SAME = {
    "comments": "# why\n[libvirt]\n; so\ncpu_mode = custom\n#\ncpu_models = Nehalem\n[DEFAULT]\ndebug = true\n# end\n",
    "blank lines": "\n[libvirt]\n\ncpu_mode = custom\n\n\ncpu_models = Nehalem\n[DEFAULT]\ndebug = true\n\n",
    "blanks at the end": "[libvirt]  \ncpu_mode = custom\t\ncpu_models = Nehalem \n[DEFAULT]\ndebug = true  ",
    "blanks around the sign": "[libvirt]\ncpu_mode=custom\ncpu_models   =   Nehalem\n[DEFAULT]\ndebug : true\n",
    "quotes": "[libvirt]\ncpu_mode = 'custom'\ncpu_models = Nehalem\n[DEFAULT]\ndebug = \"true\"\n",
    "line ends": "[libvirt]\r\ncpu_mode = custom\r\ncpu_models = Nehalem\r\n[DEFAULT]\r\ndebug = true\r\n",
    "order of options": "[libvirt]\ncpu_models = Nehalem\ncpu_mode = custom\n[DEFAULT]\ndebug = true\n",
    "order of sections": "[DEFAULT]\ndebug = true\n[libvirt]\ncpu_mode = custom\ncpu_models = Nehalem\n",
    "a section twice": "[libvirt]\ncpu_mode = custom\n[DEFAULT]\ndebug = true\n[libvirt]\ncpu_models = Nehalem\n",
    "case of a section": "[LibVirt]\ncpu_mode = custom\ncpu_models = Nehalem\n[DEFAULT]\ndebug = true\n",
    "a value that is replaced": "[libvirt]\ncpu_mode = none\n" + PLAIN,
    "a former name": PLAIN.replace("cpu_models", "cpu_model"),
    "what the operator says anyway": PLAIN + "compute_driver = libvirt.LibvirtDriver\n",
    "an empty section": PLAIN + "[pci]\n",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=what.replace(" ", "-")) for what, text in SAME.items()])
async def test_the_same_said_otherwise_rolls_nothing(text: str) -> None:
    """Case 20: only what the process reads counts."""
    assert await digest_of_nova(text) == await digest_of_nova(PLAIN)


OTHER = {
    "another value": PLAIN.replace("Nehalem", "Haswell"),
    "one option less": PLAIN.replace("debug = true\n", ""),
    "one option more": PLAIN + "my_ip = 192.0.2.1\n",
    "the same option elsewhere": PLAIN.replace("[DEFAULT]", "[api]"),
    "[default] is not [DEFAULT]": PLAIN.replace("[DEFAULT]", "[default]"),
    "an indented line continues the value": PLAIN + " my_ip = 192.0.2.1\n",
    "a name that nobody knows": PLAIN + "debgu = true\n",
    "case of an option": PLAIN.replace("debug", "Debug"),
}


@pytest.mark.parametrize("text", [pytest.param(text, id=what.replace(" ", "-")) for what, text in OTHER.items()])
async def test_what_the_process_reads_otherwise_rolls(text: str) -> None:
    assert await digest_of_nova(text) != await digest_of_nova(PLAIN)


async def test_the_order_of_several_values_of_one_option_counts_and_no_other_order_does() -> None:
    """Case 10."""
    gpu, nic = 'alias = {"name":"gpu"}\n', 'alias = {"name":"nic"}\n'
    both = await digest_of_nova(f"[pci]\n{gpu}{nic}report_in_placement = true\n")

    assert await digest_of_nova(f"[pci]\n{gpu}report_in_placement = true\n{nic}") == both
    assert await digest_of_nova(f"[pci]\n{nic}{gpu}report_in_placement = true\n") != both
    assert await digest_of_nova(f"[pci]\n{nic}report_in_placement = true\n") != both
    unknown = await digest_of_nova("[mine]\nlist = a\nlist = b\n")
    assert await digest_of_nova("[mine]\nlist = b\nlist = a\n") != unknown, "it may take several"


async def test_a_file_that_is_not_in_this_format_is_compared_by_its_lines() -> None:
    paper = Paper()
    flags = {"my.cnf": "[mysqld]\nskip-name-resolve\n"}
    plain = await config.ensure(paper, "mariadb", (), whole=flags)  # type: ignore[arg-type]
    commented = {"my.cnf": "# why\n[mysqld]\nskip-name-resolve  \n"}

    assert (await config.ensure(paper, "mariadb", (), whole=commented)).digest == plain.digest  # type: ignore[arg-type]
    assert (await config.ensure(paper, "mariadb", ())).digest != plain.digest  # type: ignore[arg-type]


async def test_a_misspelt_option_is_passed_through(tmp_path: Path) -> None:
    """Case 3: it is never dropped; saying so is the catalogue's part."""
    paper = Paper()
    await paper.write("[filter_scheduler]\nenabled_filtes = ComputeFilter,NUMATopologyFilter\n")

    assert "enabled_filtes = ComputeFilter,NUMATopologyFilter" in paper.merge(tmp_path).read_text().splitlines()


async def test_nothing_is_cut_off_after_a_hash_sign(tmp_path: Path) -> None:
    """Case 4: passwords contain it."""
    text = "[ml2_type_vlan]\nnetwork_vlan_ranges = physA:206:209,physB:206:209 # lab only\n"
    conf = await effective(tmp_path, text, ml2_type_vlan=[cfg.StrOpt("network_vlan_ranges")])

    assert conf.ml2_type_vlan.network_vlan_ranges == "physA:206:209,physB:206:209 # lab only"


@pytest.mark.parametrize("text", ["[DEFAULT]\n  debug = true\n", "[DEFAULT]\n\tdebug = true\n"])
async def test_an_indented_first_option_is_refused(text: str) -> None:
    """Case 9 (1, 3)."""
    assert (await refusal(text)).startswith(f"{FIELD}: line 2: Unexpected continuation line")


async def test_an_indented_later_option_continues_the_one_before_as_everywhere(tmp_path: Path) -> None:
    """Case 9 (2): values with continuation lines stay what they are; nothing is indented anew."""
    conf = await effective(tmp_path, "[DEFAULT]\nhost = a\n  debug = true\n", DEFAULT=[DEBUG, HOST])

    assert (conf.host, conf.debug) == ("a\ndebug = true", False)


async def test_leading_blank_lines_and_no_line_end_at_the_end_are_fine(tmp_path: Path) -> None:
    """Case 9 (4). What follows the text starts on a line of its own."""
    conf = await effective(tmp_path, "\n\n[DEFAULT]\ndebug = true", "[DEFAULT]\nhost = b", DEFAULT=[DEBUG, HOST])

    assert (conf.debug, conf.host) == (True, "b")


async def test_every_value_of_an_option_with_several_is_kept_in_order(tmp_path: Path) -> None:
    """Case 10, case E4: the operator's own value is kept too, first, as oslo.config does with two files."""
    text = (
        '[pci]\nalias = {"name":"gpu"}\nalias = {"name":"nic"}\n'
        'device_spec = {"address":"0000:a1:00.*"}\ndevice_spec = {"address":"0000:20:00.3"}\n'
    )
    rows = (ini.fixed("pci", "alias", '{"name":"ours"}', "test"),)
    options = [cfg.MultiStrOpt("alias"), cfg.MultiStrOpt("device_spec")]
    conf = await effective(tmp_path, text, rows=rows, pci=options)

    assert conf.pci.alias == ['{"name":"ours"}', '{"name":"gpu"}', '{"name":"nic"}']
    assert conf.pci.device_spec == ['{"address":"0000:a1:00.*"}', '{"address":"0000:20:00.3"}']


async def test_sections_may_repeat_and_the_last_value_wins(tmp_path: Path) -> None:
    """Case 11."""
    text = "[DEFAULT]\ndebug = false\n[pci]\nx = 1\n[DEFAULT]\ndebug = true\n"
    rows = (ini.fixed("DEFAULT", "debug", False, "test"), ini.fixed("zz", "a", 1, "test"), ini.fixed("b", "a", 1, ""))
    first, second = Paper(), Paper()
    await first.write(text, rows=rows)
    await second.write(text, rows=rows)

    assert first.objects == second.objects, "the same bytes each time"
    assert read(first.merge(tmp_path), {"DEFAULT": [DEBUG]}).debug is True


async def test_windows_line_ends_are_read_as_line_ends(tmp_path: Path) -> None:
    """Case 13 (a)."""
    conf = await effective(tmp_path, "[DEFAULT]\r\ndebug = true\r\nhost = b\r\n", DEFAULT=[DEBUG, HOST])

    assert (conf.debug, conf.host) == (True, "b")


async def test_smart_quotes_are_part_of_the_value(tmp_path: Path) -> None:
    """Case 13 (c): passed through; a warning is the catalogue's part."""
    conf = await effective(tmp_path, "[DEFAULT]\nhost = “a”\n", DEFAULT=[HOST])

    assert conf.host == "“a”"


async def test_the_more_particular_of_two_texts_wins(tmp_path: Path) -> None:
    """Case 18: default < service < component."""
    rows = (ini.fixed("DEFAULT", "debug", True, "test"), ini.fixed("DEFAULT", "workers", 3, "test"))
    texts = ("[DEFAULT]\ndebug = false\nhost = service\n", "[DEFAULT]\nworkers = 1\nhost = component\n")
    conf = await effective(tmp_path, *texts, rows=rows, DEFAULT=[DEBUG, HOST, cfg.IntOpt("workers")])

    assert (conf.debug, conf.workers, conf.host) == (False, 1, "component")


async def test_an_option_of_the_operators_own_may_be_overridden_even_a_secret_one(tmp_path: Path) -> None:
    """Case 21: the user wins, and wins in every pod, because jobs and servers read the same merged file."""
    rows = (ini.fact("database", "connection", "database.url", secret=True),)
    paper = Paper(facts={"database.url": "mysql+pymysql://nova:ours@mariadb/nova"})
    theirs = "mysql+pymysql://root:x@elsewhere/nova"
    await paper.write(f"[database]\nconnection = {theirs}\n", rows=rows)

    assert read(paper.merge(tmp_path), {"database": [cfg.StrOpt("connection")]}).database.connection == theirs


async def test_removing_a_text_leaves_nothing_of_it() -> None:
    """Case 19."""
    paper = Paper()
    before = await paper.write()
    plain = dict(paper.objects["service-config-data"]["data"])
    await paper.write("[DEFAULT]\ndebug = true\n")
    after = await paper.write("")

    assert after == before
    assert paper.objects["service-config-data"]["data"] == plain
