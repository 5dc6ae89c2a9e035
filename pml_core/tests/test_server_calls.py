from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pml_catalog.live import make_entry
from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import Origin, Peer, RawObject, RpcError, Status, TransportError, encode, replace
from pml_settings.config import ServerSettings
from pml_testing.downstream import Lister, named, records
from pml_testing.gateway import Client, ScriptedLink, ScriptedServer, ScriptedTransport, configuration, running

pytestmark = pytest.mark.anyio


async def test_a_call_while_the_server_is_starting_waits_for_it():
    server = Lister({None: {"tools": named("read")}})
    server.gate = asyncio.Event()
    async with running({"fs": server}, list_wait_s=0.01) as made:
        made.catalog.publish("fs", [])
        made.catalog.publish("fs", [make_entry("fs", {"name": "read"})])  # known from last time
        call = asyncio.ensure_future(Client(made).call("fs__read", {"a": 1}))
        await asyncio.sleep(0.01)
        assert not call.done()
        server.gate.set()
        assert (await call)["structuredContent"] == {"a": 1}


async def test_a_call_that_is_not_answered_in_time_ends_alone():
    gate = asyncio.Event()

    async def slow(name, arguments):
        if name == "slow":
            await gate.wait()
        return {"content": [], "structuredContent": {"name": name}}

    async with running({"fs": ScriptedServer(["slow", "fast"], slow)}, call_timeout_s=0.1) as made:
        client = Client(made)
        late, fast = await asyncio.gather(client.call("fs__slow"), client.call("fs__fast"))
        assert fast["structuredContent"] == {"name": "fast"}
        assert late["isError"] is True
        assert "0.1 s" in late["content"][0]["text"]
        assert late["_meta"]["pml/failure"]["code"] == "tool.timed_out"
        assert late["_meta"]["pml/failure"]["retryable"] is True
        assert {r.status for r in await records(made)} == {Status.OK, Status.TIMED_OUT}
        gate.set()
        assert (await client.call("fs__slow"))["structuredContent"] == {"name": "slow"}


async def test_a_servers_own_time_limit_wins_over_the_gateways():
    async def never(name, arguments):
        await asyncio.Event().wait()

    config = configuration([], call_timeout_s=50.0)
    config = replace(config, servers={"fs": ServerSettings(address="scripted:fs", timeout_s=0.05)})
    found = [registry.provide("pml.transport", "scripted", ScriptedTransport({"fs": ScriptedServer(["read"], never)}))]
    async with Gateway(config, records=found) as made, asyncio.timeout(30):
        await made.servers_tried()
        assert "0.05 s" in (await Client(made).call("fs__read"))["content"][0]["text"]


async def test_a_call_to_a_server_that_is_not_connected_says_so_and_why(quick):
    bad = ScriptedServer()
    bad.refuse = "no such program"
    async with running({"bad": bad, "fs": ScriptedServer()}) as made:
        client = Client(made)
        for name in ("bad:x", "bad__x"):
            result = await client.call(name)
            assert result["isError"] is True
            assert result["content"] == [{"type": "text", "text": "MCP server bad not connected: no such program"}]
        unknown = (await client.call("nosuch:x"))["content"][0]["text"]
        assert unknown.startswith("MCP server nosuch not connected")
        assert "bad, fs" in unknown


async def test_a_connection_lost_during_a_call_is_a_result_that_says_so():
    async def dies(name, arguments):
        raise TransportError("the process ended with status 9", retryable=True)

    async with running({"fs": ScriptedServer(["read"], dies)}) as made:
        result = await Client(made).call("fs__read")
        assert result["content"][0]["text"] == "MCP server fs not connected: the process ended with status 9"


@pytest.mark.parametrize(
    "error", [RpcError(-32050, "no", {"path": "/x", "n": [1, None]}), RpcError(-32602, "bad"), RpcError(7, "")]
)
async def test_a_servers_json_rpc_error_reaches_the_client_verbatim(error):
    async def refuses(name, arguments):
        raise error

    async with running({"fs": ScriptedServer(["read"], refuses)}) as made:
        with pytest.raises(RpcError) as caught:
            await Client(made).call("fs__read")
        assert caught.value.to_wire() == error.to_wire()
        assert [r.status for r in await records(made)] == [Status.ERROR]


async def test_a_tools_own_error_result_reaches_the_client_verbatim_and_is_recorded_as_an_error():
    answer = {
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        "isError": True,
        "x-more": {"a": 1},
    }

    async def fails(name, arguments):
        return answer

    async with running({"fs": ScriptedServer(["read"], fails)}) as made:
        assert await Client(made).call("fs__read") == answer
        (record,) = await records(made)
        assert (record.status, record.failure.code, record.failure.message) == (Status.ERROR, "tool.failed", "one\ntwo")
        assert record.response == answer


@pytest.mark.parametrize("content", [[], None, [{"type": "image"}], [{"text": 5}], "text"])
async def test_an_error_result_without_text_still_has_a_message_in_the_record(content):
    async def fails(name, arguments):
        return {"content": content, "isError": True}

    async with running({"fs": ScriptedServer(["read"], fails)}) as made:
        await Client(made).call("fs__read")
        (record,) = await records(made)
        assert record.failure.message == "fs:read failed without a message."


async def test_a_result_that_only_mentions_is_error_is_no_error():
    async def answers(name, arguments):
        return {"content": [{"type": "text", "text": '"isError": true'}], "isError": False}

    async with running({"fs": ScriptedServer(["read"], answers)}) as made:
        await Client(made).call("fs__read")
        assert [r.status for r in await records(made)] == [Status.OK]


async def test_members_of_params_that_nobody_knows_pass_through_as_they_came(sent):
    async with running({"fs": ScriptedServer(["read"])}) as made:
        link = ScriptedLink(ScriptedServer())
        handler = made.accept(link, Peer(address="t"))
        arguments = b'{"z":1,"a":123456789012345678901234567890,"f":1.0,"e":1E+2,"n":null,"u":"\\u00e9 \\/"}'
        raw = (
            b'{"_meta":{"k":[1.0,null],"pml/intent":"x"},"name":"fs__read","arguments":'
            + arguments
            + b',"task":{"ttl":1.50}}'
        )
        await handler.request("tools/call", RawObject(raw), Origin(1, link))
    method, params = sent[-1]
    assert method == "tools/call"
    assert params.startswith(b'{"name":"read","arguments":' + arguments + b",")
    rest = json.loads(params)
    assert (rest["_meta"], rest["task"]) == ({"k": [1.0, None], "pml/intent": "x"}, {"ttl": 1.5})
    assert b'"task":{"ttl":1.50}' in params


@pytest.mark.parametrize("given", [{}, {"arguments": None}, {"arguments": {}}])
async def test_missing_arguments_are_an_empty_object(sent, given):
    async with running({"fs": ScriptedServer(["read"])}) as made:
        await Client(made).request("tools/call", {"name": "fs__read", **given})
    assert sent[-1][1] == b'{"name":"read","arguments":{}}'


async def test_a_tools_name_reaches_its_server_as_the_server_spells_it(sent):
    for name in ('quo"te', "sp ace", "ü", "a:b", "x" * 90):
        async with running({"fs": ScriptedServer([name])}) as made:
            await Client(made).call(made.catalog.exposed_name(f"fs:{name}"))
        assert json.loads(sent[-1][1])["name"] == name


# Progress and requests of the server


class Reporting(ScriptedServer):
    """Reports progress under the token of each call before it answers."""

    def __init__(self) -> None:
        super().__init__(["read"])
        self.tokens: list[Any] = []

    async def serve(self, method, params):
        if method == "tools/call":
            token = params.get("_meta", {}).get("progressToken")
            self.tokens.append(token)
            note = {"progressToken": token, "progress": 1, "total": 2, "message": params["arguments"].get("who", "")}
            self.handler.notification("notifications/progress", RawObject(encode(note)))
        return await super().serve(method, params)


async def test_progress_reaches_the_client_that_asked_under_its_own_token():
    server = Reporting()
    async with running({"fs": server}) as made:
        one, other = Client(made), Client(made)
        await asyncio.gather(
            one.call("fs__read", {"who": "one"}, _meta={"progressToken": "t", "k": 1}),
            other.call("fs__read", {"who": "other"}, _meta={"progressToken": "t"}),
        )
        assert one.link.notified == [
            ("notifications/progress", {"progressToken": "t", "progress": 1, "total": 2, "message": "one"})
        ]
        assert [n["message"] for _, n in other.link.notified] == ["other"]
        assert len(set(server.tokens)) == 2
        assert server.params[0]["_meta"]["k"] == 1
        assert "t" not in server.tokens


@pytest.mark.parametrize("token", [0, 7, "", "x"])
async def test_any_progress_token_of_a_client_comes_back_as_it_was(token):
    async with running({"fs": Reporting()}) as made:
        client = Client(made)
        await client.call("fs__read", _meta={"progressToken": token})
        assert [n["progressToken"] for _, n in client.link.notified] == [token]


async def test_without_a_token_the_server_is_given_none_and_nobody_is_told():
    server = Reporting()
    async with running({"fs": server}) as made:
        client = Client(made)
        await client.call("fs__read", _meta={"k": 1})
        assert (server.tokens, client.link.notified) == ([None], [])


@pytest.mark.parametrize(
    "params", [{}, {"progressToken": 99}, {"progressToken": []}, {"progressToken": {}}, {"progressToken": None}]
)
async def test_progress_that_belongs_to_no_call_is_dropped(params):
    server = Reporting()
    async with running({"fs": server}) as made:
        client = Client(made)
        await client.call("fs__read", _meta={"progressToken": 1})
        server.handler.notification("notifications/progress", RawObject(encode(params)))
        assert len(client.link.notified) == 1


async def test_a_server_may_ping_and_is_told_that_no_client_is_there():
    server = ScriptedServer()
    async with running({"fs": server}, log_level="debug"):
        assert await server.handler.request("ping", RawObject(b"{}"), Origin(1, server.link)) == {}
        with pytest.raises(RpcError) as caught:
            await server.handler.request("sampling/createMessage", RawObject(b"{}"), Origin(2, server.link))
        assert caught.value.code == -31999
        server.handler.notification("notifications/message", RawObject(b"{}"))
