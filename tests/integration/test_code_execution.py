"""Code within workflows: the three tests of the original's ``code-execution-integration.test.ts``, and its bugs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import pml_dry_run.plugin
import pml_executor_dag.tool
from pml_executor_dag import Dag
from pml_hookspecs import ExecutionQuery, ExecutionRecord, Scope
from pml_sandbox_deno import Deno
from pml_store_sqlite import SqliteStore
from pml_testing.fixtures_clock import FrozenClock
from pml_testing.gateway import Client, ScriptedServer, running, until, value_of

pytestmark = pytest.mark.anyio
PLUGINS: dict[tuple[str, str], Any] = {
    ("executor", "dag"): Dag,
    ("executor", "deno"): Deno,
    ("hooks", "workflow_tool"): pml_executor_dag.tool,
    ("hooks", "dry_run"): pml_dry_run.plugin,
    ("store", "sqlite"): SqliteStore,
}


async def ran(tmp_path: Any, *tasks: Mapping[str, Any], **more: Any) -> tuple[dict[str, Any], list[ExecutionRecord]]:
    """What a client is told of a workflow, and what was recorded."""
    tables = {"sqlite": {"path": str(tmp_path / "executions.db")}}
    async with running({"fs": ScriptedServer(["read"])}, plugins=PLUGINS, tables=tables) as gateway:
        client = Client(gateway)
        await client.initialize()
        answer = await client.call("execute_workflow", {"workflow": {"tasks": list(tasks)}, **more})
        assert gateway.store is not None
        page = await gateway.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=100))
    told: dict[str, Any] = value_of(answer)
    return told, sorted(page.items, key=lambda record: record.id)


def code(id_: str, source: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "type": "code_execution", "language": "typescript", "code": source, **more}


def ends(told: Mapping[str, Any]) -> dict[str, Any]:
    return {task["id"]: task.get("result", task.get("error")) for task in told["tasks"]}


async def test_dag_with_code_execution_task_executes_in_sandbox(tmp_path: Any) -> None:
    told, records = await ran(
        tmp_path, code("sum", "const all: number[] = [1, 2, 3]; return all.reduce((a, b) => a + b)")
    )
    assert told["status"] == "completed"
    assert ends(told) == {"sum": 6}
    assert [(record.kind, record.target, record.status) for record in records] == [
        ("workflow", "", "ok"),
        ("code", "typescript", "ok"),
    ]


async def test_dag_with_mixed_mcp_and_code_execution_tasks(tmp_path: Any) -> None:
    told, records = await ran(
        tmp_path,
        {"id": "read", "tool": "fs:read", "arguments": {"path": "a"}},
        code("made", "return { path: ['b', 'c'].join('/') }"),
        {"id": "again", "tool": "fs:read", "arguments": {"path": "{{made.path}}"}},
    )
    assert told["status"] == "completed"
    assert sorted(record.target for record in records) == ["", "fs:read", "fs:read", "typescript"]
    assert [record.request for record in records if record.target == "fs:read"][-1] == {"path": "b/c"}


async def test_code_execution_task_receives_context_from_dependencies(tmp_path: Any) -> None:
    told, _ = await ran(
        tmp_path,
        code("first", "return { n: 20 }"),
        code("second", "return first.n + more", inputs={"first": "{{first}}", "more": 22}),
        code("third", "return [Object.keys(inputs), typeof inputs.first.n]", inputs={"first": "{{first}}"}, intent="x"),
    )
    assert ends(told)["second"] == 42
    assert ends(told)["third"] == [["first"], "number"]


async def test_a_code_error_and_a_time_out_are_told_apart_with_the_sandboxs_message(tmp_path: Any) -> None:
    told, records = await ran(
        tmp_path,
        code("raises", "\nthrow new Error('from inside')"),
        code("hangs", "while (true);", timeout_s=0.4),
    )
    assert told["status"] == "failed"
    errors = ends(told)
    assert errors["raises"]["code"] == "code.raised"
    assert errors["raises"]["message"] == "Error: from inside (line 2)"
    assert {record.status for record in records if record.kind == "code"} == {"error", "timed_out"}


async def test_tools_that_code_calls_are_recorded_as_its_children(tmp_path: Any) -> None:
    source = "await Promise.all([tools.fs.read({ path: 'a' }), tools.fs.read({ path: 'b' })]); return 'done'"
    told, records = await ran(tmp_path, code("calls", source))
    assert ends(told) == {"calls": "done"}
    parent = next(record for record in records if record.kind == "code")
    children = [record for record in records if record.parent == parent.id]
    assert sorted(record.request["path"] for record in children) == ["a", "b"]
    assert list(parent.tool_calls) == ["fs:read", "fs:read"]


async def test_code_is_not_run_in_a_dry_run(tmp_path: Any) -> None:
    told, records = await ran(tmp_path, code("calls", "await tools.fs.read({}); return 1"), dry_run=True)
    assert told["status"] == "simulated"
    assert [record.kind for record in records] == ["workflow", "code"]


async def test_code_that_never_ends_does_not_hold_up_others(tmp_path: Any, frozen_clock: FrozenClock) -> None:
    tables = {"sqlite": {"path": str(tmp_path / "executions.db")}}
    server, source = ScriptedServer(["read"]), "await tools.fs.read({}); while (true);"
    async with running({"fs": server}, plugins=PLUGINS, tables=tables) as gateway:
        client = Client(gateway)
        await client.initialize()
        endless = [code(f"hangs{i}", source, timeout_s=50.0) for i in range(2)]
        hanging = asyncio.create_task(client.call("execute_workflow", {"workflow": {"tasks": endless}}))
        await until(lambda: len(server.calls) == 2 or hanging.done())
        answer = await client.call("fs__read", {})
        assert not hanging.done()
        assert "isError" not in answer
        frozen_clock.advance(50)
        await hanging
