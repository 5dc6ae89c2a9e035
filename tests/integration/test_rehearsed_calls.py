"""``call_tool`` with ``dry_run``, as clients send it."""

from __future__ import annotations

import pytest

import pml_dry_run.plugin
import pml_executor_dag.tool
import pml_search_tools.plugin
from pml_executor_dag import Dag
from pml_hookspecs import encode
from pml_search_tools.definitions import CALL_TOOL, SEARCH_TOOLS
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
PLUGINS = {
    ("executor", "dag"): Dag,
    ("hooks", "workflow_tool"): pml_executor_dag.tool,
    ("hooks", "search_tools"): pml_search_tools.plugin,
    ("hooks", "dry_run"): pml_dry_run.plugin,
}


@pytest.mark.parametrize(("asked", "calls"), [({"dry_run": True}, 0), ({"dry_run": False}, 1), ({}, 1)])
async def test_a_call_through_call_tool_can_be_rehearsed(asked, calls):
    server = ScriptedServer(["write"])
    async with running({"fs": server}, plugins=PLUGINS) as gateway:
        client = Client(gateway)
        await client.initialize()
        answer = await client.call("call_tool", {"name": "fs:write", "arguments": {"path": "a"}, **asked})
    assert not answer.get("isError")
    assert len(server.calls) == calls


async def test_a_call_inside_a_rehearsed_plan_stays_one():
    server = ScriptedServer(["write"])
    async with running({"fs": server}, plugins=PLUGINS) as gateway:
        client = Client(gateway)
        await client.initialize()
        inner = {"id": "a", "tool": "pml:call_tool", "arguments": {"name": "fs:write", "dry_run": False}}
        await client.call("execute_workflow", {"dry_run": True, "workflow": {"tasks": [inner]}})
    assert server.calls == []


def test_the_three_listed_tools_cost_less_than_400_tokens():
    definitions = [SEARCH_TOOLS, CALL_TOOL, pml_executor_dag.tool.DEFINITION]
    assert sum(len(encode(one)) for one in definitions) / 4 <= 400
