"""One server behind a gateway whose mode lists the servers' tools alone: it is shown as it is."""

from __future__ import annotations

import asyncio
import types

import pytest

from pml_hookspecs import RawObject, Selection, hookimpl
from pml_settings.config import ServerSettings
from pml_testing.downstream import Connections, Lister, connected, named
from pml_testing.gateway import Client, ScriptedServer, running
from pml_testing.scripted import error_of, until

pytestmark = pytest.mark.anyio


class TransparentView:
    """A mode that lists the servers' tools alone."""

    settings_type = None
    lists_meta_tools = False

    def __init__(self, _settings, _services):
        pass

    async def select(self, catalog, _session):
        return Selection(tuple(entry.id for entry in catalog if not entry.own), shared=True)


def transparent(servers, *, keeps=None, **options):
    """A gateway whose mode lists what servers list, as far as ``keeps`` keeps it."""
    plugins = {("exposure_mode", "plain"): TransparentView}
    if keeps is not None:
        policy = types.ModuleType("policy")
        policy.pml_filter_tools = hookimpl(lambda services: [keeps])
        plugins["hooks", "policy"] = policy
    return running(servers, plugins=plugins, tools_exposure="plain", **options)


async def walked(client):
    pages, cursor = [], None
    while True:
        page = await client.request("tools/list", {} if cursor is None else {"cursor": cursor})
        pages.append([tool["name"].removeprefix("fs__") for tool in page["tools"]])
        if (cursor := page.get("nextCursor")) is None:
            return pages


def pages_of(*cursors):
    """A server's list on three pages, whose order is not that of the names; ``cursors`` are those of the last two."""
    one, two = cursors
    return {
        None: {"tools": named("c", "b"), "nextCursor": one},
        one: {"tools": [*named("a"), {"no": "name"}], "nextCursor": two},
        two: {"tools": named("d")},
    }


async def test_an_only_servers_tools_come_in_its_own_pages_and_order():
    async with transparent({"fs": Lister(pages_of("x", "y"))}) as made:
        assert await walked(Client(made)) == [["c", "b"], ["a"], ["d"]]
        error = await error_of(Client(made).request("tools/list", {"cursor": "z"}))
        assert (error.code, "begin again" in error.message) == (-32602, True)


@pytest.mark.parametrize("cursors", [("x", 5), (7, "y"), ("x" * 10_001, "y")])
async def test_pages_whose_cursors_clients_could_not_send_are_one(cursors):
    async with transparent({"fs": Lister(pages_of(*cursors))}) as made:
        assert await walked(Client(made)) == [["a", "b", "c", "d"]]


async def test_where_something_is_hidden_or_there_are_more_servers_or_a_page_size_the_pages_are_our_own():
    def hides(entry, _session):
        return entry.name != "b"

    async with transparent({"fs": Lister(pages_of("x", "y"))}, keeps=hides) as made:
        assert await walked(Client(made)) == [["a", "c", "d"]]
    async with transparent({"fs": Lister(pages_of("x", "y")), "other": ScriptedServer(["z"])}) as made:
        assert await walked(Client(made)) == [["a", "b", "c", "d", "other__z"]]
    async with transparent({"fs": Lister(pages_of("x", "y"))}, page_size=3) as made:
        assert await walked(Client(made)) == [["a", "b", "c"], ["d"]]


@pytest.mark.parametrize(
    ("said", "relist_s", "told"),
    [((90_000, 30_000), 60, 30_000), ((90_000, 90_000), 60, 60_000), ((90_000, None), 60, 0), ((-5, 9), 60, 0),
     (("9", 9), 60, 0), ((10**400, 10**400), 60, 60_000)],
)  # fmt: skip
async def test_how_long_an_only_servers_list_is_fresh_is_the_least_that_it_said_of_a_page(said, relist_s, told):
    first, second = ({} if one is None else {"ttlMs": one} for one in said)
    pages = {None: {"tools": named("a"), "nextCursor": "x", **first}, "x": {"tools": named("b"), **second}}
    settings = {"fs": ServerSettings(address="scripted:fs", era="modern", relist_s=relist_s)}
    transport = Connections({"fs": lambda: Lister(pages, eras=["modern"])})
    plugins = {("exposure_mode", "plain"): TransparentView}
    async with connected(transport, settings, plugins=plugins, tools_exposure="plain") as made:
        answer = await Client(made, modern=True).request("tools/list")
        assert told - 30_000 <= answer["ttlMs"] <= told


POSSIBLE = {"tools", "resources", "prompts", "completions", "logging"}
OFFERS = {"tools": {}, "completions": {}, "experimental": {"x": {}}, "odd": {}, "logging": None}
ADDED = {"resources"}
"""What the gateway adds itself: its status is a resource."""


async def told(made, *, modern, **options):
    """The capabilities that a client is told when it connects."""
    client = Client(made, modern=modern)
    greeting = await (client.request("server/discover") if modern else client.initialize(**options))
    return {name: value for name, value in greeting["capabilities"].items() if name != "extensions"}


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("one_client", [False, True])
async def test_a_client_is_told_what_its_only_server_declares_at_its_first_start_too(modern, one_client):
    server = ScriptedServer(["read"])
    server.offers = OFFERS
    async with transparent({"fs": server}, one_client=one_client) as made:
        found = await told(made, modern=modern)
        assert found.keys() == {"tools", "completions", "experimental"} | ADDED
        assert (found["tools"], found["resources"]) == ({"listChanged": True}, {"listChanged": True})


@pytest.mark.parametrize("subscribe", [False, True])
async def test_subscriptions_are_declared_where_the_server_takes_them(subscribe):
    server = ScriptedServer([])
    server.offers = {"resources": {"subscribe": subscribe}}
    async with transparent({"fs": server}) as made:
        expected = {"listChanged": True, **({"subscribe": True} if subscribe else {})}
        assert await told(made, modern=False) == {"resources": expected}


async def test_where_it_is_not_known_what_there_will_be_all_is_declared_that_there_may_be():
    plain, silent = ScriptedServer(["read"]), ScriptedServer(["read"])
    silent.refuse = "not today"
    async with transparent({"fs": silent}) as made:
        assert (await told(made, modern=False)).keys() == POSSIBLE
    async with transparent({"fs": plain, "other": ScriptedServer([])}) as made:
        assert (await told(made, modern=False)).keys() == POSSIBLE
    async with running({"fs": plain}) as made:  # its mode lists the gateway's tools
        assert (await told(made, modern=False)).keys() == POSSIBLE


async def test_what_was_not_declared_can_be_used_all_the_same():
    server = ScriptedServer(["read"])

    async def completed(_params):
        return {"completion": {"values": ["a"]}}

    server.others["completion/complete"] = completed
    async with transparent({"fs": server}) as made:
        client = Client(made)
        assert "completions" not in (await client.initialize())["capabilities"]
        asked = {"ref": {"type": "ref/prompt", "name": "fs__x"}, "argument": {"name": "a", "value": ""}}
        assert (await client.request("completion/complete", asked))["completion"] == {"values": ["a"]}
        assert await client.request("logging/setLevel", {"level": "error"}) == {}


CHANGED = "notifications/tools/list_changed"


async def test_that_the_tools_have_changed_is_passed_on_as_often_as_the_server_says_it_whether_they_have_or_not():
    server = ScriptedServer(["a"])
    server.offers = {"tools": {"listChanged": True}}
    async with transparent({"fs": server}, one_client=True) as made:
        client = Client(made)
        await client.initialize()
        assert await client.tools() == ["fs__a"]
        for names in (["a"], ["a", "b"], ["a", "b"], ["b"]):
            before = len(client.link.notified)
            server.change(names)
            assert await client.tools() == [f"fs__{name}" for name in names]
            assert [method for method, _ in client.link.notified[before:]] == [CHANGED]
        await until(lambda: not made.servers["fs"].tools.reading)
        assert len(client.link.notified) == 4


async def test_of_one_of_several_servers_clients_are_told_when_their_list_has_changed():
    servers = {"fs": ScriptedServer(["a"]), "other": ScriptedServer(["z"])}
    async with transparent(servers) as made:
        client = Client(made)
        await client.initialize()
        await client.tools()
        servers["fs"].change(["a"])
        await until(lambda: not made.servers["fs"].tools.reading)
        assert client.link.notified == []
        servers["fs"].change(["b"])
        await until(lambda: client.link.notified)
        assert [method for method, _ in client.link.notified] == [CHANGED]


@pytest.mark.parametrize("modern", [False, True])
async def test_a_client_hears_of_it_once_where_the_server_tells_each_of_its_connections(modern):
    server = ScriptedServer(["a"], eras=["legacy", "modern"])
    server.offers = {"tools": {"listChanged": True}}
    transport = Connections({"fs": lambda: server})
    settings = {"fs": ServerSettings(url="http://host/mcp")}
    plugins = {("exposure_mode", "plain"): TransparentView}
    async with connected(transport, settings, plugins=plugins, tools_exposure="plain") as made:
        client = Client(made, modern=modern)
        if not modern:
            await client.initialize()
        await client.call("fs__a")  # on a connection of its own, or of its era
        listens = asyncio.create_task(
            client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        )
        told = client.link.notified
        if modern:
            await until(lambda: told)  # the acknowledgement
            await until(lambda: server.streams)
        del told[:]
        for link in server.links:
            link.handler.notification(CHANGED, RawObject.of({}))
        assert await client.tools() == ["fs__a"]
        assert [method for method, _ in told] == [CHANGED]
        listens.cancel()
        await asyncio.gather(listens, return_exceptions=True)


class TwoFaces(ScriptedServer):
    """Declares an extension without a handshake only."""

    def __init__(self) -> None:
        super().__init__(["a"], eras=["legacy", "modern"])

    async def _serve_modern(self, method, params):
        answer = await super()._serve_modern(method, params)
        if method == "server/discover":
            return {**answer, "capabilities": {**self.offers, "extensions": {"vendor/skills": {}}}}
        return answer


async def test_what_a_server_elsewhere_declares_in_one_era_is_declared_in_that_era_from_the_first_client_on():
    server = TwoFaces()
    transport = Connections({"fs": lambda: server})
    plugins = {("exposure_mode", "plain"): TransparentView}
    settings = {"fs": ServerSettings(url="http://host/mcp")}
    async with connected(transport, settings, plugins=plugins, tools_exposure="plain") as made:
        assert len(transport.opened) == 1
        for _ in range(2):
            greeting = await Client(made, modern=True).request("server/discover")
            assert "vendor/skills" in greeting["capabilities"]["extensions"]
            assert len(server.links) == 2


async def test_a_server_elsewhere_that_does_not_speak_that_era_is_asked_once():
    server = ScriptedServer(["a"])
    transport = Connections({"fs": lambda: server})
    plugins = {("exposure_mode", "plain"): TransparentView}
    settings = {"fs": ServerSettings(url="http://host/mcp")}
    async with connected(transport, settings, plugins=plugins, tools_exposure="plain") as made:
        for _ in range(2):
            await Client(made, modern=True).request("server/discover")
            assert len(server.links) == 2
