"""In which era a server is spoken to, and how that is found out."""

from __future__ import annotations

import asyncio
import json

import pytest

from pml_hookspecs import RpcError, TransportError
from pml_kit.mcp.protocol import META_PROTOCOL_VERSION
from pml_mcp.servers.connection import eras
from pml_testing.gateway import ABOUT_CLIENT, Client, ScriptedServer, running, until

pytestmark = pytest.mark.anyio
ABLE = {"elicitation": {}, "sampling": {}, "roots": {}}


async def older(made):
    client = Client(made)
    await client.initialize(ABLE)
    return client


def newer(made, **options):
    return Client(made, modern=True, capabilities=ABLE, **options)


def firsts(server):
    """What each connection began with."""
    return [link.requested[0] if link.requested else None for link in server.links]


async def test_a_server_of_both_eras_has_one_connection_for_each_that_is_used():
    server = ScriptedServer(["do"], eras=["legacy", "modern"])
    async with running({"a": server}) as made:
        client = await older(made)
        await client.call("a__do")
        assert firsts(server) == ["initialize"]
        for other in (newer(made), newer(made, stateless=True)):
            await other.call("a__do")
        assert firsts(server) == ["initialize", "server/discover"]
        await client.call("a__do")
        assert [link.requested.count("tools/call") for link in server.links] == [2, 2]


@pytest.mark.parametrize(
    ("era", "expected"), [("client", ["server/discover"]), ("legacy", ["initialize"]), ("modern", ["server/discover"])]
)
async def test_with_one_client_a_server_is_spoken_to_in_its_era_or_as_configured(era, expected):
    server = ScriptedServer(["do"], eras=["legacy", "modern"])
    async with running({"a": server}, one_client=True, settings={"era": era}) as made:
        client = newer(made)
        await client.request("server/discover")
        assert (await client.call("a__do"))["resultType"] == "complete"
        assert firsts(server) == expected
        assert len(server.links) == 1
        if expected == ["initialize"]:
            assert server.hello["capabilities"] == ABLE


async def test_with_one_client_of_the_older_era_nothing_is_probed():
    server = ScriptedServer(["do"], eras=["legacy", "modern"])
    async with running({"a": server}, one_client=True) as made:
        client = await older(made)
        await client.call("a__do")
        assert firsts(server) == ["initialize"]
        assert "server/discover" not in server.links[0].requested


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_does_not_speak_the_configured_era_is_down_and_says_so(era):
    other = {"legacy": "modern", "modern": "legacy"}[era]
    server = ScriptedServer(["do"], eras=[other])
    async with running({"a": server}, settings={"era": era}) as made:
        status = made.catalog.status("a")
        assert (status.state, "refused the handshake" in status.reason) == ("down", True)
        assert firsts(server)[0] == {"legacy": "initialize", "modern": "server/discover"}[era]


async def test_a_server_that_refuses_the_handshake_is_asked_whether_it_can_do_without():
    server = ScriptedServer(["do"], eras=["modern"])
    async with running({"a": server}) as made:
        assert made.catalog.status("a").state == "up"
        assert server.links[0].requested == ["initialize", "server/discover", "tools/list"]
        client = await older(made)
        assert (await client.call("a__do"))["content"]
        assert (await newer(made).call("a__do"))["content"]
        assert len(server.links) == 1


async def test_a_server_that_refuses_both_says_why_it_refused_the_handshake():
    server = ScriptedServer(["do"], eras=[])
    async with running({"a": server}) as made:
        assert "Unsupported protocol version" in made.catalog.status("a").reason


@pytest.mark.parametrize(("supported", "again"), [(["2026-07-28"], True), (["2099-01-01"], False), (None, False)])
async def test_a_server_that_refuses_a_revision_and_names_it_among_its_own_is_asked_once_more(supported, again):
    async def discover(params):
        said.append(params["_meta"][META_PROTOCOL_VERSION])
        if len(said) == 1:
            raise RpcError(-32022, "Unsupported protocol version", {"supported": supported})
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}

    said, server = [], ScriptedServer(["do"], eras=["modern", "legacy"])
    server.others["server/discover"] = discover
    async with running({"a": server}, one_client=True) as made:
        client = newer(made)
        await client.request("server/discover")
        await client.call("a__do")
        first = ["server/discover", "server/discover" if again else "initialize"]
        assert server.links[0].requested[:2] == first
    assert said == ["2026-07-28"] * (1 + again)


def never_modern(how):
    """A server with a handshake only, which takes ``server/discover`` badly."""
    server = ScriptedServer(["do"])
    error = {"unknown": RpcError(-32601, "Method not found"), "early": RpcError(-32602, "not initialized")}.get(how)

    async def discover(params):
        if error is not None:
            raise error
        if how == "hangs":
            await asyncio.Event().wait()
        if how == "other":
            return {"supportedVersions": ["2099-01-01"], "capabilities": {}}
        if how == "nonsense":
            return {"hello": "there"}
        server.lose("it died of server/discover")
        raise TransportError("it died of server/discover", retryable=True)

    server.others["server/discover"] = discover
    return server


HOWS = ["unknown", "early", "hangs", "closes", "other", "nonsense"]


@pytest.mark.parametrize("how", HOWS)
async def test_with_one_client_a_server_that_cannot_do_without_a_handshake_gets_one(how, monkeypatch):
    monkeypatch.setattr(eras, "PROBE_S", 0.05)
    server = never_modern(how)
    async with running({"a": server}, one_client=True) as made:
        client = newer(made)
        await client.request("server/discover")
        assert (await client.call("a__do"))["resultType"] == "complete"
        spent = how in ("hangs", "closes")
        assert firsts(server)[: 1 + spent] == ["server/discover", "initialize"][: 1 + spent]
        assert made.catalog.status("a").state == "up"
        assert (await client.call("a__do"))["resultType"] == "complete"
        assert len(server.links) == 1 + spent  # what was learnt is not tried out again
        assert server.hello["capabilities"] == ABLE


@pytest.mark.parametrize("how", HOWS)
async def test_with_several_clients_one_is_bridged_where_the_server_speaks_the_other_era_only(how, monkeypatch):
    monkeypatch.setattr(eras, "PROBE_S", 0.05)
    server = never_modern(how)
    async with running({"a": server}) as made:
        for _ in range(2):
            assert (await newer(made).call("a__do"))["resultType"] == "complete"
        assert firsts(server)[:2] == ["initialize", "server/discover"]
        assert len(server.links) == 2
        client = await older(made)
        await client.call("a__do")
        assert len(server.links) == 2
        assert made.catalog.status("a").state == "up"


async def test_a_server_that_wants_a_login_without_a_handshake_and_refuses_one_says_that_it_wants_a_login():
    async def discover(params):
        raise TransportError("log in first", retryable=True)

    server = ScriptedServer(["do"], eras=["modern"])
    server.others["server/discover"] = discover
    async with running({"a": server}, one_client=True) as made:
        await newer(made).request("server/discover")
        await until(lambda: made.catalog.status("a").state == "down")
        assert firsts(server)[:2] == ["server/discover", "initialize"]
        assert made.catalog.status("a").reason == "log in first"
        del server.others["server/discover"]
        await until(lambda: made.catalog.status("a").state == "up")


async def test_half_of_the_time_for_a_start_is_kept_for_the_handshake(monkeypatch):
    server = never_modern("hangs")
    async with running({"a": server}, one_client=True, start_timeout_s=0.2) as made:
        client = newer(made)
        await client.request("server/discover")
        assert (await client.call("a__do"))["resultType"] == "complete"


async def test_a_server_that_is_started_again_is_not_probed_again(monkeypatch):
    monkeypatch.setattr("pml_mcp.servers.connection.backoff.FIRST_S", 0.001)
    server = never_modern("closes")
    async with running({"a": server}, one_client=True) as made:
        client = newer(made)
        await client.call("a__do")
        server.lose()
        await until(lambda: len(server.links) == 3 and made.catalog.status("a").state == "up")
        assert firsts(server) == ["server/discover", "initialize", "initialize"]


async def test_a_server_that_answers_neither_at_first_is_tried_in_both_again(monkeypatch):
    monkeypatch.setattr("pml_mcp.servers.connection.backoff.FIRST_S", 0.001)
    server = ScriptedServer(["do"], eras=["modern"])
    serve, failing = server.serve, [True]

    async def dies_first(method, params):
        if failing:
            failing.clear()
            server.lose("crashed")
            raise TransportError("crashed", retryable=True)
        return await serve(method, params)

    server.serve = dies_first
    async with running({"a": server}, one_client=True) as made:
        client = newer(made)
        await client.request("server/discover")
        await until(lambda: made.catalog.status("a").state == "up")
        assert (await client.call("a__do"))["resultType"] == "complete"


async def test_a_client_may_try_one_era_and_go_on_in_the_other():
    async with running({"a": ScriptedServer(["do"])}) as made:
        client = Client(made)
        await client.send("server/discover", json.dumps({"_meta": newer(made).meta()}).encode())
        assert (await client.initialize())["serverInfo"]["name"] == "scripted"
        assert (await client.call("a__do"))["content"]
        assert ABOUT_CLIENT["name"] in next(iter(made.store.executions.records.values())).agent
