"""Lists that are read again because a client asks for them: their servers did not say that they have changed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from pml_mcp.servers import servers as server_pool
from pml_mcp.servers.connection import feature_lists as lists
from pml_settings.config import ServerSettings
from pml_testing.downstream import Connections, Lister, a_while, connected, moving_clock, named, tools_of, until
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio
TOOLS, RESOURCES = "notifications/tools/list_changed", "notifications/resources/list_changed"
RELIST_S = 60.0


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """However slow the machine, what can be read is read."""
    for module in (server_pool, lists):
        monkeypatch.setattr(module, "GLANCE_S", 600.0)


@asynccontextmanager
async def with_server(server, **settings):
    """A gateway before one server, and a client that has listed its tools."""
    transport = Connections({"fs": lambda: server})
    where = {} if "url" in settings else {"address": "scripted:fs"}
    async with connected(transport, {"fs": ServerSettings(**where, **settings)}) as made:
        client = Client(made)
        await client.initialize()
        await client.tools()
        yield made, client


class Keeper(ScriptedServer):
    """Has resources, and counts how often it is asked for them; waits for ``gate`` first when there is one."""

    def __init__(self, *uris) -> None:
        super().__init__(["read"])
        self.offers = {"tools": {}, "resources": {}}
        self.uris, self.gate, self.counted = list(uris), None, 0
        self.others = {"resources/list": self._list}

    async def _list(self, _params):
        self.counted += 1
        listed = [{"uri": uri, "name": uri} for uri in self.uris]
        if self.gate is not None:
            await self.gate.wait()
        return {"resources": listed}


async def uris(client):
    listed = (await client.request("resources/list"))["resources"]
    return [one["uri"] for one in listed if not one["uri"].startswith("pml:")]


def told(client, method):
    return [one for one, _ in client.link.notified if one == method]


async def test_tools_are_read_again_when_their_list_is_that_old(monkeypatch):
    advance = moving_clock(monkeypatch)
    server = Lister({None: {"tools": named("a")}})
    async with with_server(server) as (_, client):
        server.pages = {None: {"tools": named("a", "b")}}
        assert await client.tools() == ["fs__a"]
        assert len(server.cursors) == 1
        advance(RELIST_S)
        assert await client.tools() == ["fs__a", "fs__b"]
        assert await client.tools() == ["fs__a", "fs__b"]
        assert len(server.cursors) == 2


@pytest.mark.parametrize(("relist_s", "readings"), [(0.0, 2), (float("inf"), 0)])
async def test_how_old_a_list_may_be_is_set(relist_s, readings):
    server = Lister({None: {"tools": named("a")}})
    async with with_server(server, relist_s=relist_s) as (_, client):
        before = len(server.cursors)
        for _ in range(2):
            await client.tools()
        assert len(server.cursors) - before == readings


async def test_one_reading_is_shared_and_nobody_waits_long_for_it(monkeypatch):
    monkeypatch.setattr(server_pool, "GLANCE_S", 0.01)
    server = Lister({None: {"tools": named("a")}})
    async with with_server(server, relist_s=0.0) as (made, client):
        other, read = Client(made), len(server.cursors)
        await other.initialize()
        server.pages, server.gate = {None: {"tools": named("a", "b")}}, asyncio.Event()
        assert await asyncio.gather(client.tools(), other.tools()) == [["fs__a"], ["fs__a"]]
        assert await other.tools() == ["fs__a"]
        assert len(server.cursors) == read + 1
        assert not told(client, TOOLS)
        server.gate.set()
        await until(lambda: told(client, TOOLS) and told(other, TOOLS))
        server.gate = None
        assert await client.tools() == ["fs__a", "fs__b"]


async def test_what_is_the_same_is_told_to_nobody():
    server = Lister({None: {"tools": named("a")}})
    async with with_server(server, relist_s=0.0) as (made, client):
        revision = made.catalog.revision
        for _ in range(3):
            await client.tools()
        await a_while()
        assert made.catalog.revision == revision
        assert not told(client, TOOLS)


async def test_a_list_that_cannot_be_read_again_stays_as_it_was():
    server = Lister({None: {"tools": named("a")}})
    async with with_server(server, relist_s=0.0) as (made, client):
        server.pages = {None: TimeoutError("not now")}
        assert await client.tools() == ["fs__a"]
        assert tools_of(made) == ["a"]


async def test_resources_are_read_again_when_their_list_is_that_old(monkeypatch):
    advance = moving_clock(monkeypatch)
    server = Keeper("a:")
    async with with_server(server) as (made, client):
        other = Client(made)
        await other.initialize()
        assert await uris(client) == await uris(other) == ["a:"]
        server.uris.append("b:")
        assert await uris(client) == ["a:"]
        advance(RELIST_S)
        assert await uris(client) == ["a:", "b:"]
        assert await uris(other) == ["a:", "b:"]
        assert server.counted == 2
        assert told(other, RESOURCES)


async def test_one_reading_of_resources_is_shared_and_nobody_waits_long_for_it(monkeypatch):
    monkeypatch.setattr(lists, "GLANCE_S", 0.01)
    server = Keeper("a:")
    async with with_server(server, relist_s=0.0) as (made, client):
        other = Client(made)
        await other.initialize()
        assert await uris(client) == ["a:"]
        server.gate, before = asyncio.Event(), server.counted
        server.uris.append("b:")
        assert await asyncio.gather(uris(client), uris(other), uris(other)) == [["a:"]] * 3
        assert server.counted == before + 1
        server.gate.set()
        await until(lambda: told(client, RESOURCES) and told(other, RESOURCES))
        assert await uris(client) == ["a:", "b:"]


async def test_resources_that_cannot_be_read_again_stay_as_they_were():
    server = Keeper("a:")

    async def gone(_params):
        raise TimeoutError("not now")

    async with with_server(server, relist_s=0.0) as (_, client):
        assert await uris(client) == ["a:"]
        server.others["resources/list"] = gone
        assert await uris(client) == ["a:"]
        assert not told(client, RESOURCES)


class Own(ScriptedServer):
    """Makes its list longer without a word, in the session that calls ``grow``."""

    def __init__(self) -> None:
        super().__init__(["grow"], self._answer)
        self.lists = 0

    async def serve(self, method, params):
        self.lists += method == "tools/list"
        return await super().serve(method, params)

    async def _answer(self, _name, _arguments):
        self.tools = named("grow", "grown")
        return {"content": []}


async def test_a_list_of_one_session_is_read_again_in_that_session(monkeypatch):
    advance = moving_clock(monkeypatch)
    transport = Connections({"fs": Own})
    async with connected(transport, {"fs": ServerSettings(url="http://host/mcp")}) as made:
        one, two = Client(made), Client(made)
        for client in (one, two):
            await client.initialize()
            assert await client.tools() == ["fs__grow"]
        await one.call("fs__grow")
        assert await one.tools() == ["fs__grow"]
        own = transport.opened[-1]
        before = own.lists
        advance(RELIST_S)
        assert await one.tools() == ["fs__grow", "fs__grown"]
        assert await one.tools() == ["fs__grow", "fs__grown"]
        assert own.lists == before + 1
        assert await two.tools() == ["fs__grow"]
        assert not told(two, TOOLS)


async def test_a_list_for_what_clients_can_do_is_read_again():
    server = ScriptedServer(["a"], eras=("modern",))
    async with with_server(server, era="modern", relist_s=0.0, url="http://host/mcp") as (made, _):
        able = Client(made, modern=True, capabilities={"elicitation": {}})
        assert await able.tools() == ["fs__a"]
        server.tools = named("a", "b")
        assert await able.tools() == ["fs__a", "fs__b"]
