"""Workflows through a whole gateway: a client, the chain, the budget, the store."""

from __future__ import annotations

import asyncio

import pytest

from pml_executor_dag import Dag, tool
from pml_hookspecs import CodeRun, Failure, Offer, Phase, Status, ToolCall, Workflow, hookimpl
from pml_kit.offers import SUGGESTER, Suggestion
from pml_testing.dispatching import Code, hooks
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, running, until, value_of

pytestmark = pytest.mark.anyio


class Approver:
    """Lets calls of some tools wait until they are approved, once each."""

    phase = Phase.APPROVE

    def __init__(self, *tools):
        self.tools, self.approved = set(tools), set()

    async def __call__(self, task, run, call_next):
        if not isinstance(task, ToolCall) or task.tool not in self.tools or task.tool in self.approved:
            return await call_next(task, run)
        failure = Failure("approval.required", "A human has to look.", details={"approval_id": f"ap-{task.id}"})
        return outcome(task.id, status=Status.INPUT_REQUIRED, failure=failure)


class Suggests:
    """A plugin that makes one plan."""

    def __init__(self, suggestion):
        self.suggestion = suggestion

    @hookimpl
    def pml_offers(self, services):
        return [Offer(SUGGESTER, self)]

    async def suggest(self, intent, run, *, limit):
        return [self.suggestion]


def plugins(*wrappers, **more):
    made = {("executor", "dag"): Dag, ("executor", "code"): Code, ("hooks", "workflow_tool"): tool}
    return {**made, ("hooks", "wrappers"): hooks(wrappers=wrappers), **more}


async def execute(client, *tasks, name="execute_workflow", **plan):
    """The report of a workflow, with every result in it."""
    plan.setdefault("return", "all")
    return value_of(await client.call(name, {"workflow": {"tasks": list(tasks), **plan}}))


async def test_another_principal_cannot_continue_it():
    approver = Approver("fs:write")
    async with running({"fs": ScriptedServer(["write"])}, plugins=plugins(approver)) as gateway:
        ada, bob = Client(gateway, principal="ada"), Client(gateway, principal="bob")
        for client in (ada, bob):
            await client.initialize()
        told = await execute(ada, {"id": "a", "tool": "fs:write"})
        arguments = {"workflow_id": told["workflow_id"], "decision": "abort"}
        answer = await bob.call("continue_workflow", arguments)
        assert answer["isError"]
        assert "no workflow waits under the id" in answer["content"][0]["text"]
        aborted = await ada.call("continue_workflow", arguments)
        assert (aborted["isError"], aborted["structuredContent"]["status"]) == (True, "failed")


async def test_a_client_is_answered_what_its_plan_selects():
    async with running({"fs": ScriptedServer(["read"])}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        plan = {"tasks": [{"id": "a", "tool": "fs:read"}], "select": "{kind: type(a)}"}
        told = value_of(await client.call("execute_workflow", {"workflow": plan}))
        assert told["tasks"] == [{"id": "a", "status": "ok"}]
        assert told["result"]["kind"] in ("object", "string")


async def test_calls_of_code_and_of_inner_workflows_count_against_the_budget():
    async def three(task, run):
        ended = [await run.dispatch(ToolCall(id=f"c{i}", tool="fs:read")) for i in range(3)]
        return outcome(task.id, [one.failure.code if one.failure else "ok" for one in ended])

    Code.answers["three"] = three
    server = ScriptedServer(["read"])
    async with running({"fs": server}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        told = await execute(
            client,
            {"id": "in", "type": "workflow", "tasks": [{"id": "x", "tool": "fs:read"}]},
            {"id": "code", "type": "code_execution", "code": "three", "language": "python", "depends_on": ["in"]},
            max_tool_calls=3,
        )
        assert {task["id"]: task for task in told["tasks"]}["code"]["result"] == ["ok", "ok", "budget.tool_calls"]
        assert len(server.calls) == 3


async def test_progress_is_told_and_a_cancelled_plan_ends_its_calls():
    reached, ended = asyncio.Event(), []

    async def answer(name, arguments):
        if name == "slow":
            reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)
        return {"content": []}

    async with running({"fs": ScriptedServer(["quick", "slow"], answer)}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        plan = {
            "workflow": {
                "tasks": [{"id": "a", "tool": "fs:quick"}, {"id": "b", "tool": "fs:slow", "depends_on": ["a"]}]
            }
        }
        running_ = asyncio.create_task(client.call("execute_workflow", plan, _meta={"progressToken": "p"}))
        await reached.wait()
        (told,) = (params for method, params in client.link.notified if method == "notifications/progress")
        assert told == {"progressToken": "p", "progress": 1, "total": 2, "message": "a: ok"}
        running_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running_
        await until(lambda: ended == ["slow"])


async def test_what_is_speculated_runs_for_real_but_for_what_could_do_harm():
    tools = [
        {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "drop", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}},
    ]
    server = ScriptedServer(tools)
    plan = Workflow(id="w", tasks=(ToolCall(id="a", tool="fs:read"), ToolCall(id="b", tool="fs:drop")))
    suggests = Suggests(Suggestion(workflow=plan, confidence=0.95, why="They were used together."))
    made = {**plugins(), ("hooks", "suggests"): suggests}
    table = {"dag": {"confidence_mode": "speculative_execution"}}
    async with running({"fs": server}, plugins=made, tables=table) as gateway:
        client = Client(gateway)
        await client.initialize()
        told = value_of(await client.call("execute_workflow", {"intent": "tidy up"}))
        assert [name for name, _ in server.calls] == ["read"]
        assert [task["status"] for task in told["tasks"]] == ["ok", "denied"]
        assert told["tasks"][1]["error"]["code"] == "approval.unavailable"
    async with running({"fs": server}, plugins=made) as gateway:
        client = Client(gateway)
        await client.initialize()
        told = value_of(await client.call("execute_workflow", {"intent": "tidy up"}))
        assert (told["status"], told["confidence"]) == ("suggestion", 0.95)
        ran = value_of(await client.call("execute_workflow", told["arguments"]))
        assert [task["status"] for task in ran["tasks"]] == ["ok", "ok"]


async def test_an_intent_for_which_nobody_plans_says_how_to_plan():
    async with running({"fs": ScriptedServer()}, plugins=plugins()) as gateway:
        client = Client(gateway)
        await client.initialize()
        answer = await client.call("execute_workflow", {"intent": "tidy up"})
        assert answer["isError"]
        assert "Say yourself what is to be done: find tools with search_tools" in answer["content"][0]["text"]


class Sql:
    """Runs what no reader of plans has heard of."""

    handles = frozenset({CodeRun})
    languages = frozenset({"sql"})

    def __init__(self, settings, services):
        pass

    async def execute(self, task, run):
        return outcome(task.id, f"{task.language}: {task.source}")


async def test_a_plan_takes_the_language_of_whatever_executor_is_installed():
    chosen = {("executor", "dag"): Dag, ("executor", "sql"): Sql, ("hooks", "workflow_tool"): tool}
    rows = {"id": "rows", "type": "code_execution", "language": "sql", "code": "SELECT 1"}
    async with running({}, plugins=chosen) as gateway:
        client = Client(gateway)
        await client.initialize()
        (told,) = (await execute(client, rows))["tasks"]
        assert told["result"] == "sql: SELECT 1"
        (told,) = (await execute(client, {**rows, "language": "cobol"}))["tasks"]
        assert (told["status"], "cobol" in str(told)) == ("error", True)
