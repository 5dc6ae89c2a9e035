"""Learned code and schedules in the console: what is told of them to whom, and what operators switch."""

from __future__ import annotations

import asyncio
import re

import pytest
from console_browser import TOOLS, Browser, run, served

import pml_capabilities.plugin
import pml_schedules.plugin
from pml_capabilities import Capabilities
from pml_capabilities.library import COLLECTION
from pml_hookspecs import CapabilityRun, CodeRun
from pml_sandbox_monty import Monty
from pml_store_sqlite import SqliteStore
from pml_testing.dispatching import InOrder
from pml_testing.gateway import ScriptedServer

pytestmark = pytest.mark.anyio
PLUGINS = {
    ("executor", "in_order"): InOrder,
    ("executor", "capabilities"): Capabilities,
    ("executor", "monty"): Monty,
    ("hooks", "capabilities"): pml_capabilities.plugin,
    ("hooks", "schedules"): pml_schedules.plugin,
    ("store", "sqlite"): SqliteStore,
}
SCHEDULES = {
    "hourly": {"every_s": 3600, "tool": "db:read", "arguments": {"path": "/ada"}, "principal": "ada"},
    "nightly": {"cron": "0 3 * * *", "tool": "db:read", "principal": "bob"},
}


def gateway_of(tmp_path, server=None, schedules=SCHEDULES):
    tables = {"sqlite": {"path": str(tmp_path / "pml.db")}, "schedules": {"schedules": schedules, "look_s": 0.2}}
    return served(server, plugins=PLUGINS, tables=tables)


async def reader(made, key):
    browser = Browser(made)
    await browser.log_in(key)
    return browser


async def eventually(condition):
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.02)


async def learned(made):
    """The id of what is learned of one run by Ada."""
    await run(made, CodeRun(id="c", language="python", source="return 6 * 7", intent="multiply well"), "k-ada")

    async def there():
        return (await made.gateway.store.documents.find(COLLECTION)).items

    await eventually(there)
    return (await there())[0].key


async def test_pages_say_what_to_do_where_there_is_nothing(tmp_path):
    async with served() as made:
        ada = await reader(made, "k-ada")
        assert "install <code>pml-capabilities</code>" in await ada.page("/capabilities")
        assert "install <code>pml-schedules</code>" in await ada.page("/schedules")
    async with gateway_of(tmp_path, schedules={}) as made:
        ada = await reader(made, "k-ada")
        assert "Nothing was learned yet" in await ada.page("/capabilities")
        assert "makes a schedule" in await ada.page("/schedules")


async def test_learned_code_is_told_of_to_whom_it_belongs_and_to_operators(tmp_path):
    async with gateway_of(tmp_path) as made:
        id = await learned(made)
        for key, sees in (("k-ada", True), ("k-bob", False), ("k-chief", True)):
            browser = await reader(made, key)
            assert ("multiply well" in await browser.page("/capabilities")) is sees
            page = await browser.page(f"/capabilities/{id}", 200 if sees else 400)
            assert ("return 6 * 7" in page) is sees


async def test_an_operator_switches_learned_code_off_and_on_and_nobody_else_does(tmp_path):
    async with gateway_of(tmp_path) as made:
        id = await learned(made)
        ada, boss = await reader(made, "k-ada"), await reader(made, "k-chief")
        assert 'name="switch"' not in await ada.page("/capabilities")
        assert "lacks the scope" in (await ada.send(f"/capabilities/{id}", switch="off")).text
        assert "switch off" in await boss.page("/capabilities")
        assert "switch on" in (await boss.send(f"/capabilities/{id}", switch="off")).text
        task = CapabilityRun(id="r", capability_id=id, inputs={})
        assert (await run(made, task, "k-ada")).failure is not None
        await boss.send(f"/capabilities/{id}", switch="on")
        assert (await run(made, task, "k-ada")).failure is None


async def test_schedules_show_to_whom_they_run_for_with_their_next_times(tmp_path):
    async with gateway_of(tmp_path) as made:
        ada, boss = await reader(made, "k-ada"), await reader(made, "k-chief")
        page = await ada.page("/schedules")
        assert "hourly" in page
        assert "nightly" not in page
        assert page.count("<time ") == 3
        assert "0 3 * * * (UTC)" in await boss.page("/schedules")


async def test_an_operator_pauses_resumes_and_runs_a_schedule_and_nobody_else_does(tmp_path):
    server = ScriptedServer(TOOLS)
    async with gateway_of(tmp_path, server) as made:
        ada, boss = await reader(made, "k-ada"), await reader(made, "k-chief")
        assert 'name="action"' not in await ada.page("/schedules")
        for action in ("pause", "run_now"):
            assert "lacks the scope" in (await ada.send("/schedules/hourly", action=action)).text
        assert "paused" not in await boss.page("/schedules")
        assert "paused" in (await boss.send("/schedules/hourly", action="pause")).text
        assert "paused" not in (await boss.send("/schedules/hourly", action="resume")).text
        assert (await boss.send("/schedules/hourly", action="erase")).status_code == 400
        assert (await boss.send("/schedules/nothing", action="pause")).status_code == 400
        await boss.send("/schedules/hourly", action="run_now")

        async def ended():
            return '<span class="status ok">' in await ada.page("/schedules")

        await eventually(ended)
        assert server.calls == [("read", {"path": "/ada"})]
        (id,) = set(re.findall(r'/console/executions/([^"]+)"', await ada.page("/schedules")))
        assert "db:read" in await ada.page(f"/executions/{id}")
