"""A service's first migrations that were cut off, by a real MariaDB and a real Keystone: see `kit/first_sync.py`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import containers
import pytest
from test_controlplane import INFRASTRUCTURE, only
from test_servers import execute, real  # noqa: F401 - a fixture
from world import decoded

from openstack_operator.kit import first_sync
from openstack_operator.kit import kinds as ours
from openstack_operator.runtime import kinds

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(containers.OPENSTACK is None, reason="no image of 2026.1: run `./up --until images`"),
]

# What is there when the first migration was cut off at its second table.
CUT_OFF = (
    "CREATE DATABASE keystone",
    f"CREATE TABLE keystone.{first_sync.MARK} (since TIMESTAMP)",
    "CREATE TABLE keystone.alembic_version (version_num VARCHAR(32))",
    "CREATE TABLE keystone.project (id VARCHAR(64) PRIMARY KEY)",
    "CREATE TABLE keystone.federated_user (id VARCHAR(64) REFERENCES project (id))",
)


async def test_first_migrations_that_were_cut_off_are_run_again_and_later_ones_keep_the_data(
    real: Any,  # noqa: F811
) -> None:
    services = ("openstackcontrolplane", *INFRASTRUCTURE, "keystone")
    small = {"bufferPoolMebibytes": 16}
    async with real.operator(*services):
        await real.create(ours.CONTROL_PLANE, "cloud", only(*INFRASTRUCTURE, mariadb=small))
        await real.until_ready(ours.CONTROL_PLANE, "cloud")
        root = decoded(await real.get(kinds.SECRET, "mariadb-root"))["password"]

        async def ask(statement: str) -> Any:
            return await asyncio.to_thread(execute, "root", root, statement)

        async def tables() -> set[str]:
            return {name for (name,) in await ask("SHOW TABLES IN keystone")}

        for statement in CUT_OFF:
            await ask(statement)
        await real.patch(ours.CONTROL_PLANE, "cloud", {"spec": {"keystone": {"enabled": True}}})
        await real.until_ready(ours.KEYSTONE, "keystone")
        found = await tables()
        assert len(found) > 40
        assert first_sync.MARK not in found
        assert await ask("SELECT version_num FROM keystone.alembic_version")
        assert "domain_id" in {row[0] for row in await ask("SHOW COLUMNS IN keystone.project")}

        # The same Job again, for another password: what is in the schema stays.
        users = await ask("SELECT id FROM keystone.user")
        admin = decoded(await real.get(kinds.SECRET, "keystone-admin"))["password"]
        assert users
        jobs = {job["metadata"]["name"] for job in await real.all(kinds.JOB)}
        await real.secret("mine", password="another")
        change = {"spec": {"keystone": {"adminPasswordSecretRef": {"name": "mine"}}}}
        await real.patch(ours.CONTROL_PLANE, "cloud", change)
        await real.until(kinds.SECRET, lambda item: decoded(item)["password"] not in (admin, ""), "keystone-admin")
        await real.until_ready(ours.KEYSTONE, "keystone")
        assert {job["metadata"]["name"] for job in await real.all(kinds.JOB)} != jobs
        assert await ask("SELECT id FROM keystone.user") == users
        assert await tables() == found
