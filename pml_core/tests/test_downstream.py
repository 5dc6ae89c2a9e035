from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_hookspecs import RawObject, TransportError, replace
from pml_mcp.servers.connection import backoff as pauses
from pml_settings.config import ServerSettings
from pml_testing.downstream import Lister, named, state, tools_of, until
from pml_testing.gateway import Client, ScriptedServer, ScriptedTransport, configuration, running

pytestmark = pytest.mark.anyio


async def test_a_server_that_fails_to_start_does_not_stop_the_others_and_says_why(quick):
    bad = ScriptedServer()
    bad.refuse = "no such program: nonsense"
    async with running({"bad": bad, "fs": ScriptedServer(["read"])}) as made:
        client = Client(made)
        assert (await client.call("fs__read"))["structuredContent"] == {}
        assert (state(made, "bad").state, state(made, "bad").reason) == ("down", "no such program: nonsense")
        assert (state(made).state, state(made).reason, state(made).tools) == ("up", "", 1)
        status = json.loads((await client.request("resources/read", {"uri": "pml://status"}))["contents"][0]["text"])
        assert {s["name"]: s["reason"] for s in status["servers"]} == {"bad": "no such program: nonsense", "fs": ""}


async def test_a_server_is_tried_again_after_pauses_that_grow_up_to_a_limit(quick):
    server = ScriptedServer(["read"])
    server.refuse = "busy"
    async with running({"fs": server}) as made:
        await until(lambda: len(quick) >= 10)
        server.refuse = ""
        await until(lambda: state(made).state == "up")
        assert state(made).restarts >= 10
        for number, pause_s in enumerate(quick[:10]):
            wanted_s = pauses.FIRST_S * 2**number if number < pauses.GIVES_UP_AFTER - 1 else pauses.LONGEST_S
            assert wanted_s * 0.8 <= pause_s <= wanted_s * 1.2
        assert tools_of(made) == ["read"]


async def test_after_a_connection_that_worked_the_pauses_begin_anew(quick):
    server = ScriptedServer(["read"])
    server.refuse = "busy"
    async with running({"fs": server}) as made:
        await until(lambda: len(quick) >= 6)
        server.refuse = ""
        await until(lambda: state(made).state == "up")
        before = len(quick)
        server.lose()
        await until(lambda: len(quick) > before)
        assert quick[before] <= pauses.FIRST_S * 1.2


class Troubled(ScriptedTransport):
    """Raises ``error`` for the server ``bad``."""

    def __init__(self, servers, error):
        super().__init__(servers)
        self.error, self.attempts = error, 0

    @asynccontextmanager
    async def connect(self, endpoint, handler):
        if endpoint.name == "bad":
            self.attempts += 1
            raise self.error
        async with super().connect(endpoint, handler) as link:
            yield link


def troubled(error, **gateway):
    transport = Troubled({"fs": ScriptedServer(["read"])}, error)
    found = [registry.provide("pml.transport", "scripted", transport)]
    return transport, Gateway(configuration(["bad", "fs"], **gateway), records=found)


@pytest.mark.parametrize("error", [TransportError("never", retryable=False), ValueError("option x is not understood")])
async def test_what_cannot_be_helped_is_not_tried_again(quick, error):
    transport, gateway = troubled(error)
    async with gateway as made:
        await made.servers_tried()
        for _ in range(10):
            await asyncio.sleep(0)
        assert (state(made, "bad").state, state(made, "bad").reason) == ("down", str(error))
        assert (transport.attempts, quick) == (1, [])
        assert state(made).state == "up"


async def test_a_server_whose_transport_is_not_installed_is_down_and_says_so(quick):
    config = replace(configuration([]), servers={"far": ServerSettings(url="https://host/mcp")})
    async with Gateway(config, records=[]) as made:
        await made.servers_tried()
        assert state(made, "far").state == "down"
        assert "no transport driver named 'http'" in state(made, "far").reason


@pytest.mark.parametrize("error", [RuntimeError("bug"), OSError("no such file"), KeyError("x"), TypeError("y")])
async def test_a_transport_with_a_bug_is_a_server_that_is_down_and_never_a_wait(error):
    _, gateway = troubled(error, list_wait_s=2.0)
    async with gateway as made:
        with suppress(TimeoutError):
            async with asyncio.timeout(30):
                await made.servers_tried()
        assert state(made).state == "up"
        assert state(made, "bad").state == "down"
        assert str(error) in state(made, "bad").reason


async def test_a_server_that_hangs_while_starting_is_given_up_in_time(quick):
    server = Lister({None: {"tools": []}})
    server.gate = asyncio.Event()
    async with running({"fs": server}, start_timeout_s=0.05) as made:
        assert state(made).state == "down"
        assert state(made).reason != ""


async def test_a_connection_that_is_lost_is_opened_again_and_the_tools_are_listed_again(quick):
    server = ScriptedServer(["read"])
    async with running({"fs": server}) as made:
        client = Client(made)
        server.tools = named("read", "write")
        server.lose("the process ended with status 3")
        assert (await client.call("fs__read"))["isError"] is True
        await until(lambda: state(made).state == "up" and state(made).restarts == 1)
        assert tools_of(made) == ["read", "write"]
        assert (await client.call("fs__write", {"a": 1}))["structuredContent"] == {"a": 1}


async def test_a_lost_server_says_why_and_keeps_its_tools_in_the_catalog(quick):
    server = ScriptedServer(["read"])
    async with running({"fs": server}) as made:
        server.refuse = "it will not start"
        server.lose("the process ended with status 3")
        await until(lambda: state(made).state == "down")
        assert tools_of(made) == ["read"]
        assert state(made).tools == 1
        result = await Client(made).call("fs__read")
        assert result["content"][0]["text"].startswith("MCP server fs not connected: ")


async def test_a_disabled_server_is_not_started_and_says_so():
    server = ScriptedServer(["read"])
    config = replace(configuration([]), servers={"fs": ServerSettings(address="scripted:fs", enabled=False)})
    found = [registry.provide("pml.transport", "scripted", ScriptedTransport({"fs": server}))]
    async with Gateway(config, records=found) as made:
        await made.servers_tried()
        assert (state(made).state, server.handler) == ("disabled", None)
        result = await Client(made).call("fs:read")
        assert result["content"][0]["text"] == (
            "MCP server fs not connected: it is disabled; set enabled = true in [servers.fs]"
        )


async def test_nothing_of_the_gateway_runs_on_after_it_is_closed():
    server = Lister({None: {"tools": named("a")}})
    before = asyncio.all_tasks()
    async with running({"fs": server}):
        server.gate = asyncio.Event()
        server.listing.clear()
        server.handler.notification("notifications/tools/list_changed", RawObject(b"{}"))
        await server.listing.wait()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set()
