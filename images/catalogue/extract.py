"""Prints every option and policy rule of a release's services as JSON. embedded/images/catalogues.py runs it inside the
release's root file system, with its venv's Python.

A service is an entry point of oslo.policy.policies whose package lists options as well. Its options are those of its
own package and of every package that it needs, by the packages' own metadata.
"""

import ast
import contextlib
import importlib.metadata
import json
import os
import re
import socket
import sys
import traceback
import unittest.mock

# Defaults that libraries take from the machine would differ from one build to the next.
socket.gethostname = lambda: "localhost"
socket.getfqdn = lambda name="": "localhost"
os.cpu_count = lambda: 1

from keystoneauth1 import loading  # noqa: E402
from oslo_config import cfg  # noqa: E402

# How a namespace with tests says so: their options are in no service.
TESTS = re.compile(r"(^|[._])(integration_?)?tests?([._]|$)|integrationtests")
# Services whose users name sections themselves: where they list the names, and the section whose options hold there.
# Source: cinder.volume.configuration (backend_defaults), glance_store.multi_backend (one group for each driver).
NAMED_SECTIONS = {
    "cinder": {"option": ["DEFAULT", "enabled_backends"], "sections": ["backend_defaults", "DEFAULT"]},
    "glance": {"option": ["DEFAULT", "enabled_backends"], "namespace": "glance.multi_store"},
}
# Sections that a service registers by the value of another option: how their names begin.
# Source: nova.conf.devices.register_dynamic_opts.
PREFIXES = {"nova": ["mdev_"]}
SIMPLE = ("min", "max", "max_length", "min_length", "quotes", "ignore_case", "bounds", "schemes", "inclusive")


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what packages print on import belongs into the log
    points = {
        group: importlib.metadata.entry_points(group=group) for group in ("oslo.config.opts", "oslo.policy.policies")
    }
    with_options = {point.dist.name for point in points["oslo.config.opts"]}
    result = {}
    for point in sorted(points["oslo.policy.policies"], key=lambda point: point.name):
        if point.dist.name in with_options:
            print(f"catalogue: {point.name}", file=sys.stderr, flush=True)
            result[point.name] = alone(lambda point=point: service(point, points))
    json.dump(result, out, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    out.flush()


def alone(function):
    """A function's answer, from a process of its own: two services register options of one name in one place."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                json.dump(function(), out)
            code = 0
        except BaseException:  # noqa: BLE001 - all of it becomes the exit code
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    if os.waitpid(child, 0)[1]:
        sys.exit("a service's options cannot be listed")
    return json.loads(text)


def service(point, points):
    dists = closure(point.dist.name)
    mine = [
        one for one in points["oslo.config.opts"] if canonical(one.dist.name) in dists and not TESTS.search(one.name)
    ]
    options, helps, namespaces = {}, {}, {}
    # The service's own options stand before those of its libraries.
    own_first = sorted(mine, key=lambda one: (one.dist.name != point.dist.name, one.name))
    for one in own_first:
        found = listed_by(one)
        namespaces[one.name] = sections = set()
        for group, listed in found:
            section = str(getattr(group, "name", None) or group or "DEFAULT")
            sections.add(section)
            for option in listed:
                add(options, helps, section, option)
    for section, known in options.items():
        if "auth_type" in known:
            for plugin in sorted(loading.get_available_plugin_names(), key=lambda name: (name != "password", name)):
                for option in loading.get_auth_plugin_conf_options(plugin):
                    add(options, helps, section, option)
    if "privsep" in options:
        for section in privsep_sections(dists):
            options.setdefault(section, options["privsep"])
    named = dict(NAMED_SECTIONS.get(point.name, {}))
    if namespace := named.pop("namespace", None):
        named["sections"] = sorted(namespaces.get(namespace, ()))
    rules, rule_helps = {}, {}
    for rule in listed_by(point):
        rules[rule.name], rule_helps[rule.name] = policy(rule)
    return {
        "packages": {point.dist.name: point.dist.version, "oslo.config": importlib.metadata.version("oslo.config")},
        "options": options,
        "named": named,
        "prefixes": PREFIXES.get(point.name, []),
        "help": helps,
        "policies": rules,
        "policies_help": rule_helps,
    }


def listed_by(point):
    """What an entry point lists. A driver whose own library is not in the image has options all the same: the library
    is stood in for while its module is read."""
    for _ in range(100):
        try:
            return point.load()()
        except ModuleNotFoundError as problem:
            if problem.name is None or problem.name.partition(".")[0] == point.module.partition(".")[0]:
                raise
            print(f"catalogue: {point.name}: without {problem.name}", file=sys.stderr, flush=True)
            sys.modules[problem.name] = unittest.mock.MagicMock()
    raise SystemExit(f"{point.name} needs too many packages that are not there")


def closure(name):
    """Names of a package and of all that it needs, as far as they are installed."""
    found, due = set(), [canonical(name)]
    while due:
        one = due.pop()
        if one in found:
            continue
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            needs = importlib.metadata.requires(one) or ()
            found.add(one)
            due += [canonical(re.match(r"[\w.-]+", need)[0]) for need in needs if "extra ==" not in need]
    return found


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def privsep_sections(dists):
    """Sections of privilege separation contexts: each has the options of [privsep], and no list names it."""
    found = set()
    for name in dists:
        for file in importlib.metadata.files(name) or ():
            if file.suffix != ".py" or "tests" in file.parts:
                continue
            with contextlib.suppress(OSError, SyntaxError):
                text = file.locate().read_text(errors="replace")
                if "PrivContext(" not in text:
                    continue
                for node in ast.walk(ast.parse(text)):
                    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "PrivContext":
                        found |= {
                            keyword.value.value
                            for keyword in node.keywords
                            if keyword.arg == "cfg_section" and isinstance(keyword.value, ast.Constant)
                        }
    return sorted(found)


def add(options, helps, section, option):
    known = options.setdefault(section, {})
    if option.dest in known or isinstance(option, cfg.SubCommandOpt):
        return
    entry = {"type": type_of(option.type), "default": defaults(option)}
    if option.sample_default is not None:
        entry["sample"] = True
    for flag in ("multi", "secret", "mutable", "required"):
        if getattr(option, flag, False):
            entry[flag] = True
    if option.deprecated_for_removal:
        entry["removal"] = True
        entry["reason"] = " ".join((option.deprecated_reason or "").split())
    if option.deprecated_since:
        entry["since"] = str(option.deprecated_since)
    old = []
    for deprecated in option.deprecated_opts:
        if deprecated.name or deprecated.group:
            pair = [deprecated.group or section, deprecated.name or option.dest]
            if pair not in old and pair != [section, option.dest]:
                old.append(pair)
    if old:
        entry["old"] = old
    known[option.dest] = entry
    text = " ".join((option.help or "").split())
    choices = getattr(option.type, "choices", None)
    if choices and hasattr(choices, "items"):
        text += "".join(f" {choice}: {' '.join(str(why).split())}." for choice, why in choices.items() if why)
    if text:
        helps.setdefault(section, {})[option.dest] = text


def defaults(option):
    """The default as a file would say it, one text for each value; None where there is none."""
    value = option.default if option.sample_default is None else option.sample_default
    if value is None or (option.multi and not value):
        return None
    values = value if option.multi and isinstance(value, list | tuple) else [value]
    return [text_of(one, option.type) for one in values]


def text_of(value, kind=None):
    bounds = getattr(kind, "bounds", False)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        separator = getattr(kind, "key_value_separator", ":")
        text = ",".join(f"{key}{separator}{text_of(one)}" for key, one in sorted(value.items()))
        return f"{{{text}}}" if bounds else text
    if isinstance(value, list | tuple | set | frozenset):
        parts = [text_of(one) for one in value]
        text = ",".join(sorted(parts) if isinstance(value, set | frozenset) else parts)
        return f"[{text}]" if bounds else text
    return str(value)


def type_of(kind):
    if kind is str:
        return {"kind": "String"}
    base = type(kind)
    call = getattr(base, "__call__", None)  # noqa: B004 - which class it comes from
    for ancestor in base.__mro__:
        if ancestor.__module__ == "oslo_config.types" and getattr(ancestor, "__call__", None) is call:  # noqa: B004
            break
    else:
        return {"kind": "Any", "name": getattr(kind, "__name__", base.__name__)}
    entry = {"kind": ancestor.__name__}
    for name in SIMPLE:
        value = getattr(kind, name, None)
        is_set = bool(value) if name not in ("min", "max") else value is not None
        if is_set:
            entry[name] = value
    if ancestor.__name__ == "Range" and not kind.inclusive:
        entry["exclusive"] = True
    entry.pop("inclusive", None)
    if getattr(kind, "choices", None) is not None:
        entry["choices"] = list(kind.choices)
    if getattr(kind, "regex", None) is not None:
        entry["regex"], entry["regex_flags"] = kind.regex.pattern, kind.regex.flags & ~re.UNICODE.value
    if getattr(kind, "item_type", None) is not None:
        entry["item"] = type_of(kind.item_type)
    if getattr(kind, "value_type", None) is not None:
        entry["item"] = type_of(kind.value_type)
        entry["separator"] = getattr(kind, "key_value_separator", ":")
    checker = getattr(getattr(kind, "ip_address", kind), "version_checker", None)
    if checker is not None:
        entry["version"] = {"_check_ipv4": 4, "_check_ipv6": 6}.get(checker.__name__, 0)
    if entry["kind"] == "MultiString":
        entry["kind"] = "String"
    return entry


def policy(rule):
    entry = {"check": rule.check_str if isinstance(rule.check_str, str) else str(rule.check)}
    if rule.scope_types:
        entry["scope"] = list(rule.scope_types)
    # Documented as one rule; some packages give a list, which oslo.policy takes for nothing.
    old = rule.deprecated_rule
    for one in old if isinstance(old, list) else [old] if old is not None else []:
        entry.setdefault("old", []).append(one.name)
        entry["old_check"] = one.check_str
        entry["reason"] = " ".join((one.deprecated_reason or rule.deprecated_reason or "").split())
        entry["since"] = str(one.deprecated_since or rule.deprecated_since or "")
    if rule.deprecated_for_removal:
        entry["removal"] = True
        entry["reason"] = " ".join((rule.deprecated_reason or "").split())
        entry["since"] = str(rule.deprecated_since or "")
    operations = [
        f"{method} {operation['path']}"
        for operation in getattr(rule, "operations", None) or ()
        for method in ([operation["method"]] if isinstance(operation["method"], str) else operation["method"])
    ]
    return entry, {"help": " ".join((rule.description or "").split()), "operations": operations}


main()
