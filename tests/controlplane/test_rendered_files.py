"""Every configuration file that the operator renders fits the options of every release that it knows."""

from __future__ import annotations

import pytest

from openstack_operator.kit import custom_config, effective, ini, releases
from openstack_operator.kit.service import File
from openstack_operator.services import SERVICES
from rendered import Facts, specs

FILES = [
    pytest.param(service.name, file, id=f"{file.kind.resource.kind}-{file.name}")
    for service in SERVICES
    for file in service.files
]


@pytest.mark.parametrize("release", releases.available())
@pytest.mark.parametrize(("service", "file"), FILES)
def test_a_rendered_file_has_no_unknown_no_outdated_and_no_wrong_option(service: str, file: File, release: str) -> None:
    """Regression r11."""
    wanted = specs(file)
    assert wanted, "a sample shows the kind"
    for spec in (one.model_copy(update={"openstack_release": release}) for one in wanted):
        rendered = ini.render(releases.load(release).rows(file.rows(spec)), spec, Facts())
        found = custom_config.check(rendered.public + rendered.secret, service, release, field=file.name)
        assert [str(one) for one in found] == []


@pytest.mark.parametrize("release", releases.available())
@pytest.mark.parametrize(("service", "file"), FILES)
def test_rows_say_each_option_once_and_by_its_present_name(service: str, file: File, release: str) -> None:
    """So that a file without users' text has the same hash whether the catalogue was asked or not."""
    for spec in (one.model_copy(update={"openstack_release": release}) for one in specs(file)):
        rendered = ini.render(releases.load(release).rows(file.rows(spec)), spec, Facts())
        text = rendered.public + rendered.secret
        assert effective.content(text, service, release) == effective.content(text, "", release)
