"""Servers see who the client is where a connection is its own, in both eras; elsewhere the gateway stands for all."""

from __future__ import annotations

import pytest

from pml_kit.mcp.protocol import META_CLIENT_INFO
from pml_testing.gateway import ABOUT_CLIENT, Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
ME = {"name": "desk", "title": "The desk", "version": "3", "websiteUrl": "https://desk.invalid"}


async def greet(client, info):
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    await client.request("initialize", hello)
    client.notify("notifications/initialized")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_has_one_client_is_told_who_that_is(era):
    server = ScriptedServer(["read"], eras=[era])
    async with running({"fs": server}, one_client=True, settings={"era": era}) as made:
        client = Client(made)
        await greet(client, ME)
        await client.call("fs__read")
    if era == "legacy":
        assert server.hello["clientInfo"] == ME
    else:
        assert [meta[META_CLIENT_INFO] for _, meta in server.metas] == [ME] * len(server.metas)


@pytest.mark.parametrize("modern", [False, True])
async def test_a_server_of_its_own_is_told_who_the_client_is(modern):
    server = ScriptedServer(["read"])
    async with running({"fs": server}, settings={"sharing": "per_client"}) as made:
        client = Client(made, modern=modern, info=ME)
        if not modern:
            await greet(client, ME)
        await client.call("fs__read")
        assert server.hello["clientInfo"] == ME


async def test_a_shared_server_is_told_of_the_gateway():
    server = ScriptedServer(["read"])
    async with running({"fs": server}) as made:
        for _ in range(2):
            client = Client(made)
            await client.initialize()
            await client.call("fs__read")
        assert server.hello["clientInfo"]["name"] == "pml"


async def test_each_request_without_a_handshake_says_whose_it_is():
    server = ScriptedServer(["read"], eras=["modern"])
    async with running({"fs": server}, settings={"era": "modern"}) as made:
        old, new = Client(made), Client(made, modern=True, info=ME)
        await old.initialize()
        await old.call("fs__read")
        await new.call("fs__read")
    asked = [meta[META_CLIENT_INFO] for method, meta in server.metas if method == "tools/call"]
    assert asked == [ABOUT_CLIENT, ME]


@pytest.mark.parametrize("info", [None, "text", {}, {"name": 5}, {"version": "1"}])
async def test_a_client_that_says_nothing_of_itself_is_the_gateways(info):
    server = ScriptedServer(["read"])
    async with running({"fs": server}, one_client=True) as made:
        await greet(Client(made), info)
        await Client(made).request("tools/list")
    assert server.hello["clientInfo"]["name"] == "pml"


async def test_who_says_a_megabyte_of_itself_is_told_of_by_its_name():
    server = ScriptedServer(["read"])
    async with running({"fs": server}, one_client=True) as made:
        client = Client(made)
        await greet(client, {**ME, "icons": [{"src": "data:" + "x" * 1_000_000}]})
        await client.call("fs__read")
    assert server.hello["clientInfo"] == {key: ME[key] for key in ("name", "title", "version")}
