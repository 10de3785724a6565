"""Our reader of configuration text against the real oslo.config: the same verdict and the same values, for recorded and
for generated text."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from oslo_config import cfg, types

from openstack_operator.kit import catalogues, config_text, custom_config, option_types
from openstack_operator.kit.catalogues import Option, Type

# One option of each kind, in both libraries' words. `other` is in a second section, `old_name` is a former name.
KINDS: dict[str, tuple[Type, Any]] = {
    "text": (Type("String"), types.String()),
    "choice": (Type("String", choices=("a", "Bc", "")), types.String(choices=["a", "Bc", ""])),
    "folded": (
        Type("String", choices=("a", "Bc"), ignore_case=True),
        types.String(choices=["a", "Bc"], ignore_case=True),
    ),
    "shaped": (Type("String", regex="^a+$"), types.String(regex="^a+$")),
    "short": (Type("String", max_length=3, quotes=True), types.String(max_length=3, quotes=True)),
    "flag": (Type("Boolean"), types.Boolean()),
    "count": (Type("Integer", min=0, max=100), types.Integer(min=0, max=100)),
    "picked": (Type("Integer", choices=(1, 5)), types.Integer(choices=[1, 5])),
    "ratio": (Type("Float", min=0.5), types.Float(min=0.5)),
    "port": (Type("Port", min=0, max=65535), types.Port()),
    "names": (Type("List", item=Type("String")), types.List()),
    "quoted": (Type("List", item=Type("String", quotes=True)), types.List(types.String(quotes=True))),
    "boxed": (Type("List", item=Type("Integer"), bounds=True), types.List(types.Integer(), bounds=True)),
    "pairs": (Type("Dict", item=Type("String")), types.Dict()),
    "numbers": (Type("Dict", item=Type("Integer"), bounds=True), types.Dict(types.Integer(), bounds=True)),
    "span": (Type("Range", min=-5, max=50), types.Range(min=-5, max=50)),
    "address": (Type("IPAddress"), types.IPAddress()),
    "four": (Type("IPAddress", version=4), types.IPAddress(version=4)),
    "six": (Type("IPAddress", version=6), types.IPAddress(version=6)),
    "name": (Type("Hostname"), types.Hostname()),
    "host": (Type("HostAddress"), types.HostAddress()),
    "domain": (Type("HostDomain"), types.HostDomain()),
    "uri": (Type("URI"), types.URI()),
    "web": (Type("URI", schemes=("http", "https"), max_length=30), types.URI(schemes=["http", "https"], max_length=30)),
}
SECTIONS = ("DEFAULT", "other")
CATALOGUE = catalogues.Catalogue(
    "nova",
    "test",
    catalogues._File(
        packages={},
        types=tuple(ours for ours, _ in KINDS.values()),
        options={
            section: {
                **{name: Option(type=number) for number, name in enumerate(KINDS)},
                "many": Option(type=0, multi=True, old=((section, "few"),)),
                "renamed": Option(type=0, old=((section, "old_name"), ("former", "renamed"))),
            }
            for section in SECTIONS
        },
    ),
)


def real(file: Path) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    for section in SECTIONS:
        group = None if section == "DEFAULT" else section
        for name, (_, theirs) in KINDS.items():
            conf.register_opt(cfg.Opt(name, type=theirs), group)
        conf.register_opt(cfg.MultiStrOpt("many", deprecated_name="few"), group)
        old = [cfg.DeprecatedOpt("old_name", group=section), cfg.DeprecatedOpt("renamed", group="former")]
        conf.register_opt(cfg.StrOpt("renamed", deprecated_opts=old), group)
    conf([], default_config_files=[str(file)], default_config_dirs=[])
    return conf


def agree(file: Path, text: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        conf = real(file)
    except cfg.ConfigFileParseError:
        with pytest.raises(config_text.UnreadableError):
            config_text.parse(text)
        return
    reader = custom_config.Reader(CATALOGUE, config_text.parse(text))
    for section, name in reader.places():
        if section not in SECTIONS:
            continue
        try:
            expected = (conf if section == "DEFAULT" else conf[section])[name]
        except (
            cfg.ConfigFileValueError,
            cfg.NoSuchOptError,
            cfg.NoSuchGroupError,
            cfg.TemplateSubstitutionError,
            RecursionError,
        ):
            with pytest.raises((ValueError, custom_config.UnknownValue)):
                reader.value(section, name)
            continue
        try:
            found = reader.value(section, name)
        except custom_config.UnknownValue:
            # It refers to an option that this text does not set: another file may.
            continue
        assert found == expected, (section, name)


RECORDED = (
    "debug = true\n",
    "[DEFAULT]\ntext = pa$word\n",
    "[DEFAULT]\ntext = ${x}\n",
    "[DEFAULT]\nname = a\ntext = x$name\n",
    "[other]\ntext = x$name\n[DEFAULT]\nname = a\n",
    "[DEFAULT]\ntext = x$other.name\n[other]\nname = b\n",
    "[DEFAULT]\ntext = x$other\n[other]\nname = b\n",
    "[DEFAULT]\ntext = $name.\nname = b\n",
    "[DEFAULT]\ntext = $text\n",
    "[DEFAULT]\ntext = x$$y\\$z\\$$\n",
    "[DEFAULT]\ntext = xy$\n",
    "[DEFAULT]\ntext = xy$1a\n",
    "[DEFAULT]\ntext = a%b%(x)s%%\n",
    "[DEFAULT]\ntext = node1 # mine\nflag = true # on\n",
    '[DEFAULT]\ntext = "ab c"\nname = \'x\'\nchoice = "\n',
    '[DEFAULT]\nnames = "a,b",c\nquoted = "a,b",c\n',
    "[DEFAULT]\ntext = ab  \n",
    "[DEFAULT]\ntext: node2\nname: a=b\n",
    "[DEFAULT]\n  text = a\n",
    "[DEFAULT]\ntext = a\n  flag = true\n",
    "[DEFAULT] # c\n",
    "[ DEFAULT ]\ntext = a\n[default]\ntext = b\n[Other]\ntext = c\n",
    "[DEFAULT]\r\ntext = a\r\nname = b\r\n",
    "[DEFAULT]\rtext = a\rname = b\r",
    "\ufeff[DEFAULT]\ntext = a\n",
    "[DEFAULT]\ntext =\u00a0a\u00a0\n",
    "[DEFAULT]\ntext \u2013 a\n",
    "[DEFAULT]\ntext =\nnames =\nchoice =\ncount =\n",
    "[DEFAULT]\ntext = a\n[DEFAULT]\ntext = b\n",
    "[DEFAULT]\nmany = a\nmany = b\nfew = c\n[other]\nx = y\n[DEFAULT]\nmany = d\n",
    "[DEFAULT]\nrenamed = new\nold_name = old\n",
    "[former]\nrenamed = a\n",
    "[DEFAULT]\nnames = a,\n  b\n",
    "[DEFAULT]\nnames = a,\n# c\n  b\n",
    "[DEFAULT]\nnames = a,\n\n  b\n",
    "[DEFAULT]\ncount = 010\nport = 1_000\nratio = 1,5\n",
    "[DEFAULT]\ncount = 0x10\n",
    "[DEFAULT]\ncount = 1.0\n",
    "[DEFAULT]\nflag = yes\n[other]\nflag = enabled\n",
    "[DEFAULT]\ntext = a\u2028b\x0bc\x0cd\x85e\x1cf\n",
    "[DEFAULT]\n\x0ctext = a\n",
    "[DEFAULT]\nweb = http://[::1]:80/a%20b\n[other]\nweb = http://[fe80::1%eth0]/\n",
    "[]\n",
    "[DEFAULT\n",
    "[DEFAULT]\n= a\n",
    "<<<<<<< HEAD\n",
)


@pytest.mark.parametrize("text", RECORDED)
def test_recorded_text_is_read_as_oslo_config_reads_it(tmp_path: Path, text: str) -> None:
    """Case 0."""
    agree(tmp_path / "a.conf", text)


WORDS = """
true No 1 5 100 101 -1 0.5 1e3 nan inf a,b [1,2] {a:1} a:b,c:d 1-5 5-1 10.0.0.1 ::1 fd00::1%1 a_b.c 1.2.3 -x x:y
host-1.example.org http://h:80/p rbd:// $name ${text} $other.text $$ \\$ $missing $other //h/p HTTPS://h
http://u:p@h/?q#f http://300.1.1.1/ http://h/%zz http://\u00e4/ http://[::1/ \u0663 http://user@/
"""
VALUES = st.one_of(
    st.text(max_size=12),
    st.text(alphabet="aBc,:[]{}\"'$\\.#;%= \t-_019/@", max_size=16),
    st.sampled_from([*WORDS.split(), "http://h/a b", "\u2028", "a\u00a0", ""]),
)
KEYS = st.one_of(st.sampled_from([*KINDS, "many", "few", "renamed", "old_name"]), st.text(max_size=5))
LINES = st.one_of(
    st.builds("{} = {}".format, KEYS, VALUES),
    st.builds("{}:{}".format, KEYS, VALUES),
    st.builds("[{}]".format, st.sampled_from([*SECTIONS, "Other", "default", "former", " DEFAULT "])),
    st.builds("  {}".format, VALUES),
    st.builds("\t{}".format, VALUES),
    st.sampled_from(["", "# c", "; c", "  ", "[DEFAULT] ", "text", "\u00a0", "\x0c"]),
    st.text(max_size=10),
)
TEXTS = st.builds(
    lambda lines, end: end.join(["[DEFAULT]", *lines]),
    st.lists(LINES, max_size=8),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
FEW = settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(text=st.one_of(TEXTS, st.text(alphabet=string.printable + "\ufeff\u2028\x85\u00a0", max_size=60)))
def test_generated_text_is_read_as_oslo_config_reads_it(tmp_path: Path, text: str) -> None:
    agree(tmp_path / "a.conf", text)


@FEW
@given(name=st.sampled_from(sorted(KINDS)), value=VALUES)
@example(name="span", value="5-1")
@example(name="uri", value="http://h\n/")
def test_a_value_is_converted_or_refused_as_oslo_config_does(name: str, value: str) -> None:
    ours, theirs = KINDS[name]
    try:
        expected = theirs(value)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - each type has its own reason
            option_types.convert(ours)(value)
        return
    found = option_types.convert(ours)(value)
    assert repr(found) == repr(expected)  # so that nan is nan
