"""``pml serve`` in a process of its own, and the official SDK's client."""

from __future__ import annotations

import json
import os
import sys

import pytest
from mcp import Client, StdioServerParameters, stdio_client

pytestmark = pytest.mark.anyio


async def test_an_agent_makes_a_notebook_and_runs_it(tmp_path) -> None:
    environment = {"PML_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    arguments = ["-m", "pml_core", "serve", "--set", "plugins.cells.listed=true"]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=tmp_path)
    failure: Exception | None = None
    with (tmp_path / "log").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), read_timeout_seconds=30) as client:
            try:
                await visit(client)
            except Exception as exc:  # kept out of the SDK's task groups, which would wrap it
                failure = exc
    if failure is not None:
        raise failure


async def visit(client: Client) -> None:
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert listed["cell_execute"].description == "Execute a notebook cell and return the result"
    assert listed["cell_execute"].input_schema["required"] == ["sessionId", "cellId"]
    made = await client.call_tool("notebook_create", {"title": "Served"})
    session = made.structured_content["sessionId"]

    async def execute(cell: str, **more: float) -> tuple[dict, bool]:
        answer = await client.call_tool("cell_execute", {"sessionId": session, "cellId": cell, **more})
        return json.loads(answer.content[0].text), bool(answer.is_error)

    async def add(source: str) -> str:
        answer = await client.call_tool("cell_create", {"sessionId": session, "source": source})
        return answer.structured_content["cell"]["id"]

    told, failed = await execute(await add('console.log("test output"); Deno.exit(4)'))
    assert (told["stdout"], told["exitCode"], failed) == ("test output\n", 4, False)
    told, failed = await execute(await add("while (true) {}"), timeout=1000)
    assert (told["exitCode"], failed) == (124, False)
    assert told["executionTime"] >= 1000
    told, failed = await execute("nope")
    assert (told["exitCode"], failed) == (1, True)
    assert told["stderr"].startswith("Error: CELL_NOT_FOUND - ")
