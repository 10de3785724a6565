"""Configuration rows: what is rendered is what oslo.config itself reads back, and secrets stay apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from openstack_operator.kit import custom_config, ini
from openstack_operator.runtime import errors
from openstack_operator.services.keystone import types as keystone

# What a line of a text file can hold.
lines = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n\r"), max_size=40)
DIFFICULT = ["$", "$$", "$x", "${x}", "a$b", "'", '"', "''", '""', "'a'", '"a"', '"a', "a'", " a", "a ", "  ", "",
    "%", "%(x)s", "#", "a # b", "a;b", "-x", "a=b", "a:b", "[x]", "\\", "\\n", "a\tb", "\t", "ä€"]  # fmt: skip


def read(text: str, tmp_path: Path, *options: cfg.Opt, group: str = "a") -> Any:
    """What a service reads from a file with this text."""
    file = tmp_path / "service.conf"
    file.write_text(text)
    parser = cfg.ConfigOpts()
    parser.register_opts(options, group=group)
    parser(args=[], default_config_files=[str(file)], default_config_dirs=[])
    return getattr(parser, group)


@given(lines | st.sampled_from(DIFFICULT))
def test_a_value_is_read_back_by_oslo_config_as_it_was(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    rows = (ini.fact("a", "option", "value"),)
    text = ini.render(rows, None, {"value": value}).public
    assert read(text, tmp_path_factory.getbasetemp(), cfg.StrOpt("option")).option == value


@pytest.mark.parametrize(
    ("value", "option"), [(True, cfg.BoolOpt("o")), (False, cfg.BoolOpt("o")), (-1, cfg.IntOpt("o"))]
)
def test_numbers_and_booleans_keep_their_type(tmp_path: Path, value: Any, option: cfg.Opt) -> None:
    text = ini.render((ini.fixed("a", "o", value, "a test"),), None, {}).public
    assert read(text, tmp_path, option).o is value or read(text, tmp_path, option).o == value


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\n"])
def test_a_line_break_in_a_value_is_refused_without_telling_the_value(value: str) -> None:
    with pytest.raises(errors.Stalled) as raised:
        ini.render((ini.fact("a", "password", "user.password", secret=True),), None, {"user.password": value})
    assert raised.value.message == "[a] password (fact user.password) contains a line break"


def test_secret_rows_go_to_the_secret_part_and_every_option_tells_its_origin() -> None:
    rows = (
        ini.fixed("a", "one", 1, "because"),
        ini.fact("a", "two", "database.url", secret=True),
        ini.spec("b", "three", "token.expirationSeconds"),
        ini.computed("b", "four", lambda spec, facts: None, "nothing"),
    )
    spec = keystone.KeystoneSpec()
    found = ini.render(rows, spec, {"database.url": "mysql://u:p@h/d"})
    assert found == ini.Rendered(
        "[a]\n# fixed: because\none = 1\n\n[b]\n# spec.token.expirationSeconds\nthree = 3600\n\n",
        "[a]\n# fact database.url\ntwo = mysql://u:p@h/d\n\n",
    )


def test_the_parts_together_are_one_file_in_which_the_user_wins(tmp_path: Path) -> None:
    rows = (ini.fixed("a", "x", "ours", "a test"), ini.fact("a", "y", "fact", secret=True))
    rendered = ini.render(rows, None, {"fact": "secret"})
    text = rendered.public + "\n" + rendered.secret + "\n" + "[a]\nx = users\n"
    found = read(text, tmp_path, cfg.StrOpt("x"), cfg.StrOpt("y"))
    assert (found.x, found.y) == ("users", "secret")


# --- users' text ----------------------------------------------------------------------------------------------------

texts = st.lists(
    st.sampled_from(
        ["[a]", "[b]", "x = 1", "x", " continued", "# note", "; note", "", "= 1", "[a", "x: 2", "[]", "\t"]
    ),
    max_size=6,
).map("\n".join)


@given(texts)
def test_text_is_accepted_only_if_oslo_config_accepts_it(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    if not custom_config.check(text, "nova", "none", field="spec.customServiceConfig"):
        read(text, tmp_path_factory.getbasetemp(), cfg.StrOpt("x"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_services_count_them(end: str) -> None:
    with pytest.raises(errors.Stalled, match="field: line 3: No ':' or '=' found in assignment: 'oops'"):
        custom_config.refuse(custom_config.check(end.join(["[a]", "x = 1", "oops"]), "nova", "none", field="field"))


def test_only_the_beginning_of_a_long_line_is_told() -> None:
    with pytest.raises(errors.Stalled) as raised:
        custom_config.refuse(custom_config.check("[a]\n" + "y" * 5000, "nova", "none", field="field"))
    assert len(raised.value.message) < 200
