"""``select`` of ``call_tool`` and of plans, as clients send it."""

from __future__ import annotations

import asyncio
import json

import pytest

from pml_executor_dag import Dag
from pml_executor_dag import tool as workflow_tool
from pml_hookspecs import CapabilityRun, MetaTool, hookimpl
from pml_mcp.clients.mcp_tasks import EXTENSION
from pml_results import plugin as results
from pml_search_tools import plugin as search_tools
from pml_testing.dispatching import Code
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
PLUGINS = {
    ("executor", "dag"): Dag,
    ("hooks", "workflow_tool"): workflow_tool,
    ("hooks", "results"): results,
    ("hooks", "search_tools"): search_tools,
}


async def rows(name, arguments):
    value = {"rows": [{"n": n, "about": "x" * 100} for n in range(3)]}
    return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("call_tool", {"name": "db:rows", "select": "rows[].n"}, [0, 1, 2]),
        ("execute_workflow", {"workflow": {"tasks": [{"id": "a", "tool": "db:rows", "select": "rows[1].n"}]}}, 1),
        ("execute_workflow", {"workflow": {"tasks": [{"id": "a", "tool": "db:rows"}], "select": "a.rows[2].n"}}, 2),
    ],
    ids=["call_tool", "a task", "a plan"],
)
async def test_a_client_is_answered_what_it_selects(name, arguments, result):
    async with running({"db": ScriptedServer(["rows"], rows)}, plugins=PLUGINS) as gateway:
        client = Client(gateway)
        await client.initialize()
        answer = await client.call(name, arguments)
    told = value_of(answer)
    assert "about" not in json.dumps(answer)
    if name == "call_tool":
        assert told == result
    elif "select" in arguments["workflow"]:
        assert (told["status"], told["result"]) == ("completed", result)
    else:
        assert told == {"status": "completed", "tasks": [{"id": "a", "status": "ok", "result": result}]}


SCHEMA = {"type": "object"}


class Publisher:
    """A capability, as a tool that is searched for and called as those of servers."""

    @staticmethod
    @hookimpl
    def pml_meta_tools(services):
        def task(arguments):
            return CapabilityRun(id="report", capability_id="report", source="report")

        services.publish("made", [MetaTool(definition={"name": "report", "inputSchema": SCHEMA}, task=task)])
        return []


class Reports(Code):
    async def execute(self, task, run):
        return outcome(task.id, {"rows": [{"n": 7}], "about": "x" * 100})


@pytest.mark.parametrize(("select", "answered"), [("rows[0].n", "7"), ("abs(rows)", None)])
async def test_a_capability_is_answered_as_it_is_selected(select, answered):
    plugins = {**PLUGINS, ("executor", "reports"): Reports, ("hooks", "published"): Publisher}
    async with running({"db": ScriptedServer(["rows"], rows)}, plugins=plugins) as gateway:
        client = Client(gateway, modern=True)
        asked = {"name": "made:report", "select": select}
        (block,) = (await client.call("call_tool", asked))["content"]
    if answered is None:
        assert "Nothing was selected: select " in block["text"]
        assert "about" in block["text"]
    else:
        assert block["text"] == answered


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"return": "all"},
        {"return": ["a"]},
        {"select": "{first: a.rows[0].n, last: b.rows[2].n}"},
    ],
    ids=["the last", "all", "named", "selected"],
)
async def test_a_plan_in_the_background_is_answered_as_one_that_is_waited_for(asked):
    tasks = [
        {"id": "a", "tool": "db:rows"},
        {"id": "b", "tool": "db:rows", "depends_on": ["a"]},
        {"id": "c", "type": "workflow", "tasks": [{"id": "x", "tool": "db:rows", "select": "rows[].n"}]},
    ]
    request = {"workflow": {"tasks": tasks, **asked}}
    async with running({"db": ScriptedServer(["rows"], rows)}, plugins=PLUGINS) as gateway:
        client = Client(gateway, modern=True, capabilities={"extensions": {EXTENSION: {}}})
        waited = await client.call("execute_workflow", request)
        begun = await client.call("execute_workflow", {**request, "async": True})
        assert begun["resultType"] == "task"
        told = {"status": "working"}
        async with asyncio.timeout(60):
            while told["status"] == "working":
                await asyncio.sleep(0.02)
                told = await client.request("tasks/get", {"taskId": begun["taskId"]})
    assert timeless(value_of(told["result"])) == timeless(value_of(waited))


def timeless(told):
    """Without how long tasks took."""
    if isinstance(told, list):
        return [timeless(one) for one in told]
    if not isinstance(told, dict):
        return told
    return {name: timeless(member) for name, member in told.items() if name != "duration_ms"}
