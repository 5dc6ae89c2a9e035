"""How a rehearsal treats what it does not know, as `_meta` says: for the whole plan, and no server hears of it."""

from __future__ import annotations

import pytest

import pml_dry_run.plugin
import pml_executor_dag.tool
from pml_executor_dag import Dag
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
FIND = {"name": "find", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
INNER = [{"id": "in", "tool": "crm:remove"}]
PLAN = [
    {"id": "out", "tool": "crm:remove"},
    {"id": "code", "type": "code_execution", "code": "return 1"},
    {"id": "nested", "type": "workflow", "tasks": INNER},
]
OWN = {"pml/dry_run", "pml/dry_run_level"}


def plugins():
    return {
        ("executor", "dag"): Dag,
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "dry_run"): pml_dry_run.plugin,
    }


async def rehearsed(level, tasks, **more):
    """The report on a plan, and the server."""
    server = ScriptedServer([FIND, "remove"])
    async with running({"crm": server}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        meta = {"pml/dry_run": True, "pml/dry_run_level": level, **more}
        answer = await client.call("execute_workflow", {"workflow": {"tasks": tasks}}, _meta=meta)
    return value_of(answer), server


def ends(report):
    """How each task ended, those in nested workflows included: code of the failure, or warnings."""
    for task in report["tasks"]:
        result = task.get("result")
        if isinstance(result, dict) and "tasks" in result:
            yield from ends(result)
        elif task.get("error"):
            yield task["id"], task["error"]["code"]
        else:
            yield task["id"], "warned" if task["_meta"]["pml/simulated"].get("warnings") else "made up"


async def test_the_level_of_the_request_holds_for_every_task_of_the_plan():
    strict, _ = await rehearsed("strict", [PLAN[0]])
    nested, _ = await rehearsed("strict", [PLAN[2]])
    code, _ = await rehearsed("strict", PLAN[:2])
    assert strict["tasks"][0]["error"]["code"] == "dry_run.miss"
    assert nested["tasks"][0]["error"] is not None
    assert [task["error"]["code"] for task in code["tasks"]] == ["dry_run.miss", "dry_run.miss"]
    loose, _ = await rehearsed("loose", PLAN)
    assert dict(ends(loose)) == {"out": "made up", "code": "made up", "in": "made up"}
    warn, _ = await rehearsed("warn", PLAN)
    assert dict(ends(warn)) == {"out": "warned", "code": "made up", "in": "warned"}


async def test_a_level_that_there_is_not_is_an_error_of_each_task():
    report, server = await rehearsed("lax", PLAN)
    assert report["tasks"][0]["error"]["code"] == "dry_run.level"
    assert server.calls == []


@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize("dry_run", ["reads", False])
async def test_servers_are_not_told_of_rehearsals(dry_run, plan):
    server = ScriptedServer([FIND])
    meta = {"pml/dry_run": dry_run, "pml/dry_run_level": "loose", "example.org/trace": "7"}
    async with running({"crm": server}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        if plan:
            tasks = [{"id": "a", "tool": "crm:find"}]
            await client.call("execute_workflow", {"workflow": {"tasks": tasks}}, _meta=meta)
        else:
            await client.call("crm__find", {}, _meta=meta)
    (params,) = server.params
    told = params.get("_meta", {})
    assert not OWN & told.keys()
    assert plan or told["example.org/trace"] == "7"
