from __future__ import annotations

import asyncio
import json

import pytest

from pml_catalog.exposure.lists import KEPT, Exposure, MetaOnlyView
from pml_catalog.exposure.tool_rules import Filters
from pml_catalog.live import LiveCatalog, make_entry
from pml_hookspecs import MetaTool, Selection, Session
from pml_settings.config import Config, GatewaySettings
from pml_settings.rehearsals import Rehearsals
from pml_testing.fakes import FakeLog
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
SESSION = Session(key="k")


async def ours(arguments, run):
    return {}


class Mode:
    """Selects what ``choose`` says; counts how often it is asked."""

    def __init__(self, choose=None, services=None) -> None:
        self.choose = choose or (lambda catalog, session: tuple(e.id for e in catalog))
        self.asked: list[str] = []

    async def select(self, catalog, session):
        self.asked.append(session.key)
        await asyncio.sleep(0)
        return Selection(self.choose(catalog, session))


def exposure(mode, filters=(), log=None, **servers):
    log = log or FakeLog()
    catalog = LiveCatalog(log, None)
    meta = MetaTool(definition={"name": "search_tools", "inputSchema": {"type": "object"}}, call=ours)
    catalog.offer(
        [meta, MetaTool(definition={"name": "hidden", "inputSchema": {"type": "object"}}, call=ours, listed=False)]
    )
    for server, definitions in (servers or {"fs": [{"name": "b"}, {"name": "a"}]}).items():
        catalog.publish(server, [make_entry(server, d) for d in definitions])
    rehearsals = Rehearsals(lambda: Config(GatewaySettings(), {}, {}, ()))
    return Exposure(mode, catalog, Filters(filters, log), rehearsals, log), catalog, log


def names(listed) -> list[str]:
    return [tool["name"] for tool in json.loads(listed.raw)["tools"]]


async def test_without_a_mode_only_the_listed_meta_tools_are_shown():
    made, _, _ = exposure(MetaOnlyView())
    assert names(await made.tools(SESSION)) == ["search_tools"]


async def test_the_order_is_the_modes():
    made, _, _ = exposure(Mode(lambda c, s: ("fs:b", "pml:search_tools", "fs:a")))
    assert names(await made.tools(SESSION)) == ["fs__b", "search_tools", "fs__a"]


def boom(catalog, session):
    raise ValueError("broken mode")


@pytest.mark.parametrize("choose", [boom, lambda c, s: None, lambda c, s: 5, lambda c, s: ([],)])
async def test_a_mode_that_fails_shows_the_meta_tools_and_is_logged(choose):
    made, _, log = exposure(Mode(choose))
    assert names(await made.tools(SESSION)) == ["search_tools"]
    assert any(level in ("exception", "error", "warning") for level, _, _ in log.lines)


async def test_ids_that_are_unknown_or_selected_twice_are_dropped_and_logged():
    made, _, log = exposure(Mode(lambda c, s: ("fs:a", "fs:none", "fs:b", "fs:a")))
    assert names(await made.tools(SESSION)) == ["fs__a", "fs__b"]
    assert [fields["tool"] for _, _, fields in log.lines] == ["fs:none", "fs:a"]


async def test_filters_drop_tools_from_every_list_and_one_that_fails_drops_too():
    def no_a(entry, session):
        return entry.name != "a"

    def fails_on_b(entry, session):
        if entry.name == "b":
            raise ValueError
        return True

    made, _, log = exposure(Mode(), [("p", no_a), ("q", fails_on_b)])
    assert names(await made.tools(SESSION)) == ["hidden", "search_tools"]
    assert log.lines[0][2]["plugin"] == "q"
    made, _, _ = exposure(Mode(boom), [("p", lambda e, s: False)])
    assert names(await made.tools(SESSION)) == []


async def test_a_list_is_the_same_bytes_each_time_and_in_every_gateway():
    definitions = {"fs": [{"name": "a", "inputSchema": {"type": "object", "z": 1, "b": [1.0]}, "x": "é"}]}
    made, _, _ = exposure(Mode(), **definitions)
    first = (await made.tools(SESSION)).raw
    assert (await made.tools(Session(key="other"))).raw == first
    assert (await exposure(Mode(), **definitions)[0].tools(SESSION)).raw == first


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({}, {"type": "object"}),
        (None, {"type": "object"}),
        ("x", {"type": "object"}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "string", "x": 1}, {"type": "object", "x": 1}),
        ({"type": ["object", "null"]}, {"type": "object"}),
    ],
)
async def test_an_input_schema_is_mended_in_the_list_and_only_there(given, shown):
    definition = {"name": "a", "inputSchema": given, "annotations": {"readOnlyHint": True}, "x-unknown": 1}
    made, catalog, _ = exposure(Mode(lambda c, s: ("fs:a",)), fs=[definition])
    (tool,) = json.loads((await made.tools(SESSION)).raw)["tools"]
    assert tool == {**definition, "name": "fs__a", "inputSchema": shown}
    assert catalog.get("fs:a").definition == definition


async def test_a_tool_without_input_schema_gets_one():
    made, _, _ = exposure(Mode(lambda c, s: ("fs:a",)), fs=[{"name": "a"}])
    assert json.loads((await made.tools(SESSION)).raw)["tools"] == [
        {"name": "fs__a", "inputSchema": {"type": "object"}}
    ]


async def test_a_view_is_made_once_per_revision():
    mode = Mode(lambda c, s: tuple(e.id for e in c if s.key in e.id or e.own))
    made, catalog, _ = exposure(mode)
    for key in ("a", "b", "a", "b"):
        await made.tools(Session(key=key))
    assert mode.asked == ["a", "b"]
    assert names(await made.tools(Session(key="a"))) != names(await made.tools(Session(key="b")))
    catalog.publish("fs", [make_entry("fs", {"name": "abc"})])
    assert "fs__abc" in names(await made.tools(Session(key="a")))
    assert mode.asked == ["a", "b", "a"]


async def test_the_same_list_asked_for_at_once_is_made_once():
    mode = Mode()
    made, _, _ = exposure(mode)
    listed = await asyncio.gather(*(made.tools(SESSION) for _ in range(5)))
    assert (len({r.raw for r in listed}), mode.asked) == (1, ["k"])


async def test_not_more_views_are_kept_than_the_limit():
    mode = Mode()
    made, _, _ = exposure(mode)
    for number in range(KEPT + 1):
        await made.tools(Session(key=str(number)))
    await made.tools(Session(key=str(KEPT)))
    assert len(mode.asked) == KEPT + 1
    await made.tools(Session(key="0"))
    assert len(mode.asked) == KEPT + 2


# In a gateway


async def test_an_unknown_mode_is_warned_of_in_the_words_of_the_document_and_shows_the_meta_tools(capsys):
    async with running({"fs": ScriptedServer(["read"])}, tools_exposure="sometimes") as made:
        assert await Client(made).tools() == []
    assert "Unknown tools_exposure mode: sometimes, defaulting to meta_only" in capsys.readouterr().err


class OnlyServer:
    """Shows the server named in the client's intent, or all."""

    def __init__(self, settings, services):
        pass

    async def select(self, catalog, session):
        return Selection(tuple(e.id for e in catalog if session.intent in ("", e.server)))


async def settled(made):
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        while made._changed is not None and not made._changed.done():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


async def test_only_clients_whose_own_list_changed_are_told(monkeypatch):
    fs, git = ScriptedServer(["read"]), ScriptedServer(["log"])
    plugins = {("exposure_mode", "only"): OnlyServer}
    async with running({"fs": fs, "git": git}, plugins=plugins, tools_exposure="only", intent="fs") as made:
        client, silent, early = Client(made), Client(made), Client(made)
        for one in (client, silent):
            await one.initialize()
        assert await client.tools() == ["fs__read"]
        await early.tools()  # has not finished the handshake
        git.change(["log", "diff"])
        await asyncio.sleep(0.01)
        await settled(made)
        assert client.link.notified == []
        fs.change(["read", "write"])
        async with asyncio.timeout(30):
            while not client.link.notified:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)
        assert client.link.notified == [("notifications/tools/list_changed", {})]
        assert (silent.link.notified, early.link.notified) == ([], [])
        assert await client.tools() == ["fs__read", "fs__write"]


async def test_a_client_that_is_gone_is_not_told():
    fs = ScriptedServer(["read"])
    plugins = {("exposure_mode", "only"): OnlyServer}
    async with running({"fs": fs}, plugins=plugins, tools_exposure="only") as made:
        gone, here = Client(made), Client(made)
        for one in (gone, here):
            await one.initialize()
            await one.tools()
        gone._handler.closed(None)
        fs.change(["write"])
        async with asyncio.timeout(30):
            while not here.link.notified:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)
        assert gone.link.notified == []
        assert len(made.conversations) == 1
