"""Clients without a handshake (MCP 2026-07-28), as the gateway itself answers them."""

from __future__ import annotations

import asyncio
import json
from importlib import metadata

import pytest

from pml_hookspecs import RawObject, RpcError, Status
from pml_kit.json_members import split
from pml_kit.mcp.protocol import META_CLIENT_CAPABILITIES, META_PROTOCOL_VERSION, META_SERVER_INFO
from pml_mcp.clients.introduction import CAPABILITIES
from pml_testing.gateway import Client, ScriptedServer, error_of, running, until
from pml_testing.scripted import ABOUT, offering

pytestmark = pytest.mark.anyio
ABOUT_US = {"name": "pml", "title": "PML gateway", "version": metadata.version("pml-core")}
STAMP = {META_SERVER_INFO: ABOUT_US}
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"

either_peer = pytest.mark.parametrize("stateless", [False, True])
either_era = pytest.mark.parametrize("eras", [["legacy"], ["modern"], ["legacy", "modern"]])


def enveloped(text: str, **meta) -> bytes:
    """Params as text, with the envelope behind what they say."""
    envelope = json.dumps({META_PROTOCOL_VERSION: "2026-07-28", META_CLIENT_CAPABILITIES: {}, **meta})
    return f'{text.rstrip()[:-1]},"_meta":{envelope}}}'.encode()


# The envelope


@either_peer
async def test_a_client_can_discover_what_the_gateway_is(stateless):
    async with running({}) as made:
        client = Client(made, modern=True, stateless=stateless)
        answer = await client.request("server/discover")
        assert answer["supportedVersions"] == ["2026-07-28"]
        assert answer["capabilities"] == {**CAPABILITIES, "extensions": {"io.modelcontextprotocol/tasks": {}}}
        assert answer["instructions"].startswith("Gateway to several MCP servers.")
        assert (answer["resultType"], answer["ttlMs"], answer["cacheScope"]) == ("complete", 0, "private")
        assert answer["_meta"] == STAMP


@either_peer
@pytest.mark.parametrize("version", [5, None, ["2026-07-28"], {}, True])
async def test_a_revision_that_is_no_text_is_refused(version, stateless):
    async with running({}) as made:
        client = Client(made, modern=True, stateless=stateless)
        error = await error_of(client.request("tools/list", {"_meta": {META_PROTOCOL_VERSION: version}}))
        assert (error.code, META_PROTOCOL_VERSION in error.message) == (-32602, True)


@either_peer
@pytest.mark.parametrize("version", ["2025-11-25", "2099-01-01", "", "2026-07-28 "])
async def test_a_revision_that_is_not_spoken_is_refused_with_those_that_are(version, stateless):
    async with running({}) as made:
        client = Client(made, modern=True, stateless=stateless)
        error = await error_of(client.request("server/discover", {"_meta": {META_PROTOCOL_VERSION: version}}))
        assert error.to_wire() == {
            "code": -32022,
            "message": "Unsupported protocol version",
            "data": {"supported": ["2026-07-28"], "requested": version},
        }


@either_peer
@pytest.mark.parametrize("able", [None, "x", [], 5, True])
async def test_capabilities_that_are_no_object_are_refused(able, stateless):
    async with running({}) as made:
        client = Client(made, modern=True, stateless=stateless)
        error = await error_of(client.request("tools/list", {"_meta": {META_CLIENT_CAPABILITIES: able}}))
        assert (error.code, META_CLIENT_CAPABILITIES in error.message) == (-32602, True)


@either_peer
@pytest.mark.parametrize("missing", [META_PROTOCOL_VERSION, META_CLIENT_CAPABILITIES])
async def test_an_envelope_that_is_not_complete_is_refused(missing, stateless):
    async with running({}) as made:
        client = Client(made, modern=True, stateless=stateless)
        meta = {k: v for k, v in client.meta().items() if k != missing}
        error = await error_of(client.send("tools/list", json.dumps({"_meta": meta}).encode()))
        assert (error.code, missing in error.message) == (-32602, True)


async def test_an_envelope_whose_slashes_are_written_as_escapes_is_one():
    async with running({}) as made:
        raw = json.dumps({"_meta": Client(made, modern=True).meta()}).replace("/", "\\/").encode()
        assert (await Client(made).send("tools/list", raw))["resultType"] == "complete"


@pytest.mark.parametrize("raw", [b"{}", b'{"_meta":null}', b'{"_meta":{}}', b'{"_meta":{"traceparent":"x"}}'])
async def test_a_request_that_must_stand_alone_needs_the_envelope(raw):
    async with running({}) as made:
        client = Client(made, stateless=True)
        for method in ("tools/list", "initialize", "server/discover"):
            assert (await error_of(client.send(method, raw))).code in (-32602, -32601)
        assert (await error_of(client.send("tools/list", raw))).code == -32602


@either_peer
@pytest.mark.parametrize(
    "method",
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "nonsense", ""],
)
async def test_methods_that_this_era_does_not_have_are_not_found(method, stateless):
    server = offering("r:1")
    async with running({"a": server, "b": ScriptedServer()}) as made:
        client = Client(made, modern=True, stateless=stateless)
        assert (await error_of(client.request(method, {"uri": "r:1", "level": "info"}))).code == -32601
        assert "resources/subscribe" not in [m for m, _ in server.asked]


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen"])
async def test_methods_that_the_other_era_does_not_have_are_not_found(method):
    server = ScriptedServer(eras=["legacy", "modern"])
    async with running({"only": server}) as made:
        client = Client(made)
        await client.initialize()
        before = len(server.raw)
        assert (await error_of(client.request(method, {"notifications": {}}))).code == -32601
        assert len(server.raw) == before


# What results say


@either_peer
@either_era
async def test_every_result_says_that_it_is_one_and_whose(eras, stateless):
    server = offering(
        "r:1",
        eras=eras,
        resources__read={"contents": []},
        prompts__list={"prompts": [{"name": "p"}]},
        prompts__get={"messages": []},
        completion__complete={"completion": {"values": []}},
        resources__templates__list={"resourceTemplates": []},
    )
    async with running({"a": server}, settings={"era": "client" if "modern" in eras else "legacy"}) as made:
        client = Client(made, modern=True, stateless=stateless)
        requests = {
            "tools/list": {},
            "tools/call": {"name": "a__read"},
            "resources/list": {},
            "resources/templates/list": {},
            "resources/read": {"uri": "r:1"},
            "prompts/list": {},
            "prompts/get": {"name": "a__p"},
            "completion/complete": {"ref": {"type": "ref/prompt", "name": "a__p"}, "argument": {}},
        }
        for method, params in requests.items():
            answer = await client.request(method, params)
            assert answer["resultType"] == "complete", method
            assert answer["_meta"][META_SERVER_INFO]["name"] in ("pml", "scripted"), method
            cacheable = method.endswith("/list") or method == "resources/read"
            scope = "public" if method == "tools/list" else "private"  # the meta-tools are the same for everybody
            assert (answer.get("ttlMs"), answer.get("cacheScope")) == ((0, scope) if cacheable else (None, None))
        assert client.late == []


async def test_a_client_with_a_handshake_gets_results_without_any_of_that():
    async with running({"a": offering("r:1", resources__read={"contents": []})}) as made:
        client = Client(made)
        await client.initialize()
        assert await client.request("resources/read", {"uri": "r:1"}) == {"contents": []}
        assert await client.request("prompts/list") == {"prompts": []}


@either_peer
async def test_what_a_server_says_itself_is_left_as_it_is(stateless):
    own = {
        "_meta": {META_SERVER_INFO: {"name": "own", "version": "7"}, "x/y": 1},
        "resultType": "complete",
        "contents": [],
        "ttlMs": 60_000,
        "cacheScope": "public",
    }
    task = {"resultType": "task", "task": {"taskId": "t"}, "_meta": {"x": 1}}
    server = offering("r:1", eras=["modern"], resources__read=own)
    server.script = [task]
    async with running({"a": server}) as made:
        client = Client(made, modern=True, stateless=stateless)
        assert await client.request("resources/read", {"uri": "r:1"}) == own
        assert await client.call("a__read") == {**task, "_meta": {"x": 1, META_SERVER_INFO: ABOUT}}


BYTES = (
    b'{ "content" : [ {"type":"text", "text":"\\u00e9\\/"} ],\n "n":123456789012345678901234567890, '
    b'"e":1E+2, "z":1.0,"a":-0 , "structuredContent":{"b":1,"a":1e400}'
)


@either_peer
@either_era
@pytest.mark.parametrize("end", [b"}", b' ,"_meta" : {"k":1E+2,"big":123456789012345678901234567890}}', b"\n }"])
async def test_the_bytes_of_a_result_are_not_touched(end, eras, stateless):
    async def answers(name, arguments):
        return RawObject(BYTES + end)

    async with running({"a": ScriptedServer(["read"], answers, eras=eras)}) as made:
        raw = (
            await Client(made, modern=True, stateless=stateless).send("tools/call", enveloped('{"name":"a__read"}'))
        ).raw
        before, after = split(BYTES + end), split(raw)
        kept, meta = before.pop("_meta", None), after.pop("_meta")
        assert bytes(after.pop("resultType")) == b'"complete"'
        assert [(k, bytes(v)) for k, v in after.items()] == [(k, bytes(v)) for k, v in before.items()]
        for name, value in ({} if kept is None else split(kept)).items():
            assert bytes(split(meta)[name]) == bytes(value)
        assert json.loads(bytes(meta))[META_SERVER_INFO] == ABOUT


@pytest.mark.parametrize("empty", [b"{}", b"{ }", b"{\n\t}", b" {} "])
async def test_an_empty_result_stays_one_apart_from_what_is_added(empty):
    async def answers(name, arguments):
        return RawObject(empty)

    async with running({"a": ScriptedServer(["read"], answers)}) as made:
        answer = await Client(made, modern=True).send("tools/call", enveloped('{"name":"a__read"}'))
        assert answer.value == {"resultType": "complete", "_meta": {META_SERVER_INFO: ABOUT}}


@either_peer
@either_era
async def test_the_bytes_of_a_request_are_not_touched(eras, stateless):
    arguments = '{"z":123456789012345678901234567890,"a":1E+2,"m":{"b" : 1.0,"a":null},"u":"\\u00e9\\/"}'
    server = ScriptedServer(["read"], eras=eras)
    async with running({"a": server}) as made:
        client = Client(made, modern=True, stateless=stateless)
        text = f'{{"arguments":{arguments},"x-extra":1E+2,"name":"a__read"}}'
        await client.send("tools/call", enveloped(text, traceparent="00-1-2-3", **{"vendor/x": [1]}))
        method, raw = server.raw[-1]
        assert method == "tools/call"
        assert bytes(split(raw)["arguments"]) == arguments.encode()
        assert bytes(split(raw)["x-extra"]) == b"1E+2"
        meta = RawObject(raw)["_meta"]
        assert (meta["traceparent"], meta["vendor/x"]) == ("00-1-2-3", [1])
        assert (META_PROTOCOL_VERSION in meta) is ("modern" in eras)


@pytest.mark.parametrize("odd", ['"\\ud800 alone"', "NaN", "-Infinity"])
async def test_what_others_take_for_json_passes_too(odd):
    server = ScriptedServer(["read"])
    async with running({"a": server}) as made:
        text = f'{{"name":"a__read","arguments":{{"odd":{odd}}}}}'
        await Client(made, modern=True).send("tools/call", enveloped(text))
        assert repr(server.calls[-1][1]["odd"]) == repr(json.loads(odd))


@either_peer
@either_era
@pytest.mark.parametrize("data", [None, {"a": [1]}, "text", 0])
async def test_a_servers_error_passes_as_it_is(eras, data, stateless):
    server = ScriptedServer(["read"], eras=eras)
    server.script = [RpcError(-31234, "no é", data)]
    async with running({"a": server}) as made:
        client = Client(made, modern=True, stateless=stateless)
        error = await error_of(client.request("tools/call", {"name": "a__read", "arguments": {}}))
        assert (error.code, error.message, error.data) == (-31234, "no é", data)


@either_peer
async def test_a_resource_that_is_not_there_is_an_invalid_parameter(stateless):
    async with running({}) as made:
        client = Client(made, modern=True, stateless=stateless)
        error = await error_of(client.request("resources/read", {"uri": "r:none"}))
        assert (error.code, error.data) == (-32602, {"uri": "r:none"})


# What a client hears, and what it does not


def telling(*, eras=("legacy",)):
    """A server whose tools tell of progress and write to the log as their arguments say."""
    server = ScriptedServer(["tell"], eras=eras)
    gates: dict[str, asyncio.Event] = {}

    async def answer(name, arguments):
        token = (server.params[-1].get("_meta") or {}).get("progressToken")
        who = arguments["who"]
        gates[who] = asyncio.Event()
        if arguments.get("wait"):
            await gates[who].wait()
        if token is not None:
            server.tell("notifications/progress", {"progressToken": token, "progress": 1, "message": who})
        for level in arguments.get("levels", ()):
            server.tell("notifications/message", {"level": level, "data": who})
        return {"content": []}

    server.answer = answer
    return server, gates


@either_peer
@either_era
@pytest.mark.parametrize("token", ["t", 7, 0, ""])
async def test_progress_comes_under_the_clients_own_token(eras, token, stateless):
    server, _ = telling(eras=eras)
    async with running({"a": server}) as made:
        client = Client(made, modern=True, stateless=stateless)
        await client.call("a__tell", {"who": "x"}, _meta={"progressToken": token})
        told = [dict(p) for m, p in client.link.notified if m == "notifications/progress"]
        assert told == [{"progressToken": token, "progress": 1, "message": "x"}]
        assert client.late == []


@either_peer
@either_era
async def test_two_clients_with_one_token_hear_each_their_own(eras, stateless):
    server, gates = telling(eras=eras)
    async with running({"a": server}) as made:
        one = Client(made, modern=True, stateless=stateless)
        two = Client(made, modern=True, stateless=stateless, behind=one if stateless else None)
        calls = [
            asyncio.ensure_future(c.call("a__tell", {"who": who, "wait": True}, _meta={"progressToken": "same"}))
            for c, who in ((one, "one"), (two, "two"))
        ]
        await until(lambda: len(gates) == 2)
        gates["two"].set()
        gates["one"].set()
        await asyncio.gather(*calls)
        for client, who in ((one, "one"), (two, "two")):
            assert [p["message"] for m, p in client.link.notified if m == "notifications/progress"] == [who]


@either_peer
@either_era
@pytest.mark.parametrize(
    ("level", "heard"),
    [(None, []), ("warning", ["warning", "error"]), ("debug", ["debug", "warning", "error"])],
)
async def test_log_messages_come_only_to_who_asked_for_them(eras, level, heard, stateless):
    server, _ = telling(eras=eras)
    async with running({"a": server}) as made:
        client, other = (Client(made, modern=True, stateless=stateless, log_level=v) for v in (level, "debug"))
        await client.call("a__tell", {"who": "x", "levels": ["debug", "warning", "error"]})
        assert [p["level"] for m, p in client.link.notified if m == "notifications/message"] == heard
        assert other.link.notified == []


async def test_log_messages_reach_nobody_where_they_may_be_about_another_principal():
    server, gates = telling()
    async with running({"a": server}) as made:
        people = [
            Client(made, modern=True, stateless=True, log_level="debug", principal=name) for name in ("ann", "bob")
        ]
        calls = [
            asyncio.ensure_future(c.call("a__tell", {"who": c.meta, "wait": True} | {"who": n, "levels": ["error"]}))
            for c, n in zip(people, ("ann", "bob"), strict=True)
        ]
        await until(lambda: len(gates) == 2)
        gates["ann"].set()
        await calls[0]
        assert [c.link.notified for c in people] == [[], []]
        gates["bob"].set()
        await calls[1]
        assert [len(c.link.notified) for c in people] == [0, 1]


@either_peer
@either_era
async def test_a_request_that_is_taken_back_cancels_the_servers_work(eras, stateless):
    began, ended = asyncio.Event(), asyncio.Event()

    async def never(name, arguments):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running({"a": ScriptedServer(["read"], never, eras=eras)}) as made:
        for able in ({}, {"elicitation": {}}):
            client = Client(made, modern=True, stateless=stateless, capabilities=able)
            began.clear(), ended.clear()
            call = asyncio.ensure_future(client.call("a__read"))
            await began.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert ended.is_set()
        assert {r.status for r in made.store.executions.records.values()} == {Status.CANCELLED}


async def test_the_record_of_a_call_names_its_own_client_also_among_several_of_one_principal():
    gate = asyncio.Event()

    async def slow(name, arguments):
        await gate.wait()
        return {"content": []}

    async with running({"a": ScriptedServer(["read"], slow)}) as made:
        options = {"modern": True, "stateless": True, "capabilities": {"elicitation": {}}}
        one = Client(made, info={"name": "one", "version": "1"}, **options)
        two = Client(made, info={"name": "two", "version": "1"}, behind=one, **options)
        calls = [asyncio.ensure_future(c.call("a__read")) for c in (one, two)]
        gate.set()
        await asyncio.gather(*calls)
        assert sorted(r.agent for r in made.store.executions.records.values()) == ["client:one", "client:two"]


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover", "prompts/list"])
@pytest.mark.parametrize("level", ["loud", "DEBUG", 7, ["info"]])
async def test_a_log_level_that_there_is_not_is_refused(method, level):
    async with running({"fs": ScriptedServer()}) as made:
        error = await error_of(Client(made, modern=True, log_level=level).request(method, {"name": "fs__read_file"}))
        assert error.code == -32602
        assert "one of debug, info, notice" in error.message
        assert await Client(made, modern=True, log_level="notice").request(method, {"name": "fs__read_file"})
