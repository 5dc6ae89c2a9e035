from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from pml_catalog import listing
from pml_hookspecs import RawObject, RpcError
from pml_testing.downstream import Lister, named, state, tools_of, until
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio


async def test_a_list_in_pages_is_read_to_its_end_also_under_an_empty_cursor():
    pages = {
        None: {"tools": named("a"), "nextCursor": ""},
        "": {"tools": named("b"), "nextCursor": "two"},
        "two": {"tools": named("c")},
    }
    server = Lister(pages)
    async with running({"fs": server}) as made:
        assert tools_of(made) == ["a", "b", "c"]
        assert server.cursors == [{}, {"cursor": ""}, {"cursor": "two"}]


async def test_a_server_that_pages_in_circles_is_not_followed_for_ever(monkeypatch):
    monkeypatch.setattr(listing, "MOST_PAGES", 5)
    server = Lister({None: {"tools": named("a"), "nextCursor": "x"}, "x": {"tools": named("b"), "nextCursor": "x"}})
    async with running({"fs": server}) as made:
        assert tools_of(made) == ["a", "b"]
        assert len(server.cursors) == 5


@pytest.mark.parametrize("page", [RpcError(-32601, "Method not found"), {}, {"tools": []}, {"tools": None}])
async def test_a_server_without_tools_is_up(page):
    async with running({"fs": Lister({None: page})}) as made:
        assert (state(made).state, tools_of(made)) == ("up", [])


async def test_a_server_that_cannot_list_is_down_with_its_own_reason(quick):
    async with running({"fs": Lister({None: RpcError(-32603, "database is locked")})}) as made:
        assert state(made).state == "down"
        assert "database is locked" in state(made).reason


@pytest.mark.parametrize("page", [{"tools": 5}, {"tools": "read"}, {"tools": {"name": "read"}}, {"tools": True}])
async def test_a_list_that_is_no_list_never_leaves_a_server_starting_for_ever(quick, page):
    servers = {"bad": Lister({None: page}), "fs": ScriptedServer(["read"])}
    async with running(servers, list_wait_s=0.5) as made:
        assert state(made).state == "up"
        assert state(made, "bad").state in ("up", "down")
        assert tools_of(made, "bad") == []


async def test_broken_tools_are_warned_of_and_never_hide_the_others(capsys):
    listed = [
        {"description": "no name"},
        {"name": ""},
        {"name": 5},
        "text",
        None,
        *named("good"),
        {"name": "good", "description": "again"},
        {"name": "bare"},
        {"name": "empty", "inputSchema": {}},
        {"name": "odd", "inputSchema": {"type": "string"}},
        {"name": "text", "inputSchema": "x"},
    ]
    async with running({"fs": Lister({None: {"tools": listed}})}) as made:
        assert tools_of(made) == ["bare", "empty", "good", "odd", "text"]
        assert made.catalog.get("fs:good").description == ""
        assert made.catalog.get("fs:empty").definition == {"name": "empty", "inputSchema": {}}
    log = capsys.readouterr().err
    assert log.count("a tool without a name is left out") == 3
    assert log.count("an item of a list is left out") == 2
    assert log.count("a tool is listed twice") == 1
    for name in ("bare", "empty", "odd", "text"):
        assert any("inputSchema is not of type object" in line and name in line for line in log.splitlines())


async def test_a_tool_whose_name_is_no_text_at_all_never_takes_other_servers_down(quick):
    bad = Lister({None: {"tools": named("x\ud800", "fine")}})
    async with running({"bad": bad, "fs": ScriptedServer(["read"])}) as made:
        assert (state(made, "bad").state, state(made).state) == ("up", "up")
        assert (await Client(made).call("fs__read"))["structuredContent"] == {}
        assert (await Client(made).call("bad__fine"))["structuredContent"] == {}


async def test_a_changed_list_is_read_again():
    server = ScriptedServer(["a"])
    async with running({"fs": server}) as made:
        revision = made.catalog.revision
        server.change(["b", "c"])
        await until(lambda: tools_of(made) == ["b", "c"])
        assert made.catalog.revision != revision
        assert state(made).tools == 2


async def test_a_change_while_the_list_is_being_read_is_not_lost():
    server = Lister({None: {"tools": named("a")}})
    async with running({"fs": server}) as made:
        server.gate = asyncio.Event()
        server.listing.clear()
        server.pages = {None: {"tools": named("old")}}
        server.handler.notification("notifications/tools/list_changed", RawObject(b"{}"))
        await server.listing.wait()
        server.pages = {None: {"tools": named("new")}}
        server.handler.notification("notifications/tools/list_changed", RawObject(b"{}"))
        server.gate.set()
        await until(lambda: tools_of(made) == ["new"])


async def test_a_change_while_the_first_list_is_being_read_is_not_lost():
    server = Lister({None: {"tools": named("old")}})
    server.gate = asyncio.Event()
    async with running({"fs": server}, list_wait_s=0.01) as made:
        await server.listing.wait()
        server.pages = {None: {"tools": named("new")}}
        server.handler.notification("notifications/tools/list_changed", RawObject(b"{}"))
        await asyncio.sleep(0)
        server.gate.set()
        await until(lambda: state(made).state == "up")
        with suppress(TimeoutError):
            await until(lambda: tools_of(made) == ["new"], 60)
        assert tools_of(made) == ["new"]


async def test_a_changed_list_that_cannot_be_read_leaves_the_old_one(capsys):
    server = Lister({None: {"tools": named("a")}})
    async with running({"fs": server}) as made:
        server.pages = {None: RpcError(-32603, "not now")}
        server.listing.clear()
        server.handler.notification("notifications/tools/list_changed", RawObject(b"{}"))
        await server.listing.wait()
        await asyncio.sleep(0.01)
        assert (tools_of(made), state(made).state) == (["a"], "up")
    assert "the tool list could not be read again" in capsys.readouterr().err


async def test_a_start_shows_the_tools_of_last_time_until_the_server_is_up():
    server = Lister({None: {"tools": named("new")}})
    async with running({"fs": server}) as made:
        store = made.store
        await until(lambda: store.catalog.tools.values)

    class Kept:
        def __call__(self, settings, services):
            return store

    server.gate = asyncio.Event()
    server.listing.clear()
    server.pages = {None: {"tools": named("newer")}}
    async with running({"fs": server}, plugins={("store", "sqlite"): Kept()}, list_wait_s=5.0) as made:
        assert (tools_of(made), state(made).state, state(made).tools) == (["new"], "starting", 1)
        server.gate.set()
        await until(lambda: state(made).state == "up")
        assert tools_of(made) == ["newer"]
