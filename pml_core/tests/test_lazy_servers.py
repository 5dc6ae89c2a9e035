from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from pml_hookspecs import RpcError, TransportError
from pml_settings.config import ServerSettings
from pml_testing.downstream import (
    Connections,
    Lister,
    a_while,
    connected,
    moving_clock,
    named,
    records,
    state,
    tools_of,
    until,
)
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio
AT = "scripted:fs"


def featured() -> ScriptedServer:
    """A server with a tool, a resource and a prompt."""
    server = ScriptedServer(["read"])
    server.offers = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}}

    def always(answer):
        async def give(_params):
            return answer

        return give

    server.others = {
        "resources/list": always({"resources": [{"uri": "r:1", "name": "r"}]}),
        "resources/templates/list": always({"resourceTemplates": []}),
        "resources/read": always({"contents": [{"uri": "r:1", "text": "x"}]}),
        "resources/subscribe": always({}),
        "resources/unsubscribe": always({}),
        "prompts/list": always({"prompts": [{"name": "greet"}]}),
        "prompts/get": always({"messages": []}),
        "logging/setLevel": always({}),
    }
    return server


async def store_that_remembers(server: ScriptedServer):
    """The store of a gateway that has seen the server's tools."""
    async with connected(Connections({"fs": lambda: server}), {"fs": ServerSettings(address=AT)}) as made:
        await until(lambda: made.store.catalog.tools.values)
        return made.store


@asynccontextmanager
async def lazy(server: ScriptedServer, *, seen: ScriptedServer | None = None, **settings):
    """A gateway that remembers ``seen`` (the server itself if not given), and its transport."""
    store = await store_that_remembers(seen or server)
    transport = Connections({"fs": lambda: server})
    servers = {"fs": ServerSettings(address=AT, start="lazy", **settings)}
    plugins = {("store", "sqlite"): lambda _settings, _services: store}
    async with connected(transport, servers, plugins=plugins) as made:
        yield made, transport


async def test_a_lazy_server_is_listed_from_memory_and_started_by_its_first_call():
    async with lazy(ScriptedServer(["read"])) as (made, transport):
        client = Client(made)
        await client.initialize()
        assert await client.tools() == ["fs__read"]
        await a_while()
        assert transport.opened == []
        assert (state(made).state, state(made).reason) == ("idle", "not started yet; its first call starts it")
        assert state(made).tools == 1
        assert (await client.call("fs__read", {"a": 1}))["structuredContent"] == {"a": 1}
        assert (state(made).state, state(made).reason, state(made).restarts) == ("up", "", 0)
        assert len(transport.opened) == 1
        assert client.link.notified == []


async def test_its_first_calls_wait_for_it_and_start_it_once():
    server = Lister({None: {"tools": named("read")}})
    async with lazy(server) as (made, transport):
        server.gate = asyncio.Event()
        calls = [asyncio.ensure_future(Client(made).call("fs__read", {"n": n})) for n in range(5)]
        await until(lambda: transport.opened)
        await a_while()
        assert (state(made).state, [call.done() for call in calls]) == ("starting", [False] * 5)
        server.gate.set()
        assert [(await call)["structuredContent"]["n"] for call in calls] == list(range(5))
        assert len(transport.opened) == 1


async def test_a_call_that_comes_before_the_server_has_gone_to_sleep_starts_it_too():
    async with lazy(ScriptedServer(["read"])) as (made, _):  # no turn of the loop between start and call
        async with asyncio.timeout(30):
            assert (await Client(made).call("fs__read"))["structuredContent"] == {}


async def test_a_lazy_server_never_seen_is_started_once_to_list_its_tools():
    transport = Connections({"fs": lambda: ScriptedServer(["read"])})
    async with connected(transport, {"fs": ServerSettings(address=AT, start="lazy")}) as made:
        assert (state(made).state, tools_of(made), len(transport.opened)) == ("up", ["read"], 1)


async def test_a_server_that_has_changed_since_is_listed_anew_when_it_is_started():
    async with lazy(ScriptedServer(["read", "write"]), seen=ScriptedServer(["read"])) as (made, _):
        client = Client(made)
        await client.initialize()
        assert await client.tools() == ["fs__read"]
        await client.call("fs__read")
        await until(lambda: client.link.notified)
        assert await client.tools() == ["fs__read", "fs__write"]
        assert [method for method, _ in client.link.notified] == ["notifications/tools/list_changed"]


async def test_a_lazy_server_that_cannot_be_started_says_so_to_the_call_that_needs_it(quick):
    server = ScriptedServer(["read"])
    async with lazy(server) as (made, _):
        server.refuse = "no such program"
        result = await Client(made).call("fs__read")
        assert result["content"][0]["text"] == "MCP server fs not connected: no such program"
        assert state(made).state == "down"


async def test_an_unknown_tool_of_a_sleeping_server_is_that_ones_to_answer_and_a_name_of_nobody_wakes_none():
    async with lazy(ScriptedServer(["read"])) as (made, transport):
        await a_while()
        with pytest.raises(RpcError, match=r"Unknown tool: fs_read\. Did you mean fs__read\?"):
            await Client(made).call("fs_read")
        assert transport.opened == []
        assert (await Client(made).call("fs__other"))["structuredContent"] == {}
        assert len(transport.opened) == 1


async def test_listing_resources_and_prompts_does_not_start_it_and_clients_hear_when_there_are_some():
    async with lazy(featured()) as (made, transport):
        client = Client(made)
        await client.initialize()
        for method, member in (("resources/list", "resources"), ("prompts/list", "prompts")):
            listed = (await client.request(method))[member]
            assert [item for item in listed if item["name"] != "status"] == []
        assert transport.opened == []
        await client.call("fs__read")
        await until(lambda: len(client.link.notified) == 2)
        assert sorted(method for method, _ in client.link.notified) == [
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
        ]
        assert (await client.request("prompts/list"))["prompts"] == [{"name": "fs__greet"}]


@pytest.mark.parametrize(
    ("method", "params"), [("prompts/get", {"name": "fs__greet"}), ("resources/read", {"uri": "r:1"})]
)
async def test_what_no_other_server_has_may_be_a_sleeping_servers(method, params):
    async with lazy(featured()) as (made, transport):
        assert await Client(made).request(method, params)
        assert len(transport.opened) == 1


# Stopped for want of use


@asynccontextmanager
async def idling(server: ScriptedServer, **settings):
    """A gateway whose server is stopped after 30 s, and its transport."""
    transport = Connections({"fs": lambda: server})
    servers = {"fs": ServerSettings(address=AT, idle_timeout_s=30, **settings)}
    async with connected(transport, servers) as made:
        yield made, transport


async def idles(made, advance) -> bool:
    """Whether the server is stopped when time goes by."""
    for _ in range(3):
        advance(31)
        await a_while()
    return state(made).state == "idle"


async def test_an_unused_server_is_stopped_and_started_by_the_next_call(monkeypatch):
    async with idling(ScriptedServer(["read"])) as (made, transport):
        advance, client = moving_clock(monkeypatch), Client(made)
        await client.initialize()
        await client.tools()
        assert await idles(made, advance)
        assert state(made).reason == "stopped because nobody used it; its next call starts it"
        assert (transport.open, tools_of(made), state(made).tools) == ([], ["read"], 1)
        assert (await client.call("fs__read", {"a": 1}))["structuredContent"] == {"a": 1}
        assert (state(made).state, state(made).restarts, len(transport.opened)) == ("up", 0, 2)
        await a_while()
        assert client.link.notified == []
        assert [r.status for r in await records(made)] == ["ok"]


async def test_each_use_puts_the_stop_off(monkeypatch):
    async with idling(ScriptedServer(["read"])) as (made, transport):
        advance, client = moving_clock(monkeypatch), Client(made)
        for _ in range(5):
            advance(20)
            await a_while()
            await client.call("fs__read")
        assert (state(made).state, len(transport.opened)) == ("up", 1)


async def test_a_server_is_not_stopped_while_it_works(monkeypatch):
    begun, gate = asyncio.Event(), asyncio.Event()

    async def slow(name, arguments):
        begun.set()
        await gate.wait()
        return {"content": []}

    async with idling(ScriptedServer(["read"], slow), timeout_s=10_000) as (made, transport):
        advance = moving_clock(monkeypatch)
        call = asyncio.ensure_future(Client(made).call("fs__read"))
        await begun.wait()
        assert not await idles(made, advance)
        gate.set()
        assert await call == {"content": []}
        assert await idles(made, advance)
        assert len(transport.opened) == 1


async def test_a_call_that_comes_while_the_server_is_being_stopped_starts_it_again(monkeypatch):
    stopping, gate = asyncio.Event(), asyncio.Event()

    class Slow(Connections):
        @asynccontextmanager
        async def connect(self, endpoint, handler):
            async with super().connect(endpoint, handler) as link:
                try:
                    yield link
                finally:
                    stopping.set()
                    await gate.wait()

    transport = Slow({"fs": lambda: ScriptedServer(["read"])})
    servers = {"fs": ServerSettings(address=AT, idle_timeout_s=30)}
    async with connected(transport, servers) as made:
        advance = moving_clock(monkeypatch)
        advance(31)
        await stopping.wait()
        call = asyncio.ensure_future(Client(made).call("fs__read", {"a": 1}))
        await a_while()
        gate.set()
        async with asyncio.timeout(30):
            assert (await call)["structuredContent"] == {"a": 1}


async def test_a_subscription_keeps_a_server_until_nobody_wants_it(monkeypatch):
    server = featured()
    async with idling(server) as (made, _):
        advance = moving_clock(monkeypatch)
        one, two, three = (Client(made) for _ in range(3))
        for client in (one, two, three):
            await client.initialize()
            await client.request("resources/subscribe", {"uri": "r:1"})
        await one.request("resources/subscribe", {"uri": "r:1"})
        assert not await idles(made, advance)
        await one.request("resources/unsubscribe", {"uri": "r:1"})
        await two.request("resources/unsubscribe", {"uri": "r:1"})
        assert not await idles(made, advance)
        assert "resources/unsubscribe" not in [m for m, _ in server.asked]
        three._handler.closed(None)  # left without a word
        await until(lambda: server.asked[-1] == ("resources/unsubscribe", {"uri": "r:1"}))
        assert await idles(made, advance)


async def test_a_subscription_that_the_server_refuses_keeps_nothing(monkeypatch):
    server = featured()

    async def refuse(_params):
        raise RpcError(-32602, "no")

    server.others["resources/subscribe"] = refuse
    async with idling(server) as (made, _):
        advance = moving_clock(monkeypatch)
        with pytest.raises(RpcError, match="no"):
            await Client(made).request("resources/subscribe", {"uri": "r:1"})
        assert await idles(made, advance)


async def test_what_was_listed_is_known_while_the_server_sleeps(monkeypatch):
    async with idling(featured()) as (made, transport):
        advance, client = moving_clock(monkeypatch), Client(made)
        shown = await client.request("resources/list"), await client.request("prompts/list")
        assert await idles(made, advance)
        assert (await client.request("resources/list"), await client.request("prompts/list")) == shown
        assert transport.open == []
        assert await client.request("prompts/get", {"name": "fs__greet"}) == {"messages": []}
        assert len(transport.opened) == 2


async def test_resources_that_differ_after_a_restart_are_told_of(quick):
    server = featured()
    async with idling(server) as (made, _):
        client = Client(made)
        await client.initialize()
        await client.request("resources/list")
        await client.request("prompts/list")

        async def other(_params):
            return {"resources": [{"uri": "r:2", "name": "r"}]}

        server.others["resources/list"] = other
        server.lose()
        await until(lambda: client.link.notified)
        await a_while()
        assert client.link.notified == [("notifications/resources/list_changed", {})]
        assert (await client.request("resources/list"))["resources"][0]["uri"] == "r:2"


async def test_a_restarted_server_is_told_again_what_clients_told_it(quick):
    server = featured()
    async with idling(server) as (made, transport):
        client = Client(made)
        await client.initialize()
        await client.request("resources/subscribe", {"uri": "r:1"})
        await client.request("logging/setLevel", {"level": "warning"})
        server.asked.clear()
        server.lose()
        await until(lambda: len(transport.opened) == 2 and state(made).state == "up")
        assert server.asked == [
            ("resources/subscribe", {"uri": "r:1"}),
            ("logging/setLevel", {"level": "warning"}),
        ]
        server.tell("notifications/resources/updated", {"uri": "r:1"})
        assert client.link.notified[-1] == ("notifications/resources/updated", {"uri": "r:1"})


async def test_a_server_that_fails_after_it_was_stopped_says_what_is_wrong_now(monkeypatch, quick):
    server = ScriptedServer(["read"])
    async with idling(server) as (made, _):
        advance = moving_clock(monkeypatch)
        assert await idles(made, advance)
        await Client(made).call("fs__read")
        server.refuse = "not again"
        server.handler.closed(TransportError("it crashed", retryable=True))
        result = await Client(made).call("fs__read")
        assert result["content"][0]["text"] == "MCP server fs not connected: it crashed"
        await until(lambda: state(made).reason == "not again")
