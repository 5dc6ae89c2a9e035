"""Guides of plugins reach clients as resources, prompts and tools, and the instructions tell of them and of servers."""

from __future__ import annotations

import types

import pytest

from pml_hookspecs import MetaTool, Offer, RpcError, Selection, hookimpl
from pml_kit.offers import GUIDES, Guide
from pml_mcp.clients.guides import Guides
from pml_mcp.clients.introduction import MOST_CHARACTERS
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
GUIDE = Guide(name="knots", description="How to tie knots.", text="# Knots\nPull.", questions=("how to tie a knot",))


async def nothing(_arguments, _run):
    return {}


SEARCH = MetaTool(
    definition={"name": "search_tools", "inputSchema": {"type": "object"}}, call=nothing, whole_catalog=True
)


class FullMode:
    """A mode whose clients have all tools at hand."""

    lists_meta_tools = False

    def __init__(self, settings=None, services=None):
        pass

    async def select(self, catalog, _session):
        return Selection(tuple(entry.id for entry in catalog if not entry.own), shared=True)


def plugin(*guides):
    made = types.ModuleType("made")
    made.pml_offers = hookimpl(lambda services: [Offer(GUIDES, one) for one in guides])
    made.pml_meta_tools = hookimpl(lambda services: [SEARCH])
    return made


def gateway(servers=None, *, guides=(GUIDE,), **options):
    plugins = {("hooks", "made"): plugin(*guides), ("exposure_mode", "everything"): FullMode}
    return running(servers or {"fs": ScriptedServer(["read"])}, plugins=plugins, **options)


async def test_a_guide_is_a_resource_a_prompt_and_a_tool():
    async with gateway() as made:
        client = Client(made)
        await client.initialize()
        listed = (await client.request("resources/list"))["resources"]
        (shown,) = [one for one in listed if one["uri"] == "pml://guide/knots"]
        assert (shown["description"], shown["mimeType"]) == ("How to tie knots.", "text/markdown")
        (content,) = (await client.request("resources/read", {"uri": "pml://guide/knots"}))["contents"]
        assert content["text"] == GUIDE.text
        assert {"name": "guide_knots", "description": "How to tie knots."} in (await client.request("prompts/list"))[
            "prompts"
        ]
        (message,) = (await client.request("prompts/get", {"name": "guide_knots"}))["messages"]
        assert message == {"role": "user", "content": {"type": "text", "text": GUIDE.text}}
        assert (await client.call("guide_knots"))["structuredContent"] == {"guide": GUIDE.text}
        assert "guide_knots" not in await client.tools()
        with pytest.raises(RpcError):
            await client.request("resources/read", {"uri": "pml://guide/nots"})
        with pytest.raises(RpcError):
            await client.request("prompts/get", {"name": "guide_nots"})


def test_two_plugins_cannot_have_a_guide_of_one_name():
    with pytest.raises(Exception, match="guide 'knots' is claimed by plugins 'a' and 'b'"):
        Guides([("a", GUIDE), ("b", GUIDE)])


@pytest.mark.parametrize("modern", [False, True])
async def test_the_instructions_name_servers_and_guides_and_fit_the_mode(modern):
    fs, db = ScriptedServer(["read"]), ScriptedServer(["query"])
    fs.instructions = "Reads files of this project. Paths are relative."
    db.about = {"name": "db", "version": "1"}
    for mode, finds in (("meta_only", True), ("everything", False)):
        async with gateway({"fs": fs, "db": db}, tools_exposure=mode) as made:
            client = Client(made, modern=modern)
            answer = await (client.request("server/discover") if modern else client.initialize())
        text = answer["instructions"]
        assert ("search_tools" in text) is finds
        assert ("pml://guide/knots" in text) is finds
        said = "Reads files of this project." if finds else "Reads files of this project. Paths are relative."
        assert f"\n- fs: {said}" in text
        assert ("Paths are relative." in text) is not finds
        assert "\n- db" in text


async def test_the_instructions_are_bounded():
    servers = {f"server{n:03}": ScriptedServer(["read"]) for n in range(100)}
    for server in servers.values():
        server.instructions = "word " * 400
    async with gateway(servers) as made:
        text = (await Client(made).initialize())["instructions"]
    assert len(text) <= MOST_CHARACTERS
    assert "more: " in text
