"""What a configuration file says to the process that reads it, however it is written: what rolls pods when it changes.

Called by `config`. Comments, blank lines, the order of options and sections, and values that a later one replaces are
nothing to the process, and so nothing here.
"""

from __future__ import annotations

from openstack_operator.kit import catalogues, config_text, custom_config

Content = dict[str, list[str]] | list[str]
"""Values by ``section/option``, or the lines that are no comments where a file is not in oslo.config's format."""


def content(text: str, service: str, release: str) -> Content:
    """What a service of a release reads from a file.

    The last value of an option counts, all of them in their order where it takes several, under its present name where
    a former one was used. Of an option that the catalogue does not have all values count, because it may take several.
    Without a catalogue (``service`` empty, or none of that name) no option is known.
    """
    try:
        parsed = config_text.parse(text)
    except config_text.UnreadableError:
        return lines(text)
    catalogue = catalogues.load(service, release) if service else None
    found: dict[str, list[str]] = {}
    if catalogue is None:
        for one in parsed.assignments:
            found.setdefault(_place(one.section, one.key), []).append(one.value)
        return found
    reader = custom_config.Reader(catalogue, parsed)
    for (section, name), assignments in reader.counted().items():
        found[_place(section, name)] = [one.value for one in assignments]
    return found


def mutable(found: Content, rows: Content, service: str, release: str) -> dict[str, list[str]]:
    """The part of ``found`` that users set and that the release marks as mutable: values by ``section/option``.

    What ``rows`` set themselves stays out: whether it is there must not depend on a text that stands beside it.
    """
    catalogue = catalogues.load(service, release) if service else None
    if catalogue is None or isinstance(found, list):
        return {}
    result = {}
    for place, values in found.items():
        section, _, name = place.rpartition("/")
        option = catalogue.find(section, name)
        if option is not None and option.mutable and place not in rows:
            result[place] = values
    return result


def lines(text: str) -> list[str]:
    """The lines of a file that are no comments, without the blanks at their ends."""
    return [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith(("#", ";"))]


def _place(section: str, name: str) -> str:
    return f"{catalogues.normal(section)}/{name}"
