"""A tool that its server's table denies is called by nobody: not directly, by ``call_tool``, in a plan or by code."""

from __future__ import annotations

import json
from typing import Any

import pytest

import pml_executor_dag.tool
import pml_search_tools.plugin
from pml_catalog.exposure.tool_rules import ToolRules
from pml_executor_dag import Dag
from pml_sandbox_deno import Deno
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
PLUGINS: dict[tuple[str, str], Any] = {
    ("executor", "dag"): Dag,
    ("executor", "deno"): Deno,
    ("hooks", "workflow_tool"): pml_executor_dag.tool,
    ("hooks", "search_tools"): pml_search_tools.plugin,
}
ARGUMENTS = {"path": "x"}
PLAN = {"tasks": [{"id": "t", "tool": "fs:drop", "arguments": ARGUMENTS}]}
CODE = {
    "id": "c",
    "type": "code_execution",
    "language": "typescript",
    "code": "return await tools.fs.drop({path: 'x'})",
}


@pytest.mark.attack(
    "A key has its scope, and knows of nothing else", "have a tool called that its server's table denies"
)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fs__drop", ARGUMENTS),
        ("drop", ARGUMENTS),
        ("call_tool", {"name": "fs:drop", "arguments": ARGUMENTS}),
        ("execute_workflow", {"workflow": PLAN}),
        ("execute_workflow", {"workflow": {"tasks": [CODE]}}),
    ],
    ids=["direct", "bare", "call_tool", "plan", "code"],
)
@pytest.mark.parametrize("rules", [ToolRules(deny=("dr*",)), ToolRules(allow=("read",))])
async def test_whoever_calls_it_is_refused(name: str, arguments: dict[str, Any], rules: ToolRules) -> None:
    server = ScriptedServer(["read", "drop"])
    async with running({"fs": server}, plugins=PLUGINS, settings={"tools": rules}) as gateway:
        client = Client(gateway)
        await client.initialize()
        answer = json.dumps(await client.call(name, arguments))
        assert "[servers.fs] tools" in answer
        found = json.dumps(await client.call("search_tools", {"query": "drop"}))
    assert "fs__drop" not in found
    assert server.calls == []
