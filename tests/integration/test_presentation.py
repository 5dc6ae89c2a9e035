"""Tools as their operator presents them: what clients see, what servers get, and what cannot be had by any way."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from argument_looks import ArgumentLooks

import pml_argument_validation.plugin
import pml_code_mode.plugin
import pml_dry_run.plugin
import pml_executor_dag.tool
import pml_preflight.plugin
import pml_presentation.plugin
import pml_search.plugin
import pml_search_tools.plugin
from pml_executor_dag import Dag
from pml_exposure_full_proxy import FullProxy
from pml_hookspecs import (
    ExecutionQuery,
    Identity,
    Phase,
    RpcError,
    RunOptions,
    Scope,
    ToolCall,
    encode,
    replace,
)
from pml_kit.errors import OperatorError
from pml_sandbox_monty import Monty
from pml_testing.gateway import Client, ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
QUERY = {
    "name": "query",
    "description": "Runs a query.",
    "inputSchema": {
        "type": "object",
        "properties": {"table": {"type": "string"}, "text": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["table", "text", "limit"],
        "additionalProperties": False,
    },
}
PRESENTED = {
    "name": "find_orders",
    "title": "Orders",
    "description": "Finds orders by the name of a zookeeper.",
    "arguments": {"table": "orders"},
    "defaults": {"limit": 20},
}
GIVEN = {"text": "ada"}
SENT = {"limit": 20, "text": "ada", "table": "orders"}


def gateway(server, tables, *, looks=None, mode="full_proxy", preflight=False, **more):
    plugins = {
        ("executor", "dag"): Dag,
        ("executor", "monty"): Monty,
        ("exposure_mode", "full_proxy"): FullProxy,
        ("hooks", "workflow_tool"): pml_executor_dag.tool,
        ("hooks", "search_tools"): pml_search_tools.plugin,
        ("hooks", "search"): pml_search.plugin,
        ("hooks", "code_mode"): pml_code_mode.plugin,
        ("guards", "argument_validation"): pml_argument_validation.plugin,
        ("guards", "dry_run"): pml_dry_run.plugin,
        ("guards", "presentation"): pml_presentation.plugin,
    }
    if looks is not None:
        plugins["hooks", "looks"] = looks
    if preflight:
        plugins["hooks", "preflight"] = pml_preflight.plugin
    given = {"presentation": tables, "argument_validation": {"refuse": ["*"]}}
    return running({"s": server}, plugins=plugins, tables=given, tools_exposure=mode, **more)


async def said(client, name, arguments=None):
    """What a client is told, also where its request is refused."""
    try:
        return json.dumps(await client.call(name, arguments))
    except RpcError as exc:
        return exc.message


async def connected(made, **who):
    client = Client(made, **who)
    await client.initialize()
    return client


def plan(tool, arguments, **more):
    first = {"id": "first", "tool": tool, "arguments": arguments}
    return {"workflow": {"tasks": [first]}, **more}


def code(tool, arguments):
    given = ", ".join(f"{k}={v!r}" for k, v in arguments.items())
    task = {"id": "c", "type": "code_execution", "language": "python", "code": f"return await tools.s.{tool}({given})"}
    return {"workflow": {"tasks": [task]}}


WAYS = {
    "direct": lambda arguments: ("find_orders", arguments),
    "as it was": lambda arguments: ("s__query", arguments),
    "by its id": lambda arguments: ("s:query", arguments),
    "bare": lambda arguments: ("query", arguments),
    "call_tool": lambda arguments: ("call_tool", {"name": "find_orders", "arguments": arguments}),
    "call_tool by id": lambda arguments: ("call_tool", {"name": "s:query", "arguments": arguments}),
    "plan": lambda arguments: ("execute_workflow", plan("find_orders", arguments)),
    "plan by id": lambda arguments: ("execute_workflow", plan("s:query", arguments)),
    "code": lambda arguments: ("execute_workflow", code("find_orders", arguments)),
    "code by its own name": lambda arguments: ("execute_workflow", code("query", arguments)),
}


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_fixed_is_in_every_call(way):
    server, looks = ScriptedServer([QUERY]), ArgumentLooks("s:query")
    async with gateway(server, {"tools": {"s:query": PRESENTED}}, looks=looks) as made:
        client = await connected(made)
        for given in (GIVEN, {**GIVEN, "table": "orders"}):
            name, arguments = WAYS[way](given)
            answer = await client.call(name, arguments)
            assert not answer.get("isError"), answer
    assert server.calls == [("query", SENT), ("query", SENT)]
    judged = [seen for phase, seen in looks.seen.items() if phase >= Phase.AUTHORIZE]
    assert len(judged) == 7
    assert {one for seen in judged for one in seen} == {encode(SENT)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.attack("A fixed argument has its value", "send another value by every way that calls take")
async def test_another_value_is_refused(way):
    server = ScriptedServer([QUERY])
    async with gateway(server, {"tools": {"s:query": PRESENTED}}) as made:
        client = await connected(made)
        name, arguments = WAYS[way]({**GIVEN, "table": "users"})
        answer = json.dumps(await client.call(name, arguments))
    assert server.calls == []
    assert "the argument 'table' of s:query is fixed in the gateway's configuration; leave it out" in answer
    assert "orders" not in answer.replace("find_orders", "")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"text":"a","table":"orders","table":"users"}',
        b'{"text":"a","table":"users","table":"orders"}',
        b'{"text":"a","Table":"users"}',
        b'{"text":"a","TABLE":"users"}',
        b'{"text":"a","ta_ble":"users"}',
        b'{"text":"a","t\\u0061ble":"users"}',
        '{"text":"a","\uff54able":"users"}'.encode(),
        b'{"text":"a","table":["orders"]}',
        b'{"text":"a","table":null}',
        b'{"text":"a","table":"orders "}',
    ],
)
@pytest.mark.attack("A fixed argument has its value", "spell the argument in another way that a lenient server takes")
async def test_other_spellings_are_refused(raw):
    server = ScriptedServer([{**QUERY, "inputSchema": {"type": "object", "properties": {"table": {}, "text": {}}}}])
    async with gateway(server, {"tools": {"s:query": PRESENTED}}) as made:
        client = await connected(made)
        with suppress(RpcError):  # of two members of one name nothing is read
            answer = await client.send("tools/call", b'{"name":"find_orders","arguments":' + raw + b"}")
            assert answer["isError"]
    assert server.calls == []


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.attack("A fixed argument has its value", "call the tool by a name that a lenient server takes for it")
async def test_a_tool_that_is_not_listed_has_its_fixed_arguments_too(listed):
    server = ScriptedServer([QUERY] if listed else ["other"])
    async with gateway(server, {"tools": {"s:query": PRESENTED}}) as made:
        client = await connected(made)
        for name in ("s:query", "s:Query", "s:QUERY", "s:que_ry"):
            await said(client, "call_tool", {"name": name, "arguments": {"text": "a", "table": "users"}})
            await said(client, "call_tool", {"name": name, "arguments": {"text": "a"}})
    assert all(given["table"] == "orders" for _, given in server.calls)


@pytest.mark.attack("A fixed argument has its value", "have a plan put another one's result in its place")
async def test_a_result_cannot_take_its_place():
    server = ScriptedServer([QUERY, "other"])
    async with gateway(server, {"tools": {"s:query": PRESENTED}}) as made:
        client = await connected(made)
        tasks = [
            {"id": "a", "tool": "s:other", "arguments": {}},
            {"id": "b", "tool": "find_orders", "arguments": {"text": "x", "table": "{{a}}"}},
        ]
        answer = json.dumps(await client.call("execute_workflow", {"workflow": {"tasks": tasks}}))
    assert [name for name, _ in server.calls] == ["other"]
    assert "is fixed" in answer


@pytest.mark.attack("A fixed argument has its value", "have an agent, or work in the background, send another value")
async def test_what_no_client_waits_for_has_its_fixed_arguments_too():
    server = ScriptedServer([QUERY])
    async with gateway(server, {"tools": {"s:query": PRESENTED}}) as made:
        services = made._services_for("test", None)
        session = services.session(Identity(principal="ada"))
        for trigger in ("agent", "schedule"):
            call = ToolCall(id="t", tool="find_orders", arguments={**GIVEN, "table": "users"})
            outcome = await services.run(call, session, RunOptions(trigger=trigger))
            assert (outcome.status, outcome.failure.code) == ("denied", "policy.argument_fixed")
            outcome = await services.run(replace(call, arguments=GIVEN), session, RunOptions(trigger=trigger))
            assert outcome.failure is None
    assert server.calls == [("query", SENT), ("query", SENT)]


async def test_a_plan_is_read_as_its_calls_will_be_made():
    server = ScriptedServer([QUERY, "other"])
    async with gateway(server, {"tools": {"s:query": PRESENTED}}, preflight=True) as made:
        client = await connected(made)
        same = await said(client, "execute_workflow", plan("find_orders", {**GIVEN, "table": "orders"}, dry_run=True))
        other = await said(client, "execute_workflow", plan("find_orders", {**GIVEN, "table": "users"}, dry_run=True))
        without = await said(client, "execute_workflow", plan("find_orders", GIVEN, dry_run=True))
    assert "argument." not in same + without
    assert "is fixed for s:query in the gateway's configuration; leave it out" in other
    assert server.calls == []


async def test_a_rehearsal_sees_what_the_server_would_get():
    server, looks = ScriptedServer([QUERY]), ArgumentLooks("s:query")
    async with gateway(server, {"tools": {"s:query": PRESENTED}}, looks=looks) as made:
        client = await connected(made)
        await client.call("execute_workflow", plan("find_orders", GIVEN, dry_run=True))
        other = plan("find_orders", {**GIVEN, "table": "users"}, dry_run=True)
        refused = await said(client, "execute_workflow", other)
    assert server.calls == []
    assert set(looks.seen[Phase.AUTHORIZE]) == {encode(SENT)}
    assert "is fixed" in refused


async def test_clients_see_what_is_presented_and_the_same_bytes_each_time():
    server = ScriptedServer([QUERY, "other"])
    async with gateway(server, {"tools": {"s:query": PRESENTED}}) as made:
        client = await connected(made)
        first = (await client.send("tools/list", b"{}")).raw
        assert (await client.send("tools/list", b"{}")).raw == first
        tools = {tool["name"]: tool for tool in json.loads(first)["tools"]}
        found = value_of(await client.call("search_tools", {"query": "zookeeper", "detail": "full"}))["tools"]
        stubs = value_of(await client.call("describe_code_tools", {"tools": ["find_orders"], "language": "python"}))
    assert {"find_orders", "s__other"} <= tools.keys()
    shown = tools["find_orders"]
    assert (shown["title"], shown["description"]) == ("Orders", PRESENTED["description"])
    assert shown["inputSchema"] == {
        "type": "object",
        "properties": {"text": {"type": "string"}, "limit": {"type": "integer", "default": 20}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert [(one["name"], one["description"]) for one in found][:1] == [("find_orders", PRESENTED["description"])]
    assert "table" not in json.dumps(found)
    assert "async def find_orders(self" in stubs["stubs"]
    assert "table" not in stubs["stubs"]
    assert stubs["tools"] == ["s:query"]


async def test_history_has_the_tools_own_id():
    server = ScriptedServer([QUERY])
    async with gateway(server, {"tools": {"s:query": PRESENTED}}) as made:
        client = await connected(made)
        await client.call("find_orders", GIVEN)
        page = await made.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=100))
    assert [record.target for record in page.items] == ["s:query"]


@pytest.mark.parametrize("mode", ["full_proxy", "meta_only"])
async def test_what_is_hidden_is_found_by_nobody_and_can_be_called(mode):
    server = ScriptedServer([QUERY, "purge_everything"])
    async with gateway(server, {"tools": {"s:purge_everything": {"hidden": True}}}, mode=mode) as made:
        client = await connected(made)
        assert not any("purge" in name for name in await client.tools())
        for query in ("purge everything", "purge_everything", "s:purge_everything"):
            assert "purge" not in json.dumps(value_of(await client.call("search_tools", {"query": query}))["tools"])
        assert "purge" not in json.dumps(value_of(await client.call("describe_code_tools", {"tools": ["s:*"]})))
        assert not (await client.call("s:purge_everything")).get("isError")
        session = made._services_for("test", None).session(Identity(principal="ada"))
        assert made.catalog.nearest("s__purge_everythin", session) == []
    assert server.calls == [("purge_everything", {})]


async def test_two_tools_of_one_name_keep_a_gateway_from_starting():
    tools = {"s:query": {"name": "find"}, "s:other": {"name": "find"}}
    with pytest.raises(OperatorError, match="'s:query' and 's:other' would both be called 'find'"):
        async with gateway(ScriptedServer([QUERY, "other"]), {"tools": tools}):
            pass


async def test_a_name_of_the_gateways_own_keeps_a_gateway_from_starting():
    with pytest.raises(OperatorError, match=r"'s:query' is to be called 'search_tools', as .* 'pml:search_tools' is"):
        async with gateway(ScriptedServer([QUERY]), {"tools": {"s:query": {"name": "search_tools"}}}):
            pass


@pytest.mark.attack("A name belongs to whom the operator gives it", "list a tool that clients would know by that name")
async def test_a_server_cannot_take_a_name_that_was_given():
    server = ScriptedServer([QUERY, "find_orders"])
    tables = {"tools": {"s:query": {"name": "find_orders"}}}
    async with gateway(server, tables, settings={"prefix": ""}) as made:
        client = await connected(made)
        listed = await client.tools()
        await client.call("find_orders", {"table": "t", "text": "a", "limit": 1})
        (other,) = {name for name in listed if name.startswith("find_orders")} - {"find_orders"}
        await client.call(other)
    assert server.calls == [("query", {"table": "t", "text": "a", "limit": 1}), ("find_orders", {})]


async def test_names_that_fit_nothing_are_told():
    tables = {
        "tools": {"s:qwery": {"hidden": True}},
        "toolsets": {"a": {"servers": ["nobody"], "tools": ["s:oth?r", "s:nothing_like_*"]}},
        "endpoints": {"default": ["a"]},
    }
    async with gateway(ScriptedServer([QUERY, "other"]), tables) as made:
        told = "\n".join(await made.announcement.unmatched(whole=True))
    assert "plugins.presentation.tools: 's:qwery' fits no tool; did you mean 's:query'?" in told
    assert "plugins.presentation.toolsets.a.servers: 'nobody:*' names no server that there is" in told
    assert "plugins.presentation.toolsets.a.tools: 's:nothing_like_*' fits no tool" in told
    assert "oth?r" not in told


TOOLSETS = {
    "tools": {"s:query": {"name": "find_orders", "tags": ["reading"]}},
    "toolsets": {
        "reading": {"tags": ["reading"], "tools": ["*:list_*"]},
        "orders": {"tools": ["s:*order*"], "without": ["s:drop_*"]},
    },
}


async def have(made, **who):
    """Which of the server's tools a client lists, finds and calls."""
    client = await connected(made, **who)
    listed = {name for name in await client.tools() if name.startswith(("s__", "find_orders"))}
    found = set()
    for query in ("query", "list orders", "drop orders", "other"):
        tools = value_of(await client.call("search_tools", {"query": query}))["tools"]
        found |= {tool["name"] for tool in tools if tool["name"].startswith(("s__", "find_orders"))}
    assert found <= listed
    return listed


@pytest.mark.attack("A toolset is a right", "list, find and call what is in no toolset of the endpoint or the key")
async def test_toolsets_are_rights():
    server = ScriptedServer([{"name": "query"}, "list_orders", "list_people", "drop_orders", "other"])
    choice = {"endpoints": {"work": ["reading"]}, "keys": {"bob": ["orders"], "agent:*": ["reading"]}}
    async with gateway(server, {**TOOLSETS, **choice}) as made:
        made.exposures._endpoints["work"] = made.exposures._endpoints["default"]
        everything = {"find_orders", "s__list_orders", "s__list_people", "s__drop_orders", "s__other"}
        assert await have(made) == everything
        assert await have(made, endpoint="work") == {"find_orders", "s__list_orders", "s__list_people"}
        bob = Identity(principal="bob", access_key="k1")
        assert await have(made, identity=bob) == {"s__list_orders"}
        triage = Identity(principal="agent:triage", access_key="k2")
        assert await have(made, identity=triage) == {"find_orders", "s__list_orders", "s__list_people"}
        assert await have(made, identity=bob, endpoint="work") == {"s__list_orders"}
        server.calls.clear()
        client = await connected(made, identity=bob)
        for name, arguments in {
            "s:drop_orders": {},
            "s__drop_orders": {},
            "drop_orders": {},
            "find_orders": {},
            "s:Other": {},
            "call_tool": {"name": "s:drop_orders", "arguments": {}},
            "execute_workflow": plan("s:drop_orders", {}),
        }.items():
            answer = await said(client, name, arguments)
            assert "nknown" in answer or "has no tool" in answer, answer
        coded = json.dumps(await client.call("execute_workflow", code("drop_orders", {})))
        assert "nknown" in coded
        assert server.calls == []
        assert not (await client.call("s:list_orders")).get("isError")


@pytest.mark.attack("A fixed argument has its value", "learn what is fixed of a tool that one may not have")
async def test_who_may_not_have_a_tool_learns_nothing_of_it():
    tables = {**TOOLSETS, "tools": {"s:query": {**PRESENTED, "tags": ["reading"]}}, "keys": {"bob": ["orders"]}}
    server = ScriptedServer([QUERY, "list_orders"])
    async with gateway(server, tables) as made:
        client = await connected(made, identity=Identity(principal="bob", access_key="k1"))
        known = await said(client, "s:query", {**GIVEN, "table": "users"})
        unknown = await said(client, "s:quory", {**GIVEN, "table": "users"})
    assert server.calls == []
    assert "fixed" not in known
    assert known.replace("query", "quory") == unknown
