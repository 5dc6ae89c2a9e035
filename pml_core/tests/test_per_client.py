from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from pml_hookspecs import RawObject, RpcError
from pml_mcp.servers.server import LISTED_S
from pml_settings.config import ServerSettings
from pml_testing.downstream import Connections, a_while, connected, moving_clock, named, state, tools_of, until
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio


class Featured(ScriptedServer):
    """One of several alike; knows how many there were before it."""

    made = 0

    def __init__(self) -> None:
        super().__init__(["read"], self._who)
        Featured.made += 1
        self.number = Featured.made
        self.offers = {"tools": {}, "resources": {"subscribe": True}, "logging": {}}
        self.others = {
            "resources/list": self._resources,
            "resources/templates/list": self._none,
            "resources/read": self._read,
            "resources/subscribe": self._none,
            "resources/unsubscribe": self._none,
            "logging/setLevel": self._none,
        }
        self.resources = ["r:1"]

    async def _who(self, name, arguments):
        return {"content": [], "structuredContent": {"by": self.number}}

    async def _resources(self, _params):
        return {"resources": [{"uri": uri, "name": uri} for uri in self.resources]}

    async def _read(self, params):
        return {"contents": [{"uri": params["uri"], "text": str(self.number)}]}

    async def _none(self, _params):
        return {}


@asynccontextmanager
async def per_client(*, one_client: bool = False, url: bool = False, make=Featured, **settings):
    """A gateway with a server for each client, and its transport; the first connection is the one that lists."""
    Featured.made = 0
    transport = Connections({"fs": make})
    where = {"url": "http://host/mcp"} if url else {"address": "scripted:fs", "sharing": "per_client"}
    async with connected(transport, {"fs": ServerSettings(**{**where, **settings})}, one_client=one_client) as made:
        yield made, transport


async def hello(made, capabilities=None) -> Client:
    client = Client(made)
    await client.initialize(capabilities)
    return client


async def who(client: Client) -> int:
    return (await client.call("fs__read"))["structuredContent"]["by"]


def leave(client: Client) -> None:
    client._handler.closed(None)


@pytest.mark.parametrize("url", [False, True])
async def test_each_client_has_a_connection_of_its_own_from_its_first_call_on(url):
    async with per_client(url=url) as (made, transport):
        one, two = await hello(made, {"sampling": {}}), await hello(made, {"roots": {}})
        assert await one.tools() == ["fs__read"]
        listing = [{}, {"sampling": {}}]  # for all, and for those who can do the same
        assert [server.hello["capabilities"] for server in transport.opened] == listing
        assert transport.opened[1] in transport.closed
        assert [await who(c) for c in (one, two, one, two)] == [3, 4, 3, 4]
        said = [server.hello["capabilities"] for server in transport.opened]
        assert said == [*listing, {"sampling": {}}, {"roots": {}}]
        assert state(made).tools == 1


async def test_a_servers_calls_at_once_open_one_connection_for_a_client():
    async with per_client() as (made, transport):
        one, two = await hello(made), await hello(made)
        answers = await asyncio.gather(*(who(client) for client in [one, two] * 5))
        assert answers == [2, 3] * 5
        assert len(transport.opened) == 3


async def test_a_shared_server_has_one_connection_for_all():
    async with per_client(sharing="shared", url=True) as (made, transport):
        assert [await who(await hello(made)) for _ in range(3)] == [1, 1, 1]
        assert len(transport.opened) == 1


async def test_auto_shares_a_server_that_is_a_program():
    async with per_client(sharing="auto") as (made, _):
        assert [await who(await hello(made)) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("url", [False, True])
async def test_the_one_client_of_a_gateway_never_opens_a_second_connection(url):
    async with per_client(url=url, one_client=True) as (made, transport):
        client = await hello(made, {"sampling": {}})
        await made.servers_tried()
        assert await who(client) == 1
        await client.request("resources/read", {"uri": "r:1"})
        assert len(transport.opened) == 1
        assert transport.opened[0].hello["capabilities"] == {"sampling": {}}


async def test_more_clients_than_configured_are_refused_with_advice_until_one_has_left():
    async with per_client(max_clients=2) as (made, transport):
        one, two, three = [await hello(made) for _ in range(3)]
        assert [await who(one), await who(two)] == [2, 3]
        refused = (await three.call("fs__read"))["content"][0]["text"]
        assert refused == (
            "MCP server fs not connected: 2 clients have one of their own already; try again when one of them has "
            "left, or raise max_clients in [servers.fs]"
        )
        assert await who(one) == 2
        leave(one)
        await until(lambda: transport.opened[1] in transport.closed)
        assert await who(three) == 4


async def test_what_was_a_clients_alone_is_stopped_when_it_leaves():
    async with per_client() as (made, transport):
        one, two = await hello(made), await hello(made)
        await who(one)
        await who(two)
        leave(one)
        await until(lambda: len(transport.closed) == 1)
        assert transport.closed == [transport.opened[1]]
        assert await who(two) == 3


async def test_a_call_of_a_client_that_has_left_opens_nothing():
    async with per_client() as (made, transport):
        client = await hello(made)
        leave(client)
        assert "its client has left" in (await client.call("fs__read"))["content"][0]["text"]
        assert len(transport.opened) == 1


async def test_nothing_runs_on_when_the_gateway_is_closed():
    before = asyncio.all_tasks()
    async with per_client() as (made, transport):
        await who(await hello(made))
        await who(await hello(made))
    await a_while()
    assert transport.open == []
    assert asyncio.all_tasks() - before == set()


async def test_a_call_that_comes_while_the_gateway_closes_opens_nothing():
    closing, gate = asyncio.Event(), asyncio.Event()

    class Slow(Connections):
        @asynccontextmanager
        async def connect(self, endpoint, handler):
            async with super().connect(endpoint, handler) as link:
                try:
                    yield link
                finally:
                    closing.set()
                    await gate.wait()

    transport = Slow({"fs": Featured})
    servers = {"fs": ServerSettings(address="scripted:fs", sharing="per_client")}
    async with connected(transport, servers) as made:
        one, two = await hello(made), await hello(made)
        await who(one)
        stopping = asyncio.ensure_future(made.server_pool.stop())
        await closing.wait()
        gate.set()
        await until(lambda: made.servers["fs"]._extra._closed)
        assert "the gateway is stopping" in (await two.call("fs__read"))["content"][0]["text"]
        await stopping
        assert (len(transport.opened), transport.open) == (2, [])


async def test_the_connection_that_only_lists_is_closed_soon_and_calls_do_not_wake_it(monkeypatch):
    async with per_client() as (made, transport):
        advance, client = moving_clock(monkeypatch), await hello(made)
        advance(LISTED_S + 1)
        await until(lambda: state(made).state == "idle")
        assert state(made).reason == "each client has one of its own, started by its first call"
        assert transport.open == []
        assert await client.tools() == ["fs__read"]
        assert [await who(client), await who(client), await who(await hello(made))] == [2, 2, 3]
        assert len(transport.opened) == 3


async def test_a_clients_own_connection_is_stopped_when_unused_and_opened_again(monkeypatch):
    async with per_client(idle_timeout_s=30) as (made, transport):
        advance, client = moving_clock(monkeypatch), await hello(made)
        assert await who(client) == 2
        for _ in range(2):
            advance(31)
            await a_while()
        assert transport.open == []
        assert await who(client) == 3


async def test_one_clients_crash_is_nothing_to_the_others(quick):
    async with per_client() as (made, transport):
        one, two = await hello(made), await hello(made)
        await who(one)
        await who(two)
        transport.opened[1].lose("the browser crashed")
        assert await who(two) == 3
        await until(lambda: len(transport.opened) == 4)
        assert await who(one) == 4
        assert state(made).state == "up"


async def test_a_connection_that_cannot_be_opened_is_an_error_for_its_client(quick):
    async with per_client() as (made, transport):
        one, two = await hello(made), await hello(made)
        assert await who(one) == 2
        failing = Featured()
        failing.refuse = "no display"
        transport._make = {"fs": lambda: failing}
        result = await two.call("fs__read")
        assert result["content"][0]["text"] == "MCP server fs not connected: no display"
        assert await who(one) == 2


class Legacy(Featured):
    """Knows nothing of the era without a handshake."""

    async def serve(self, method, params):
        if method == "server/discover":
            raise RpcError(-32601, "Method not found: server/discover")
        return await super().serve(method, params)


async def test_a_modern_client_has_its_own_connection_to_a_server_of_the_other_era_too():
    async with per_client(make=Legacy) as (made, _):
        one, two = Client(made, modern=True), Client(made, modern=True)
        mine, theirs = await who(one), await who(two)
        assert mine != theirs
        assert [await who(c) for c in (one, two, one)] == [mine, theirs, mine]


# What servers tell and ask


async def test_what_a_clients_own_connection_tells_goes_to_that_client_only():
    async with per_client() as (made, transport):
        one, two = await hello(made), await hello(made)
        for client in (one, two):
            await who(client)
            await client.request("resources/subscribe", {"uri": "r:1"})
        told = [
            ("notifications/message", {"level": "info", "data": "x"}),
            ("notifications/resources/updated", {"uri": "r:1"}),
            ("notifications/resources/list_changed", {}),
            ("notifications/tasks/status", {"taskId": "1"}),
        ]
        for method, params in told:
            transport.opened[2].tell(method, params)
        assert (one.link.notified, two.link.notified) == ([], told)


@pytest.mark.parametrize("url", [False, True])
async def test_a_changed_list_of_tools_of_such_a_connection_is_its_clients(url):
    async with per_client(url=url) as (made, transport):
        one, two = await hello(made), await hello(made)
        for client in (one, two):
            await client.tools()
            await who(client)
        transport.opened[1].change(["read", "write"])
        await until(lambda: one.link.notified)
        await a_while()
        assert (await one.tools(), await two.tools()) == (["fs__read", "fs__write"], ["fs__read"])
        assert tools_of(made) == ["read"]
        assert not two.link.notified
        transport.opened[2].change([])
        await until(lambda: two.link.notified)
        assert (await one.tools(), await two.tools()) == (["fs__read", "fs__write"], [])
        assert [m for m, _ in one.link.notified + two.link.notified] == ["notifications/tools/list_changed"] * 2


async def test_a_change_told_while_such_a_connection_is_being_opened_is_not_lost():
    gate, made_servers = asyncio.Event(), []

    class Slow(Featured):
        async def serve(self, method, params):
            if method == "initialize" and self.number > 1:
                self.tools = named("read", "new")
                self.handler.notification("notifications/tools/list_changed", RawObject(b"{}"))
                await gate.wait()
            return await super().serve(method, params)

        def __init__(self):
            super().__init__()
            made_servers.append(self)

    async with per_client(make=Slow) as (made, _):
        client = await hello(made)
        call = asyncio.ensure_future(who(client))
        await until(lambda: len(made_servers) == 2)
        await a_while()
        gate.set()
        await call
        assert await client.tools() == ["fs__new", "fs__read"]
        assert tools_of(made) == ["read"]


async def test_a_question_between_calls_goes_to_the_client_whose_connection_it_is():
    async with per_client() as (made, transport):
        clients = [await hello(made, {"sampling": {}}) for _ in range(2)]
        for number, client in enumerate(clients):

            async def answer(_params, number=number):
                return {"by": number}

            client.peer.others["sampling/createMessage"] = answer
            await who(client)
        for number in range(2):
            assert await transport.opened[number + 1].ask("sampling/createMessage", {}) == {"by": number}
        with pytest.raises(RpcError, match="which of several clients"):
            await transport.opened[0].ask("sampling/createMessage", {})


async def test_what_a_client_tells_servers_reaches_its_own_connection_only():
    async with per_client() as (made, transport):
        one, two = await hello(made, {"roots": {}}), await hello(made, {"roots": {}})
        await who(one)
        await who(two)
        one.notify("notifications/roots/list_changed")
        assert [server.link.notified[1:] for server in transport.opened[1:]] == [
            [("notifications/roots/list_changed", {})],
            [],
        ]


async def test_the_log_level_of_a_client_is_its_own_connections_also_when_set_before():
    async with per_client() as (made, transport):
        one, two, three = [await hello(made) for _ in range(3)]
        await who(one)
        await two.request("logging/setLevel", {"level": "error"})
        await who(two)
        await who(three)
        await three.request("logging/setLevel", {"level": "debug"})
        levels = [[p["level"] for m, p in s.asked if m == "logging/setLevel"] for s in transport.opened]
        assert levels == [[], [], ["error"], ["debug"]]


async def test_a_client_lists_and_reads_the_resources_of_its_own_connection():
    async with per_client() as (made, transport):
        one, two = await hello(made), await hello(made)
        await who(one)
        await who(two)
        transport.opened[1].resources = ["r:1", "r:mine"]
        uris = []
        for client in (one, two):
            listed = (await client.request("resources/list"))["resources"]
            uris.append([r["uri"] for r in listed if r["uri"].startswith("r:")])
        assert uris == [["r:1", "r:mine"], ["r:1"]]
        read = await one.request("resources/read", {"uri": "r:mine"})
        assert read["contents"][0]["text"] == "2"
