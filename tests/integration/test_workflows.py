"""Workflows through a whole gateway on servers in processes of their own: a client, the chain, the store."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_executor_dag import Dag, tool
from pml_hookspecs import Failure, Phase, Status, ToolCall
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_testing.dispatching import Code, hooks, records
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, value_of
from pml_transport_stdio import Stdio

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


@asynccontextmanager
async def with_notes(folder, *wrappers):
    """A gateway with two servers that share a notebook, each in a process."""
    script = Path(__file__).with_name("notes_server.py")
    server = ServerSettings(command=sys.executable, args=(str(script), str(folder / "notes.txt")))
    config = Config(
        gateway=GatewaySettings(log_level="warning"),
        servers={"one": server, "two": server},
        tables={},
        sources=(Source("test", {}),),
    )
    plugins = {
        ("executor", "dag"): Dag,
        ("executor", "code"): Code,
        ("hooks", "workflow_tool"): tool,
        ("hooks", "wrappers"): hooks(wrappers=wrappers),
    }
    found = [registry.provide("pml.transport", "stdio", Stdio)]
    for (kind, name), plugin in plugins.items():
        found.append(registry.provide("pml.plugins" if kind == "hooks" else f"pml.{kind}", name, plugin))
    async with Gateway(config, None, found) as started:
        await started.servers_tried()
        client = Client(started)
        await client.initialize()
        yield started, client, folder / "notes.txt"


async def execute(client, *tasks, name="execute_workflow", **plan):
    """The report of a workflow."""
    return value_of(await client.call(name, {"workflow": {"tasks": list(tasks), "return": "all", **plan}}))


def add(id_, text, *depends_on, **more):
    return {"id": id_, "tool": "one:add", "arguments": {"text": text}, "depends_on": list(depends_on), **more}


@pytest.mark.parametrize("name", ["execute_workflow", "execute_dag", "pml_execute_dag"])
async def test_calls_code_and_conditions_in_one_plan_on_real_servers(tmp_path, name):
    async def count(task, run):
        ended = await run.dispatch(ToolCall(id="inner", tool="two:lines"))
        return outcome(task.id, {"lines": len(value_of(ended.output)["lines"]), "given": dict(task.inputs)})

    Code.answers["count"] = count
    async with with_notes(tmp_path) as (_, client, notes):
        told = await execute(
            client,
            {**add("write", "{{item}}"), "for_each": ["a", "b", "c"], "depends_on": []},
            {"id": "count", "type": "code_execution", "code": "count", "language": "python", "depends_on": ["write"]},
            add("note", "{{count.lines}} lines", when="count.lines > `2`"),
            add("never", "few", when="count.lines < `3`"),
            {"id": "inside", "type": "workflow", "tasks": [{"id": "x", "tool": "two:lines"}], "depends_on": ["note"]},
            max_parallel=1,
            name=name,
        )
        assert (told["status"], notes.read_text()) == ("completed", "a\nb\nc\n3 lines\n")
        results = {task["id"]: task for task in told["tasks"]}
        assert results["count"]["result"]["lines"] == 3
        assert [one["last"] for one in results["count"]["result"]["given"]["write"]] == ["a", "b", "c"]
        assert results["never"]["status"] == "skipped"
        assert results["inside"]["result"]["tasks"][0]["result"]["last"] == "3 lines"


async def test_a_plan_that_fails_is_undone_on_the_server(tmp_path):
    undo = {"tool": "two:remove", "arguments": {"text": "{{item}}"}}
    async with with_notes(tmp_path) as (_, client, notes):
        told = await execute(
            client,
            {**add("write", "{{item}}"), "for_each": ["a", "b"], "compensate": undo},
            {"id": "fail", "tool": "one:fail", "depends_on": ["write"], "retry": {"attempts": 2, "delay_s": 0}},
        )
        assert (told["status"], notes.read_text()) == ("failed", "")
        assert told["tasks"][1]["attempts"] == 2
        assert {end["status"] for end in told["compensated"]} == {"ok"}


async def test_a_plan_that_waits_goes_on_through_the_same_chain(tmp_path):
    approver = Approver("one:add")
    async with with_notes(tmp_path, approver) as (gateway, client, notes):
        told = await execute(
            client, {"id": "look", "tool": "two:lines"}, add("write", "a", "look"), add("b", "b", "write")
        )
        assert (told["status"], told["waiting"][0]["approval_id"]) == ("input_required", "ap-write")
        again = {"workflow_id": told["workflow_id"], "decision": "continue"}
        told = value_of(await client.call("continue_workflow", again))
        assert (told["status"], notes.exists() and notes.read_text()) == ("input_required", "")
        approver.approved.add("one:add")
        again["workflow_id"] = told["workflow_id"]
        both = await asyncio.gather(*(client.call("continue_workflow", again) for _ in range(2)))
        assert sorted(answer.get("isError", False) for answer in both) == [False, True]
        assert notes.read_text() == "a\nb\n"
        calls = [r.target for r in await records(gateway) if r.kind == "tool"]
        assert calls.count("two:lines") == 1


async def test_layer_by_layer_on_a_real_server(tmp_path):
    async with with_notes(tmp_path) as (_, client, notes):
        told = await execute(client, add("a", "a"), add("b", "b", "a"), per_layer_validation=True)
        assert (told["status"], told["next"], notes.read_text()) == ("layer_complete", ["b"], "a\n")
        new = [{"id": "c", "tool": "one:add", "arguments": {"text": "after {{a.last}}"}}]
        arguments = {"workflow_id": told["workflow_id"], "decision": "replan", "tasks": new}
        told = value_of(await client.call("continue_workflow", arguments))
        assert (told["status"], notes.read_text()) == ("completed", "a\nafter a\n")
        told = await execute(client, add("a", "x"), add("b", "y", "a"), per_layer_validation=True)
        told = value_of(await client.call("abort_workflow", {"workflow_id": told["workflow_id"]}))
        assert (told["status"], notes.read_text()) == ("failed", "a\nafter a\nx\n")
