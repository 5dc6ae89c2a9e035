"""A real gateway with a real store begins what is due, through the same chain as clients' calls."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from pml_executor_dag import Dag
from pml_executor_dag import tool as workflow_tool
from pml_hookspecs import Identity, hookimpl
from pml_kit.errors import OperatorError
from pml_schedules import plugin
from pml_schedules.ledger import ENDED, Ledger
from pml_schedules.runs import EVERYONE
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
QUICK = {"every_s": 1, "max_runs": 1}


class Filter:
    """Keeps ``s:secret`` from everyone but ada."""

    @staticmethod
    @hookimpl
    def pml_filter_tools(services):
        return [lambda entry, session: entry.name != "secret" or session.principal == "ada"]


@asynccontextmanager
async def gateway(tmp_path, server=None, **schedules):
    server = server or ScriptedServer(["read", "secret"])
    plugins = {
        ("store", "sqlite"): SqliteStore,
        ("executor", "dag"): Dag,
        ("hooks", "workflow_tool"): workflow_tool,
        ("hooks", "schedules"): plugin,
        ("hooks", "filter"): Filter,
    }
    tables = {"sqlite": {"path": str(tmp_path / "pml.db")}, "schedules": {"look_s": 0.05, "schedules": schedules}}
    async with running({"s": server}, plugins=plugins, tables=tables, store="sqlite") as running_gateway:
        yield running_gateway


async def the_run(gateway):
    """The record of the only run, when it has ended."""
    ledger = Ledger(gateway.store.documents, timedelta(days=1))
    async with asyncio.timeout(10):
        while not (claims := await ledger.claims({"state": ENDED})):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)
    record = await gateway.store.executions.get(claims[0].execution, EVERYONE)
    assert claims[0].status == record.status
    return record


async def test_a_workflow_runs_at_its_time(tmp_path):
    plan = {
        "tasks": [
            {"id": "a", "tool": "s:read", "arguments": {"n": 1}},
            {"id": "b", "tool": "s:read", "depends_on": ["a"]},
        ]
    }
    server = ScriptedServer(["read"])
    async with gateway(
        tmp_path, server, report={**QUICK, "workflow": {"workflow": plan}, "principal": "ada", "intent": "see"}
    ) as one:
        record = await the_run(one)
    assert (record.kind, record.status, record.trigger, record.schedule) == ("workflow", "ok", "schedule", "report")
    assert (record.principal, record.intent) == ("ada", "see")
    assert [name for name, _ in server.calls] == ["read", "read"]


@pytest.mark.parametrize(
    ("schedule", "code", "message"),
    [
        ({"agent": "nobody", "message": "hello"}, "tool.not_connected", "agents"),
        ({"tool": "nowhere:read"}, "tool.not_connected", "nowhere"),
        ({"capability": "cap-1"}, "executor.missing", "capability"),
        ({"workflow": {"tasks": [{"id": "a", "tool": "s:read", "depends_on": ["z"]}]}}, "arguments.invalid", "'z'"),
        ({"workflow": "/nowhere/plan.json"}, "schedule.failed", "No such file"),
    ],
)
async def test_what_cannot_run_is_a_failed_execution(tmp_path, schedule, code, message):
    async with gateway(tmp_path, a={**QUICK, **schedule}) as one:
        record = await the_run(one)
    assert (record.status, record.failure.code, record.trigger, record.schedule) == ("error", code, "schedule", "a")
    assert message in record.failure.message


@pytest.mark.parametrize(("principal", "status"), [("ada", "ok"), ("eve", "denied")])
async def test_a_run_may_do_what_its_principal_may(tmp_path, principal, status):
    server = ScriptedServer(["read", "secret"])
    async with gateway(tmp_path, server, a={**QUICK, "tool": "s:secret", "principal": principal}) as one:
        record = await the_run(one)
    assert record.status == status
    assert len(server.calls) == (status == "ok")


async def test_a_run_that_takes_too_long_is_stopped(tmp_path):
    async def forever(_name, _arguments):
        await asyncio.Event().wait()

    async with gateway(
        tmp_path, ScriptedServer(["read"], forever), a={**QUICK, "tool": "s:read", "timeout_s": 0.3}
    ) as one:
        record = await the_run(one)
    assert record.status == "cancelled"


async def test_runs_of_one_schedule_do_not_overlap(tmp_path):
    under_way = most = 0

    async def slow(_name, _arguments):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(1.2)
        under_way -= 1
        return {"content": []}

    server = ScriptedServer(["read"], slow)
    async with gateway(tmp_path, server, a={"every_s": 1, "tool": "s:read", "overlap": "queue"}) as one:
        async with asyncio.timeout(15):
            while len(server.calls) < 3:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)
        assert one.supervisor.health["schedules"] == "up"
    assert most == 1


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ({"cron": "0 25 * * *", "tool": "s:read"}, "cron: field 2 of '0 25 .*', the hour: '25'"),
        ({"cron": "0 2 * * *", "time_zone": "Europe/Berln", "tool": "s:read"}, "did you mean 'Europe/Berlin'"),
        ({"tool": "s:read"}, "give either cron or every_s"),
        ({"every_s": 5, "cron": "* * * * *", "tool": "s:read"}, "give either cron or every_s"),
        ({"every_s": 0.5, "tool": "s:read"}, "1 is the least"),
        ({"every_s": 5}, "give exactly one of workflow, agent, capability, tool, not none"),
        ({"every_s": 5, "tool": "a", "agent": "b"}, "not agent and tool"),
        ({"every_s": 5, "agent": "b"}, "message: is missing"),
        ({"every_s": 5, "tool": "b", "message": "x"}, "message: means nothing for a tool; it belongs to agent"),
        ({"every_s": 5, "workflow": {"task": []}}, "has neither workflow nor tasks nor intent"),
        ({"every_s": 5, "tool": "b", "overlap": "sometimes"}, "overlap"),
        ({"every_s": 5, "tool": "b", "start": "2026-01-02", "until": "2026-01-01T00:00Z"}, "must be later than start"),
        ({"every_s": 5, "tool": "b", "jitter": 5}, "jitter"),
        ({"every_s": 5, "tool": "b", "scopes": ["x", "system"]}, "scopes: 'system' is what keys made with"),
    ],
)
async def test_a_wrong_table_stops_the_start_and_says_where_and_why(tmp_path, schedule, message):
    with pytest.raises(OperatorError, match=rf"(?s)plugins\.schedules\.schedules\.a.*{message}"):
        async with gateway(tmp_path, a=schedule):
            pass


async def test_clients_see_no_tool_of_it(tmp_path):
    async with gateway(tmp_path) as one:
        client = Client(one)
        await client.initialize()
        assert not [name for name in await client.tools() if "schedule" in name]


def test_identity_is_that_of_the_schedule():
    from pml_schedules.plan import plan_of
    from pml_schedules.settings import Schedule, Settings

    schedule = Schedule(every_s=5, tool="s:read", scopes=("approve",))
    plan = plan_of("a", schedule, Settings(principal="robot"), declared=True)
    assert plan.identity == Identity(principal="robot", scopes=frozenset({"approve"}))
