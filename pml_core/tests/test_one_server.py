"""One server behind a gateway whose mode lists the servers' tools alone: it is shown as it is."""

from __future__ import annotations

import types

import pytest

from pml_core.config import ServerSettings
from pml_hookspecs import Selection, hookimpl
from pml_testing.downstream import Connections, Lister, connected, named
from pml_testing.gateway import Client, ScriptedServer, running
from pml_testing.scripted import error_of

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
