"""Clocks stand still while people are asked: through a client that asks its human, and real sandboxes."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

import pml_approvals.plugin
import pml_cells.plugin
import pml_executor_dag.tool
from pml_executor_dag import Dag
from pml_sandbox_cpython import CPython
from pml_sandbox_deno import Deno
from pml_sandbox_monty import Monty
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = [pytest.mark.anyio, pytest.mark.seed("DRY-20")]
LIMIT_S, THINKS_S = 2.0, 3.0
KILLED_S = 0.3
"""After its limit, code that does not end is gone within this (SBX-6)."""
SCHEMA = {"type": "object"}
TOOLS = [
    {"name": "drop", "inputSchema": SCHEMA, "annotations": {"destructiveHint": True}},
    {"name": "slow", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
]
SANDBOXES: dict[str, tuple[str, type[Any]]] = {
    "deno": ("typescript", Deno),
    "monty": ("python", Monty),
    "cpython": ("python", CPython),
}
CALL = {"typescript": "await tools.db.drop({{}}); {}", "python": "await tools.db.drop({{}})\n{}"}
FOREVER = {"typescript": "while (true);", "python": "while True:\n    pass"}


async def answer(name: str, _arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "slow":
        await asyncio.sleep(THINKS_S)
    return {"content": [{"type": "text", "text": "done"}]}


@asynccontextmanager
async def asking(**executors: type[Any]):
    """A client whose human thinks for longer than any limit here, and what is called."""
    plugins: dict[tuple[str, str], Any] = {
        ("executor", "dag"): Dag,
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "approvals"): pml_approvals.plugin,
        ("hooks", "cells"): pml_cells.plugin,
        **{("executor", name): driver for name, driver in executors.items()},
    }
    named = {"code.python": "cpython"} if "cpython" in executors else {}
    server = ScriptedServer(TOOLS, answer)
    async with running({"db": server}, plugins=plugins, executors=named) as gateway:
        client = Client(gateway)
        await client.initialize({"elicitation": {}})

        async def thinks(_params: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(THINKS_S)
            return {"action": "accept", "content": {"approve": True}}

        client.peer.others["elicitation/create"] = thinks
        yield client, server


async def plan(client: Client, *tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    said = await client.call("execute_workflow", {"workflow": {"tasks": list(tasks), **more}})
    told: dict[str, Any] = said["structuredContent"]
    return told


def code(language: str, source: str, **more: Any) -> dict[str, Any]:
    return {"id": "code", "type": "code_execution", "language": language, "code": source, **more}


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_code_whose_call_waits_for_an_approval_longer_than_its_limit_ends_well(sandbox):
    language, driver = SANDBOXES[sandbox]
    async with asking(**{sandbox: driver}) as (client, server):
        told = await plan(client, code(language, CALL[language].format("return 7"), timeout_s=LIMIT_S))
    assert [(task["status"], task.get("result")) for task in told["tasks"]] == [("ok", 7)], told
    assert [name for name, _ in server.calls] == ["drop"]


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_code_that_never_ends_after_its_approval_is_killed_in_time(sandbox):
    language, driver = SANDBOXES[sandbox]
    async with asking(**{sandbox: driver}) as (client, server):
        await plan(client, code(language, "return 1"))  # so that nothing has to start meanwhile
        began = time.monotonic()
        told = await plan(client, code(language, CALL[language].format(FOREVER[language]), timeout_s=LIMIT_S))
        took_s = time.monotonic() - began
    assert [task["error"]["code"] for task in told["tasks"]] == ["code.timed_out"]
    assert THINKS_S + 0.5 * LIMIT_S < took_s < THINKS_S + LIMIT_S + KILLED_S + 0.5
    assert [name for name, _ in server.calls] == ["drop"]


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_the_time_of_a_slow_tool_counts(sandbox):
    language, driver = SANDBOXES[sandbox]
    source = CALL[language].format("return 7").replace("drop", "slow")
    async with asking(**{sandbox: driver}) as (client, _):
        told = await plan(client, code(language, source, timeout_s=LIMIT_S))
    assert [task["error"]["code"] for task in told["tasks"]] == ["code.timed_out"]


@pytest.mark.parametrize("where", ["task", "plan", "nested plan"])
async def test_a_task_that_waits_for_an_approval_longer_than_its_limit_ends_well(where):
    drop = {"id": "drop", "tool": "db:drop", **({"timeout_s": LIMIT_S} if where == "task" else {})}
    nested = {"id": "inner", "type": "workflow", "timeout_s": LIMIT_S, "tasks": [drop]}
    limits = {"timeout_s": LIMIT_S} if where == "plan" else {}
    async with asking() as (client, server):
        told = await plan(client, nested if where == "nested plan" else drop, **limits)
    assert told["status"] == "completed", told
    assert len(server.calls) == 1


@pytest.mark.parametrize("where", ["task", "plan"])
async def test_a_limit_counts_what_comes_after_the_approval(where):
    tasks = [
        {"id": "drop", "tool": "db:drop"},
        {
            "id": "slow",
            "tool": "db:slow",
            "depends_on": ["drop"],
            **({"timeout_s": LIMIT_S} if where == "task" else {}),
        },
    ]
    async with asking() as (client, _):
        told = await plan(client, *tasks, **({"timeout_s": LIMIT_S} if where == "plan" else {}))
    assert [task["status"] for task in told["tasks"]] == ["ok", "timed_out"]


async def test_code_in_code_in_a_plan_with_limits_everywhere_waits(tmp_path):
    """Each clock is of another execution, and all stand still."""
    inner = {"workflow": {"timeout_s": LIMIT_S, "tasks": [{"id": "drop", "tool": "db:drop", "timeout_s": LIMIT_S}]}}
    source = f"return (await tools.pml.execute_workflow({inner!r}))['status']"
    async with asking(monty=Monty) as (client, server):
        told = await plan(client, code("python", source, timeout_s=LIMIT_S), timeout_s=LIMIT_S)
    assert [task.get("result") for task in told["tasks"]] == ["completed"], told
    assert len(server.calls) == 1
