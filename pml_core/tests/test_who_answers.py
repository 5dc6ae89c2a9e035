"""With one server a client sees that server; with several, the gateway and a few words of each."""

from __future__ import annotations

import asyncio
import types

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import Identity, MetaTool, RpcError, Selection, hookimpl
from pml_kit.mcp.tokens import estimate
from pml_testing.gateway import ABOUT_CLIENT, Client, ScriptedServer, running, until

pytestmark = pytest.mark.anyio
ABOUT = {"name": "files", "title": "Files of the project", "version": "4.2", "websiteUrl": "https://files.invalid"}
SAYS = "Reads files.\n\n## Paths\n- relative to the project\n"
SERVER_INFO, GATEWAY = "io.modelcontextprotocol/serverInfo", "pml/gateway"


class Everything:
    """A mode that lists the servers' tools alone."""

    settings_type = None
    lists_meta_tools = False

    def __init__(self, settings, services):
        pass

    async def select(self, catalog, _session):
        return Selection(tuple(entry.id for entry in catalog if not entry.own), shared=True)


async def answer(_arguments, _run):
    return {}


def own_tools():
    made = types.ModuleType("own")
    tools = [
        MetaTool(definition={"name": "look", "inputSchema": {"type": "object"}}, call=answer, whole_catalog=True),
        MetaTool(definition={"name": "use", "inputSchema": {"type": "object"}}, call=answer),
        MetaTool(definition={"name": "unlisted", "inputSchema": {"type": "object"}}, call=answer, listed=False),
    ]
    made.pml_meta_tools = hookimpl(lambda services: tools)
    return made


def gateway(servers, *, keeps=None, store=None, **options):
    plugins = {("hooks", "own"): own_tools(), ("exposure_mode", "everything"): Everything}
    if keeps is not None:
        policy = types.ModuleType("policy")
        policy.pml_filter_tools = hookimpl(lambda services: [keeps])
        plugins["hooks", "policy"] = policy
    if store is not None:
        plugins["store", "sqlite"] = lambda _settings, _services: store
    return running(servers, plugins=plugins, **options)


def server(says=SAYS, about=ABOUT, era="legacy"):
    made = ScriptedServer(["read"], eras=[era])
    made.instructions, made.about = says, about
    return made


async def greeted(made, *, modern=False, **about):
    """Who answers, what it says, and the gateway beside it."""
    client = Client(made, modern=modern, **about)
    said = await (client.request("server/discover") if modern else client.initialize())
    who = said["_meta"][SERVER_INFO] if modern else said["serverInfo"]
    return who, said.get("instructions"), said.get("_meta", {}).get(GATEWAY)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("modern", [False, True])
async def test_the_only_server_speaks_for_itself(era, modern):
    async with gateway({"fs": server(era=era)}, tools_exposure="everything", settings={"era": era}) as made:
        who, said, beside = await greeted(made, modern=modern)
    assert who == ABOUT
    assert said.startswith(SAYS)
    assert "server 'fs'" in said
    assert said.endswith("Tools are listed as fs__tool.")
    assert beside == {"name": "pml", "title": "PML gateway", "version": made.version}


@pytest.mark.parametrize("modern", [False, True])
async def test_where_nothing_differs_nothing_is_added(modern):
    options = {"tools_exposure": "everything", "settings": {"prefix": ""}}
    async with gateway({"fs": server()}, **options) as made:
        assert (await greeted(made, modern=modern))[1] == SAYS
    async with gateway({"fs": server(says=None)}, **options) as made:
        assert (await greeted(made, modern=modern))[1] is None


async def test_every_result_of_the_stateless_era_says_who_answers():
    async with gateway({"fs": server()}) as made:
        client = Client(made, modern=True)
        for method, params in (("tools/list", {}), ("tools/call", {"name": "fs__read", "arguments": {}})):
            assert (await client.request(method, params))["_meta"][SERVER_INFO] == ABOUT
    async with gateway({"fs": server(), "other": server()}) as made:
        assert (await Client(made, modern=True).request("tools/list"))["_meta"][SERVER_INFO]["name"] == "pml"


async def test_the_gateways_own_words_are_told_apart():
    async with gateway({"fs": server()}) as made:
        said = (await greeted(made))[1]
    first, own = said.split("The words above are those of the server 'fs'.")
    assert first == f"{SAYS}\n\n"
    assert "Tools that are not listed can be found with look and used with use." in own
    assert "unlisted" not in own


@pytest.mark.parametrize("modern", [False, True])
async def test_what_it_said_last_time_is_told_while_it_starts(modern, quick):
    store, fs = MemoryStore(), server()
    async with gateway({"fs": fs}, store=store) as made:
        await until(lambda: made.servers["fs"].greeting.words.about)
    fs.refuse = "not yet"
    async with gateway({"fs": fs}, store=store, list_wait_s=0.01) as made:
        who, said, _ = await greeted(made, modern=modern)
        assert (who, said[: len(SAYS)]) == (ABOUT, SAYS)
        fs.refuse, fs.instructions = "", "Reads other files."
        await until(lambda: made.catalog.status("fs").state == "up")
        assert (await greeted(made, modern=modern))[1].startswith("Reads other files.")


@pytest.mark.parametrize("modern", [False, True])
async def test_what_it_declared_last_time_is_declared_while_it_starts(modern, quick):
    store, fs = MemoryStore(), server()
    fs.offers = {"tools": {}, "tasks": {"list": {}}, "extensions": {"org.example/ui": {"mimeTypes": ["text/html"]}}}
    async with gateway({"fs": fs}, store=store) as made:
        await until(lambda: made.servers["fs"].greeting.words.about)
    fs.refuse = "not yet"
    async with gateway({"fs": fs}, store=store, list_wait_s=0.01) as made:
        client = Client(made, modern=modern)
        said = await (client.request("server/discover") if modern else client.initialize())
        assert said["capabilities"]["tasks"] == {"list": {}}
        assert said["capabilities"]["extensions"]["org.example/ui"] == {"mimeTypes": ["text/html"]}
        fs.refuse, fs.offers = "", {"tools": {}}
        await until(lambda: made.catalog.status("fs").state == "up")
        assert "tasks" not in (await Client(made).initialize())["capabilities"]


async def test_before_anything_is_known_the_gateway_speaks(quick):
    fs = server()
    fs.refuse = "not yet"
    async with gateway({"fs": fs}, list_wait_s=0.01) as made:
        who, said, beside = await greeted(made)
    assert (who["name"], beside) == ("pml", None)
    assert said.startswith("Gateway to several MCP servers.")


@pytest.mark.parametrize("about", [None, "text", {}, {"name": 5}])
async def test_a_server_that_does_not_say_who_it_is_is_answered_for(about):
    async with gateway({"fs": server(about=about)}) as made:
        who, said, _ = await greeted(made)
    assert who["name"] == "pml"
    assert "- fs: Reads files." in said


async def test_disabled_servers_do_not_count():
    async with gateway({"fs": server(), "gone": server()}) as made:
        made.servers["gone"].settings = type(made.servers["gone"].settings)(address="scripted:gone", enabled=False)
        assert (await greeted(made))[0] == ABOUT


@pytest.mark.attack("A key sees its scope", "learn of servers, and their words, that the key may not use")
@pytest.mark.parametrize("modern", [False, True])
async def test_a_key_hears_of_the_servers_that_it_may_use(modern):
    secret = server(says="The secret project Nightjar.", about={"name": "nightjar", "version": "1"})
    key = Identity(principal="alice", access_key="k")
    async with gateway({"fs": server(), "secret": secret}, keeps=lambda e, s: e.server != "secret") as made:
        who, said, _ = await greeted(made, modern=modern, identity=key)
        assert (who, said.startswith(SAYS)) == (ABOUT, True)
    async with gateway({"secret": secret}, keeps=lambda e, s: e.server != "secret") as made:
        who, said, _ = await greeted(made, modern=modern, identity=key)
        assert who["name"] == "pml"
        assert "Nightjar" not in said


async def test_of_several_a_few_words_each_are_told_that_end_with_a_sentence():
    long = "First it reads. " + "Then it goes on and on with what it does. " * 40
    async with gateway({"a": server(long), "b": server("One word")}, tools_exposure="everything") as made:
        who, said, beside = await greeted(made)
    assert (who["name"], beside) == ("pml", None)
    assert "Servers, in their own words:" in said
    (line,) = [line for line in said.splitlines() if line.startswith("- a: ")]
    assert line.startswith("- a: First it reads. Then it goes on")
    assert line.endswith("what it does. …")
    assert estimate(line) <= 130
    assert said.endswith("All that they say of themselves is in the resource pml://status.")


@pytest.mark.parametrize("several", [False, True])
async def test_what_nobody_would_see_is_taken_out(several):
    says = "Re\u200bads\x1b[31m files\u202e.\x07\x00\u2028Nex\U000e0041t\u00a0line\ud800.\x9b"
    about = {"name": "fi\u200dles\x1b]0;owned\x07", "version": "1\x08", "icons": [{"src": "x\u2060"}]}
    servers = {"fs": server(says, about), **({"other": server(None)} if several else {})}
    async with gateway(servers, tools_exposure="everything") as made:
        who, said, _ = await greeted(made)
    if several:
        assert "- fs: Reads files. Next line." in said
    else:
        assert said.startswith("Reads files.\nNext line.")
        assert who == {"name": "files", "version": "1", "icons": [{"src": "x"}]}


@pytest.mark.attack("No input stops the house", "send a megabyte of instructions, and a name as long")
async def test_what_a_server_says_is_bounded():
    about = {"name": "n" * 1_000_000, "version": "1", "icons": [{"src": "i" * 1_000_000}]}
    async with gateway({"fs": server("A sentence. " * 100_000, about)}, tools_exposure="everything") as made:
        who, said, _ = await greeted(made)
    assert who == {"name": "n" * 200, "version": "1"}
    assert len(said) < 17_000
    assert "A sentence. …" in said


async def test_an_unknown_tool_is_told_of_tools_that_are_listed():
    for mode, hint in (("meta_only", " Find tools with look."), ("everything", "")):
        async with gateway({"fs": server()}, tools_exposure=mode) as made:
            with pytest.raises(RpcError) as caught:
                await Client(made).call("qqqqqqqqqqqq")
        assert caught.value.message == f"Unknown tool: qqqqqqqqqqqq.{hint}"


async def test_what_a_filter_drops_is_not_told_of():
    async with gateway({"fs": server(), "b": server()}, keeps=lambda e, s: e.name != "look") as made:
        said = (await greeted(made))[1]
    assert "look" not in said
    assert "Tools that are not listed can be used with use." in said


class Silent(ScriptedServer):
    """Never answers some requests."""

    def __init__(self, *unanswered):
        super().__init__(["read"])
        self.about, self._unanswered = ABOUT, unanswered

    async def serve(self, method, params):
        if method in self._unanswered:
            await asyncio.Event().wait()
        return await super().serve(method, params)


PATIENT = {"list_wait_s": 600, "start_timeout_s": 600, "one_client": True}
WITHIN_S = 60
"""Who waits for a server that never answers waits longer."""


@pytest.mark.parametrize("modern", [False, True])
async def test_at_its_very_first_start_the_only_server_is_waited_for_and_not_for_its_tools(modern):
    fs = Silent("tools/list")
    async with asyncio.timeout(WITHIN_S), gateway({"fs": fs}, settings={"era": "legacy"}, **PATIENT) as made:
        assert (await greeted(made, modern=modern))[0] == ABOUT
        assert fs.hello["clientInfo"] == ABOUT_CLIENT


async def test_an_only_server_that_never_answers_is_waited_for_once():
    store = MemoryStore()
    async with asyncio.timeout(WITHIN_S):
        for wait_s in (0.2, 600):
            options = {**PATIENT, "list_wait_s": wait_s}
            async with gateway({"fs": Silent("initialize")}, store=store, **options) as made:
                for _client in range(2):
                    assert (await greeted(made))[0]["name"] == "pml"


async def test_one_of_several_servers_is_not_waited_for():
    servers = {name: Silent("initialize") for name in ("one", "two")}
    async with asyncio.timeout(WITHIN_S), gateway(servers, name="both", **PATIENT) as made:
        assert (await greeted(made))[0]["name"] == "both"
