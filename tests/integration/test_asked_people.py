"""Clocks stand still while people are asked: through a client that asks its human, and real sandboxes.

What takes long here moves the clock on instead of waiting. Limits are longer than any of this takes.
"""

from __future__ import annotations

import asyncio
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
from pml_testing.fixtures_clock import FrozenClock
from pml_testing.gateway import Client, ScriptedServer, running, until, value_of

pytestmark = pytest.mark.anyio
LIMIT_S, THINKS_S = 40.0, 50.0
"""Less than the time that a server has for a call, and a person for an answer [s]."""
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


async def goes_by(clock: FrozenClock, time_s: float) -> None:
    """Let the time go by, and what is due then happen before anything else does."""
    clock.advance(time_s)
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def asking(clock: FrozenClock, **executors: type[Any]):
    """A client whose human thinks for longer than any limit here, and what is called."""

    async def answer(name: str, _arguments: dict[str, Any]) -> dict[str, Any]:
        if name == "slow":
            await goes_by(clock, THINKS_S)
        return {"content": [{"type": "text", "text": "done"}]}

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
            await goes_by(clock, THINKS_S)
            return {"action": "accept", "content": {"approve": True}}

        client.peer.others["elicitation/create"] = thinks
        yield client, server


async def plan(client: Client, *tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    said = await client.call("execute_workflow", {"workflow": {"tasks": list(tasks), **more}})
    told: dict[str, Any] = value_of(said)
    return told


def code(language: str, source: str, **more: Any) -> dict[str, Any]:
    return {"id": "code", "type": "code_execution", "language": language, "code": source, **more}


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_code_whose_call_waits_for_an_approval_longer_than_its_limit_ends_well(sandbox, frozen_clock):
    language, driver = SANDBOXES[sandbox]
    async with asking(frozen_clock, **{sandbox: driver}) as (client, server):
        told = await plan(client, code(language, CALL[language].format("return 7"), timeout_s=LIMIT_S))
    assert [(task["status"], task.get("result")) for task in told["tasks"]] == [("ok", 7)], told
    assert [name for name, _ in server.calls] == ["drop"]


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_code_that_never_ends_after_its_approval_is_killed_when_its_time_is_over(sandbox, frozen_clock):
    language, driver = SANDBOXES[sandbox]
    async with asking(frozen_clock, **{sandbox: driver}) as (client, server):
        endless = code(language, CALL[language].format(FOREVER[language]), timeout_s=LIMIT_S)
        planned = asyncio.ensure_future(plan(client, endless))
        await until(lambda: server.calls or planned.done(), within_s=10 * THINKS_S)
        await goes_by(frozen_clock, 0.5 * LIMIT_S)
        assert not planned.done()
        await goes_by(frozen_clock, 0.5 * LIMIT_S)
        told = await planned
    assert [task["error"]["code"] for task in told["tasks"]] == ["code.timed_out"]
    assert [name for name, _ in server.calls] == ["drop"]


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_the_time_of_a_slow_tool_counts(sandbox, frozen_clock):
    language, driver = SANDBOXES[sandbox]
    source = CALL[language].format("return 7").replace("drop", "slow")
    async with asking(frozen_clock, **{sandbox: driver}) as (client, _):
        told = await plan(client, code(language, source, timeout_s=LIMIT_S))
    assert [task["error"]["code"] for task in told["tasks"]] == ["code.timed_out"]


@pytest.mark.parametrize("where", ["task", "plan", "nested plan"])
async def test_a_task_that_waits_for_an_approval_longer_than_its_limit_ends_well(where, frozen_clock):
    drop = {"id": "drop", "tool": "db:drop", **({"timeout_s": LIMIT_S} if where == "task" else {})}
    nested = {"id": "inner", "type": "workflow", "timeout_s": LIMIT_S, "tasks": [drop]}
    limits = {"timeout_s": LIMIT_S} if where == "plan" else {}
    async with asking(frozen_clock) as (client, server):
        told = await plan(client, nested if where == "nested plan" else drop, **limits)
    assert told["status"] == "completed", told
    assert len(server.calls) == 1


@pytest.mark.parametrize("where", ["task", "plan"])
async def test_a_limit_counts_what_comes_after_the_approval(where, frozen_clock):
    tasks = [
        {"id": "drop", "tool": "db:drop"},
        {
            "id": "slow",
            "tool": "db:slow",
            "depends_on": ["drop"],
            **({"timeout_s": LIMIT_S} if where == "task" else {}),
        },
    ]
    async with asking(frozen_clock) as (client, _):
        told = await plan(client, *tasks, **({"timeout_s": LIMIT_S} if where == "plan" else {}))
    assert [task["status"] for task in told["tasks"]] == ["ok", "timed_out"]


async def test_code_in_code_in_a_plan_with_limits_everywhere_waits(frozen_clock):
    """Each clock is of another execution, and all stand still."""
    inner = {"workflow": {"timeout_s": LIMIT_S, "tasks": [{"id": "drop", "tool": "db:drop", "timeout_s": LIMIT_S}]}}
    source = f"return (await tools.pml.execute_workflow({inner!r}))['status']"
    async with asking(frozen_clock, monty=Monty) as (client, server):
        told = await plan(client, code("python", source, timeout_s=LIMIT_S), timeout_s=LIMIT_S)
    assert [task.get("result") for task in told["tasks"]] == ["completed"], told
    assert len(server.calls) == 1


@pytest.mark.parametrize("sandbox", ["deno", "cpython"])
async def test_a_cell_whose_call_waits_for_an_approval_ends_well(sandbox, frozen_clock, tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    language, driver = SANDBOXES[sandbox]
    ending = "console.log('dropped')" if language == "typescript" else "print('dropped')"
    async with asking(frozen_clock, **{sandbox: driver}) as (client, server):
        created = await client.call("notebook_create", {"title": "Drops", "language": language, "tools": ["db:*"]})
        session = value_of(created)["sessionId"]
        source = CALL[language].format(ending)
        cell = await client.call("cell_create", {"sessionId": session, "source": source})
        asked = {"sessionId": session, "cellId": value_of(cell)["cell"]["id"]}
        told = await client.call("cell_execute", asked)
    assert not told.get("isError"), told
    assert "dropped" in told["content"][0]["text"]
    assert [name for name, _ in server.calls] == ["drop"]
