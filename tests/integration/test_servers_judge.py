"""Servers judge the arguments of their tools: a call goes out as it came, whichever way, and all see the same of it."""

from __future__ import annotations

import json

import pytest
from argument_looks import ArgumentLooks

import pml_argument_validation.plugin
import pml_dry_run.plugin
import pml_executor_dag.tool
import pml_preflight.plugin
import pml_search_tools.plugin
from pml_executor_dag import Dag
from pml_hookspecs import ExecutionQuery, Phase, RpcError, Scope
from pml_sandbox_monty import Monty
from pml_testing.gateway import Client, ScriptedServer, error_of, running, value_of

pytestmark = pytest.mark.anyio
ADD = {
    "name": "add",
    "inputSchema": {
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "deep": {"type": "boolean", "default": False},
            "names": {"type": "array", "items": {"type": "string"}},
            "mode": {"type": "string", "default": "fast"},
        },
        "required": ["count", "mode"],
        "additionalProperties": False,
    },
}
LENIENT = [
    {"count": "5", "mode": "fast"},
    {"count": 5, "mode": "fast", "deep": "true"},
    {"count": 5, "mode": "fast", "names": '["a"]'},
    {"count": 5, "mode": "fast", "deep": None},
    {"count": 5, "mode": "fast", "whatever": 1},
    {"count": 5},
]
NOTE = "Note by the gateway: the arguments do not fit the input schema of s:add, which may be why:"


def gateway(server, *, refuse=(), looks=None):
    plugins = {
        ("executor", "dag"): Dag,
        ("executor", "monty"): Monty,
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "search_tools"): pml_search_tools.plugin,
        ("hooks", "argument_validation"): pml_argument_validation.plugin,
        ("hooks", "dry_run"): pml_dry_run.plugin,
        ("hooks", "preflight"): pml_preflight.plugin,
    }
    if looks is not None:
        plugins["hooks", "looks"] = looks
    tables = {"argument_validation": {"refuse": list(refuse)}, "preflight": {"check_code_s": 60.0}}
    return running({"s": server}, plugins=plugins, tables=tables)


async def connected(made):
    client = Client(made)
    await client.initialize()
    return client


def plan(arguments, **more):
    first = {"id": "first", "tool": "s:add", "arguments": {"count": 1, "mode": "fast"}}
    return {"workflow": {"tasks": [first, {"id": "next", "tool": "s:add", "arguments": arguments, **more}]}}


WAYS = {
    "direct": lambda arguments: ("s__add", arguments),
    "call_tool": lambda arguments: ("call_tool", {"name": "s:add", "arguments": arguments}),
    "plan": lambda arguments: ("execute_workflow", plan(arguments)),
    "code": lambda arguments: (
        "execute_workflow",
        {
            "workflow": {
                "tasks": [
                    {
                        "id": "c",
                        "type": "code_execution",
                        "language": "python",
                        "code": f"return await tools.s.add({', '.join(f'{k}={v!r}' for k, v in arguments.items())})",
                    }
                ]
            }
        },
    ),
}


@pytest.mark.parametrize("arguments", LENIENT, ids=map(json.dumps, LENIENT))
@pytest.mark.parametrize("way", WAYS)
async def test_what_the_schema_forbids_and_the_server_takes_runs(way, arguments):
    server = ScriptedServer([ADD])
    async with gateway(server) as made:
        name, given = WAYS[way](arguments)
        answer = await (await connected(made)).call(name, given)
    assert not answer.get("isError"), answer
    assert server.calls[-1] == ("add", arguments)


@pytest.mark.attack("What was judged is what is sent", "send arguments that are of another type than the schema says")
async def test_the_bytes_that_a_client_sends_are_those_that_everybody_judges_and_the_server_gets():
    server, looks = ScriptedServer([ADD]), ArgumentLooks("s:add")
    sent = b'{ "count":"5",  "mode":null, "deep":1.50, "names":12345678901234567890123, "more":{"b":1,"a":"\\u00e9"} }'
    async with gateway(server, looks=looks) as made:
        client = await connected(made)
        await client.send("tools/call", b'{"name":"s__add","arguments":' + sent + b"}")
        page = await made.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=1))
    (record,) = page.items
    raw = dict(server.raw)["tools/call"]
    assert b'"arguments":' + sent in raw
    assert looks.seen == {phase: [sent] for phase in Phase}
    assert dict(record.request) == json.loads(sent)


async def test_a_result_with_an_error_keeps_what_it_has_and_gets_a_note():
    own = {
        "content": [{"type": "text", "text": "1 validation error"}, {"type": "image", "data": "", "mimeType": "a/b"}],
        "structuredContent": {"n": 1.5, "deep": [None]},
        "isError": True,
        "_meta": {"theirs": 1},
        "more": "later",
    }
    server = ScriptedServer([ADD])
    server.script = [own, own]
    async with gateway(server) as made:
        client = await connected(made)
        answer = await client.call("s__add", {"count": "secret-five", "deep": None})
        plain = await client.call("s__add", {"count": 5, "mode": "fast"})
    note = {
        "type": "text",
        "text": f"{NOTE}\n- $.mode: is missing; expected a string\n- $.count: must be an integer, not a string\n"
        "- $.deep: must be a boolean, not null",
    }
    assert answer == {**own, "content": [*own["content"], note]}
    assert plain == own


async def test_a_json_rpc_error_keeps_its_words_code_and_data():
    server = ScriptedServer([ADD])
    server.script = [RpcError(-32602, "Invalid params", {"theirs": [1]}), RpcError(-32603, "boom")]
    async with gateway(server) as made:
        client = await connected(made)
        told = await error_of(client.call("s__add", {"count": "secret", "mode": "fast"}))
        plain = await error_of(client.call("s__add", {"count": 1, "mode": "fast"}))
    assert told.to_wire() == {
        "code": -32602,
        "message": f"Invalid params\n{NOTE}\n- $.count: must be an integer, not a string",
        "data": {"theirs": [1]},
    }
    assert plain.to_wire() == {"code": -32603, "message": "boom"}


async def test_what_is_no_answer_of_the_server_gets_no_note():
    server = ScriptedServer([ADD])
    async with gateway(server) as made:
        client = await connected(made)
        server.lose()
        server.refuse = "gone"
        answer = await client.call("s__add", {"count": "x"})
    assert NOTE not in json.dumps(answer)


@pytest.mark.parametrize("refuse", ["*", "s:*", "s:add"])
@pytest.mark.parametrize("way", ["direct", "call_tool"])
async def test_calls_of_servers_that_the_setting_names_are_refused_before_they_go_out(way, refuse):
    server = ScriptedServer([ADD])
    async with gateway(server, refuse=[refuse]) as made:
        name, given = WAYS[way](LENIENT[0])
        answer = await (await connected(made)).call(name, given)
    assert answer["_meta"]["pml/failure"]["code"] == "arguments.invalid"
    assert server.calls == []


async def test_other_servers_go_on_judging():
    server = ScriptedServer([ADD])
    async with gateway(server, refuse=["t:*"]) as made:
        assert not (await (await connected(made)).call("s__add", LENIENT[0])).get("isError")


async def test_the_gateways_own_tools_are_checked_as_before():
    async with gateway(ScriptedServer([ADD])) as made:
        answer = await (await connected(made)).call("search_tools", {"query": "add", "limit": "5"})
    assert answer["_meta"]["pml/failure"]["code"] == "arguments.invalid"


@pytest.mark.parametrize("arguments", LENIENT, ids=map(json.dumps, LENIENT))
async def test_a_rehearsal_says_it_before_and_asks_no_server(arguments):
    server = ScriptedServer([ADD])
    async with gateway(server) as made:
        client = await connected(made)
        report = value_of(await client.call("execute_workflow", {**plan(arguments), "dry_run": True}))
        one = await client.call("s__add", arguments, _meta={"pml/dry_run": True})
    assert [found["task"] for found in report["preflight"]["errors"]] == ["next"]
    assert one["_meta"]["pml/failure"]["code"] == "arguments.invalid"
    assert server.calls == []


@pytest.mark.parametrize("arguments", LENIENT, ids=map(json.dumps, LENIENT))
async def test_a_plan_is_refused_whole_where_the_gateway_judges(arguments):
    server = ScriptedServer([ADD])
    async with gateway(server, refuse=["s:*"]) as made:
        answer = await (await connected(made)).call("execute_workflow", plan(arguments))
    assert answer["content"][0]["text"].startswith("Nothing was run; the workflow has 1 mistake:")
    assert server.calls == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"count": "five", "mode": "fast"},
        {"count": None, "mode": "fast"},
        {"mode": "fast"},
        {"count": 5, "mode": "fast", "nmaes": []},
        {"count": 5, "mode": 1},
        {"count": 5, "mode": "fast", "names": '{"a": 1}'},
    ],
    ids=json.dumps,
)
async def test_a_plan_is_refused_for_what_no_server_takes(arguments):
    server = ScriptedServer([ADD])
    async with gateway(server) as made:
        answer = await (await connected(made)).call("execute_workflow", plan(arguments))
    assert answer["content"][0]["text"].startswith("Nothing was run; the workflow has 1 mistake:")
    assert server.calls == []


async def test_a_step_that_fails_tells_the_servers_words_and_the_note():
    server = ScriptedServer([ADD])
    server.script = [{"content": []}, {"content": [{"type": "text", "text": "no five"}], "isError": True}]
    async with gateway(server) as made:
        answer = await (await connected(made)).call("execute_workflow", plan(LENIENT[0]))
    (_, step) = value_of(answer)["tasks"]
    assert f"no five\\n{NOTE}" in json.dumps(step)
