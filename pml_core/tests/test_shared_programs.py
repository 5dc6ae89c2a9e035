"""A program that clients share, and that may list something else for clients that can be asked something."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_settings.config import ServerSettings
from pml_testing.downstream import Connections, connected, named, until
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio
CHANGED = "notifications/tools/list_changed"
ELICITS = {"elicitation": {}}


class Form(ScriptedServer):
    """Lists ``form`` to who can elicit, and asks with it."""

    def __init__(self, *, version="1", depends=True) -> None:
        super().__init__(["plain"], self._answer)
        self.about, self.depends = {"name": "form", "version": version}, depends

    async def _answer(self, name, _arguments):
        if name != "form":
            return {"content": [{"type": "text", "text": name}]}
        told = await self.ask("elicitation/create", {"message": "Sure?", "requestedSchema": {}})
        return {"content": [{"type": "text", "text": told["action"]}]}

    async def serve(self, method, params):
        answer = await super().serve(method, params)
        able = self.hello.get("capabilities", {})
        if method == "tools/list" and self.depends and "elicitation" in able:
            return {"tools": [*answer["tools"], *named("form")]}
        return answer


@asynccontextmanager
async def shared(make=Form, store=None, **settings):
    """A gateway before such a program, and its transport."""
    transport = Connections({"fs": make})
    plugins = {} if store is None else {("store", "sqlite"): lambda _settings, _services: store}
    servers = {"fs": ServerSettings(address="scripted:fs", **settings)}
    async with connected(transport, servers, plugins=plugins) as made:
        yield made, transport


async def hello(made, capabilities) -> Client:
    client = Client(made, capabilities=capabilities)

    async def accepts(_params):
        return {"action": "accept", "content": {}}

    client.peer.others["elicitation/create"] = accepts
    await client.initialize(capabilities)
    return client


def found(made):
    return made.servers["fs"].client_lists.difference.remembered


async def test_a_tool_for_clients_that_can_be_asked_is_listed_for_them_and_asks_them():
    async with shared() as (made, transport):
        able, other, plain = await hello(made, ELICITS), await hello(made, ELICITS), await hello(made, {})
        await able.tools()
        await until(lambda: able.link.notified)
        assert [method for method, _ in able.link.notified] == [CHANGED]
        for client in (able, other):
            assert await client.tools() == ["fs__form", "fs__plain"]
        assert await plain.tools() == ["fs__plain"]
        assert (await able.call("fs__form"))["content"][0]["text"] == "accept"
        assert transport.opened[-1].hello["capabilities"] == ELICITS
        assert (await plain.call("fs__plain"))["content"][0]["text"] == "plain"
        assert transport.opened[0].calls == [("plain", {})]
        assert plain.link.notified == []


async def test_a_program_that_lists_the_same_is_started_once_more_and_never_again():
    store = MemoryStore()
    for starts in (2, 1):  # the second time it is known
        async with shared(lambda: Form(depends=False), store) as (made, transport):
            clients = [await hello(made, able) for able in (ELICITS, {"roots": {}}, {})]
            for client in clients:
                assert await client.tools() == ["fs__plain"]
            await until(lambda: found(made))
            assert found(made)[1] == "same"
            for client in clients:
                await client.call("fs__plain")
            assert len(transport.opened) == starts
            assert all(client.link.notified == [] for client in clients)


async def test_of_a_program_that_is_known_to_differ_the_first_list_is_right_and_another_version_is_looked_at_anew():
    store = MemoryStore()
    async with shared(Form, store) as (made, _):
        await (await hello(made, ELICITS)).tools()
        await until(lambda: found(made))
    async with shared(Form, store) as (made, transport):
        assert await (await hello(made, ELICITS)).tools() == ["fs__form", "fs__plain"]
        assert len(transport.opened) == 2
    async with shared(lambda: Form(version="2", depends=False), store) as (made, _):
        await (await hello(made, ELICITS)).tools()
        await until(lambda: '"2"' in found(made)[0])
        assert found(made)[1] == "same"


async def test_what_clients_did_to_the_list_for_all_makes_no_difference():
    async with shared(lambda: Form(depends=False)) as (made, transport):
        client = await hello(made, ELICITS)
        transport.opened[0].change(["plain", "more"])
        await until(lambda: len(made.servers["fs"].tools.listed) == 2)
        assert await client.tools() == ["fs__more", "fs__plain"]
        await until(lambda: found(made))
        assert (found(made)[1], len(transport.opened)) == ("same", 3)


@pytest.mark.parametrize(
    ("settings", "able"), [({"sharing": "shared"}, ELICITS), ({}, {}), ({"sharing": "per_client"}, {})]
)
async def test_nobody_looks_where_it_would_make_no_difference(settings, able):
    async with shared(**settings) as (made, transport):
        client = await hello(made, able)
        assert await client.tools() == await client.tools() == ["fs__plain"]
        assert len(transport.opened) == 1


async def test_whoever_finds_no_room_shares_the_one_for_all():
    async with shared(max_clients=1) as (made, _):
        one, two = await hello(made, ELICITS), await hello(made, ELICITS)
        await one.tools()
        await until(lambda: one.link.notified)
        assert (await one.call("fs__form"))["content"][0]["text"] == "accept"
        assert await two.tools() == ["fs__plain"]
        assert (await two.call("fs__plain"))["content"][0]["text"] == "plain"
