"""Real runs are held to what a rehearsal checks: all mistakes are told at once, before the first task runs."""

from __future__ import annotations

import pytest

import pml_dry_run.plugin
import pml_executor_dag.tool
import pml_preflight.plugin
from pml_executor_dag import Dag
from pml_hookspecs import ServerStatus
from pml_sandbox_deno import Deno
from pml_sandbox_monty import Monty
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
TEXT = {"type": "string"}
ADD = {
    "name": "add",
    "inputSchema": {
        "type": "object",
        "properties": {"title": TEXT, "count": {"type": "integer"}},
        "required": ["title"],
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object", "properties": {"id": TEXT}, "additionalProperties": False},
}
FIRST = {"id": "first", "tool": "notes:add", "arguments": {"title": "a"}}
PLUGINS = {
    ("executor", "dag"): Dag,
    ("executor", "monty"): Monty,
    ("executor", "deno"): Deno,
    ("hooks", "workflow_tool"): pml_executor_dag.tool,
    ("hooks", "dry_run"): pml_dry_run.plugin,
    ("hooks", "preflight"): pml_preflight.plugin,
}
PATIENT = {"preflight": {"check_code_s": 60.0}}
"""A machine with much else to do needs its time to parse."""


async def answer(_name, _arguments):
    return {"content": [], "structuredContent": {"id": "n1"}}


async def sent(*tasks, **more):
    """The answer to a plan, and what the server was asked meanwhile."""
    server = ScriptedServer([ADD], answer)
    async with running({"notes": server}, plugins=PLUGINS, tables=PATIENT) as gateway:
        client = Client(gateway)
        await client.initialize()
        result = await client.call("execute_workflow", {"workflow": {"tasks": list(tasks)}, **more})
    return result, server.calls


def told(result):
    (block,) = result["content"]
    return block["text"].splitlines()


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"tool": "notes:add", "arguments": {"title": 1}}, "bad arguments.title: must be a string"),
        ({"tool": "notes:add", "arguments": {}}, "bad arguments.title: is missing"),
        ({"tool": "notes:add", "arguments": {"title": "b", "cuont": 1}}, "bad arguments.cuont: unknown; did you mean"),
        ({"tool": "notes:add", "arguments": {"title": "{{first.name}}"}}, "bad arguments.title: {{first.name}} finds"),
        (
            {"tool": "notes:add", "arguments": {"title": "b", "count": "{{first.id}}"}},
            "arguments.count: {{first.id}}",
        ),
        (
            {"tool": "notes:ad", "arguments": {"title": "b"}},
            "'notes:ad'; did you mean notes__add",
        ),
        ({"type": "code_execution", "language": "python", "code": "return (1"}, "bad code: is no python"),
        ({"type": "code_execution", "language": "typescript", "code": "const = 1"}, "bad code: "),
    ],
)
async def test_nothing_runs_when_a_later_step_is_surely_wrong(wrong, line):
    result, calls = await sent(FIRST, {"id": "bad", **wrong, "depends_on": ["first"]})
    assert result["isError"]
    head, *lines = told(result)
    assert head == "Nothing was run; the workflow has 1 mistake:"
    assert line in lines[0]
    assert calls == []


async def test_all_mistakes_come_in_one_message():
    result, calls = await sent(
        FIRST,
        {"id": "a", "tool": "notes:add", "arguments": {"title": 1}, "retry": 3},
        {"id": "b", "tool": "notes:nothing", "arguments": {}},
        {"id": "c", "tool": "notes:add", "arguments": {"title": "{{firts.id}}"}},
        {"id": "d", "type": "code_execution", "language": "python", "code": "return (1"},
        {"id": "e", "tool": "notes:add", "arguments": {"title": "x"}, "compensate": {"tool": "notes:add"}},
    )
    text = "\n".join(told(result))
    assert text.startswith("Nothing was run; the workflow has 6 mistakes:")
    for part in (
        "retry",
        "must be a string",
        "notes:nothing",
        "'firts'",
        "is no python",
        "compensate.title: is missing",
    ):
        assert part in text
    assert calls == []


async def test_what_may_be_right_is_run():
    result, calls = await sent(
        FIRST,
        # A call that code catches, or never comes to, is not wrong before it runs.
        {
            "id": "c",
            "type": "code_execution",
            "language": "python",
            "code": "if False:\n    notes.nothing()\nreturn 'b'",
        },
        {"id": "last", "tool": "notes:add", "arguments": {"title": "{{first.id}}{{c}}"}},
    )
    assert value_of(result)["status"] == "completed", result
    assert [arguments["title"] for _, arguments in calls] == ["a", "n1b"]


async def test_a_tool_of_a_server_that_has_not_said_what_it_has_is_not_a_mistake():
    server = ScriptedServer([ADD])
    async with running({"notes": server}, plugins=PLUGINS, tables=PATIENT) as gateway:
        client = Client(gateway)
        await client.initialize()
        gateway.catalog.servers = lambda _session=None: [ServerStatus(name="mail", state="starting")]
        tasks = [FIRST, {"id": "b", "tool": "send_it"}, {"id": "c", "tool": "mail:send"}]
        await client.call("execute_workflow", {"workflow": {"tasks": tasks}})
    assert server.calls == [("add", {"title": "a"})]
