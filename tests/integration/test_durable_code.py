"""Durable plans with code that waits: through a client, both executors of workflows, and servers in processes."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_executor_dag import Dag, tool
from pml_executor_dbos import Dbos
from pml_executor_dbos import hooks as durable
from pml_hookspecs import Failure, Phase, Status, ToolCall
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_testing.dispatching import Code, hooks
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, value_of
from pml_transport_stdio import Stdio

pytestmark = pytest.mark.anyio


class Approver:
    """Lets calls of one tool wait until it is approved."""

    phase = Phase.APPROVE
    approved = False

    async def __call__(self, task, run, call_next):
        if self.approved or not isinstance(task, ToolCall) or task.tool != "one:remove":
            return await call_next(task, run)
        failure = Failure("approval.required", "A human has to look.", details={"approval_id": "ap"})
        return outcome(task.id, status=Status.INPUT_REQUIRED, failure=failure)


@asynccontextmanager
async def with_notes(folder, approver):
    """A gateway whose one server keeps a notebook; gives a client and the notebook."""
    script = Path(__file__).with_name("notes_server.py")
    config = Config(
        gateway=GatewaySettings(log_level="error"),
        servers={"one": ServerSettings(command=sys.executable, args=(str(script), str(folder / "notes.txt")))},
        tables={"dbos": {"database": str(folder / "durable.db")}},
        sources=(Source("test", {}),),
    )
    found = [
        registry.provide("pml.transport", "stdio", Stdio),
        registry.provide("pml.executor", "dag", Dag),
        registry.provide("pml.executor", "dbos", Dbos),
        registry.provide("pml.executor", "code", Code),
        registry.provide("pml.plugins", "workflow_tool", tool),
        registry.provide("pml.plugins", "dbos", durable),
        registry.provide("pml.plugins", "wrappers", hooks(wrappers=[approver])),
    ]
    async with Gateway(config, None, found) as started:
        await started.servers_tried()
        client = Client(started)
        await client.initialize()
        yield client, folder / "notes.txt"


def calling(*calls):
    """Code that makes calls, ``tool`` and text, until one of them does not end well."""

    async def made(task, run):
        told = []
        for number, (name, text) in enumerate(calls):
            call = ToolCall(id=f"{name}#{number}", tool=name, arguments={"text": text() if callable(text) else text})
            ended = await run.dispatch(call)
            if not ended.status.good:
                return outcome(task.id, told, ended.status, failure=ended.failure)
            told.append(text if isinstance(text, str) else "")
        return outcome(task.id, told)

    return made


CODE = {"id": "code", "type": "code_execution", "code": "calls", "language": "python"}


async def durably(client, *tasks):
    """What ``execute_workflow`` answers."""
    return await client.call("execute_workflow", {"workflow": {"tasks": list(tasks), "durable": True}})


async def go_on(client, told):
    """What ``continue_workflow`` answers."""
    return await client.call("continue_workflow", {"workflow_id": told["workflow_id"], "decision": "continue"})


async def test_code_that_waited_goes_on_for_the_client_and_repeats_nothing(tmp_path):
    Code.answers["calls"] = calling(("one:add", "a"), ("one:add", "b"), ("one:remove", "a"), ("one:add", "c"))
    approver = Approver()
    async with with_notes(tmp_path, approver) as (client, notes):
        told = value_of(await durably(client, CODE, {"id": "d", "tool": "one:lines", "depends_on": ["code"]}))
        assert (told["status"], notes.read_text()) == ("input_required", "a\nb\n")
        again = await go_on(client, told)
        assert value_of(again).get("workflow_id") == told["workflow_id"], again
        assert not again.get("isError")
        approver.approved = True
        ended = await go_on(client, told)
        assert (value_of(ended)["status"], notes.read_text()) == ("completed", "b\nc\n")
        assert (await go_on(client, told))["isError"]


async def test_code_that_takes_another_way_the_second_time_fails(tmp_path):
    texts = iter("xyz")
    Code.answers["calls"] = calling(("one:add", lambda: next(texts)), ("one:remove", "x"))
    approver = Approver()
    async with with_notes(tmp_path, approver) as (client, notes):
        told = value_of(await durably(client, CODE))
        approver.approved = True
        ended = await go_on(client, told)
        assert ended["isError"]
        assert value_of(ended)["tasks"][0]["error"]["code"] == "durable.diverged"
        assert notes.read_text() == "x\n"


async def test_undoing_that_waits_in_a_durable_plan_goes_on_too(tmp_path):
    undo = {"tool": "one:remove", "arguments": {"text": "a"}}
    approver = Approver()
    async with with_notes(tmp_path, approver) as (client, notes):
        answer = await durably(
            client,
            {"id": "a", "tool": "one:add", "arguments": {"text": "a"}, "compensate": undo},
            {"id": "fail", "tool": "one:fail", "depends_on": ["a"]},
        )
        told = value_of(answer)
        assert (told["status"], [one["id"] for one in told["waiting"]]) == ("input_required", ["a~undo"])
        approver.approved = True
        ended = await go_on(client, told)
        assert (ended["isError"], value_of(ended)["status"], notes.read_text()) == (True, "failed", "")


async def test_a_tool_that_does_not_exist_is_told_before_a_durable_plan_begins(tmp_path):
    async with with_notes(tmp_path, Approver()) as (client, notes):
        answer = await durably(
            client, {"id": "a", "tool": "one:add", "arguments": {"text": "a"}}, {"id": "b", "tool": "one:linez"}
        )
        assert answer["isError"]
        assert "tasks[1].tool: server 'one' has no tool 'one:linez'; did you mean 'one:lines'?" in str(answer)
        assert not notes.exists() or notes.read_text() == ""
