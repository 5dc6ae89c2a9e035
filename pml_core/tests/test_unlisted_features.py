"""Prompts and resources that servers have and do not list: who is asked for them, and who never is."""

from __future__ import annotations

import pytest

from pml_hookspecs import RpcError, hookimpl
from pml_mcp.servers.connection import feature_lists as lists
from pml_mcp.servers.features import LOOKED_S, of_the_kind
from pml_testing.downstream import moving_clock
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(lists, "GLANCE_S", 600.0)


class Has(ScriptedServer):
    """Lists some prompts and resources, and answers for any."""

    def __init__(self, *uris: str, prompts=("listed",)) -> None:
        super().__init__([])
        self.offers = {"tools": {}, "prompts": {}, "resources": {}}
        self.uris, self.prompts = list(uris), list(prompts)
        self.others = {
            "prompts/list": self._prompts,
            "prompts/get": self._answer,
            "resources/list": self._resources,
            "resources/read": self._answer,
        }

    async def _prompts(self, _params):
        return {"prompts": [{"name": name} for name in self.prompts]}

    async def _resources(self, _params):
        return {"resources": [{"uri": uri, "name": uri} for uri in self.uris]}

    async def _answer(self, params):
        return {"messages": [], "contents": []}

    def asked_for(self) -> list[str]:
        """What it was asked for, its lists left out."""
        return [params.get("uri") or params["name"] for method, params in self.asked if not method.endswith("list")]

    def counted(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)


class Walls:
    """Hides or refuses what fits, by server."""

    def __init__(self, hidden=(), refused=()):
        self.hidden, self.refused = hidden, refused

    @hookimpl
    def pml_filter_tools(self):
        def hides(entry, _session):
            return not entry.id.startswith(tuple(self.hidden) or ("-",))

        def refuses(entry, _session):
            return not entry.id.startswith(tuple(self.refused) or ("-",))

        hides.hides = True
        return [hides, refuses]


def walls(**what):
    return {("hooks", "walls"): Walls(**what)}


async def ask(client, method, **params) -> str:
    """``""`` for an answer, else the message of the error."""
    try:
        await client.request(method, params)
    except RpcError as exc:
        return exc.message
    return ""


@pytest.mark.parametrize("name", ["a__extra", "a:extra"])
async def test_a_prompt_that_is_not_listed_is_asked_of_the_server_that_its_name_says(name):
    servers = {"a": Has(), "b": Has()}
    async with running(servers) as made:
        assert await ask(Client(made), "prompts/get", name=name) == ""
    assert (servers["a"].asked_for(), servers["b"].asked_for()) == (["extra"], [])


@pytest.mark.parametrize("name", ["extra", "c__extra", "a__LISTED", "a__lis-ted"])
async def test_a_prompt_that_no_one_server_is_named_for_or_is_written_otherwise_is_unknown(name):
    servers = {"a": Has(), "b": Has()}
    async with running(servers) as made:
        assert await ask(Client(made), "prompts/get", name=name) == f"Unknown prompt: {name}"
    assert [server.asked_for() for server in servers.values()] == [[], []]


async def test_a_prompt_that_came_without_a_word_is_found_where_lists_are_not_young(monkeypatch):
    advance = moving_clock(monkeypatch)
    server, other = Has(), Has()
    async with running({"a": server, "b": other}) as made:
        client = Client(made)
        await client.request("prompts/list")
        server.prompts.append("EXTRA")
        advance(LOOKED_S)
        assert await ask(client, "prompts/get", name="a__EXTRA") == ""
        assert (server.counted("prompts/list"), other.counted("prompts/list")) == (2, 1)
        for name in ("a__more", "a__more"):
            assert await ask(client, "prompts/get", name=name) == ""
        assert server.counted("prompts/list") == 2


@pytest.mark.attack("Access", "get a prompt that a server has and does not list, and that one may not have")
@pytest.mark.parametrize("kind", ["hidden", "refused"])
async def test_a_prompt_that_is_not_listed_is_held_to_what_one_may_have(kind):
    server = Has()
    async with running({"a": server}, plugins=walls(**{kind: ["a:@prompt/secret"]})) as made:
        for name in ("a__secret", "a__SECRET", "a:Secret_plan"):
            assert await ask(Client(made), "prompts/get", name=name) != ""
        assert await ask(Client(made), "prompts/get", name="a__plain") == ""
    assert server.asked_for() == ["plain"]


@pytest.mark.parametrize("uri", ["one://new", "ONE://new"])
async def test_a_uri_that_is_not_listed_is_asked_of_the_one_server_that_has_such(uri):
    servers = {"a": Has("one://x"), "b": Has("two://x", "https://b.example/x")}
    async with running(servers) as made:
        assert await ask(Client(made), "resources/read", uri=uri) == ""
    assert (servers["a"].asked_for(), servers["b"].asked_for()) == ([uri], [])


@pytest.mark.attack("Access", "have a URI that nobody lists sent to every server")
@pytest.mark.parametrize("uri", ["three://x", "both://y", "https://c.example/x", "nothing"])
async def test_a_uri_of_which_nothing_says_whose_it_is_is_sent_to_nobody(uri):
    servers = {"a": Has("both://x"), "b": Has("both://z", "https://b.example/x")}
    async with running(servers) as made:
        assert await ask(Client(made), "resources/read", uri=uri) == f"Resource not found: {uri}"
    assert [server.asked_for() for server in servers.values()] == [[], []]


@pytest.mark.attack("Access", "have a URI sent to a server of which one may have nothing")
@pytest.mark.parametrize("kind", ["hidden", "refused"])
async def test_a_uri_is_never_sent_to_a_server_that_one_may_not_have(kind):
    servers = {"a": Has("one://x"), "b": Has("two://x")}
    async with running(servers, plugins=walls(**{kind: ["b:"]})) as made:
        await ask(Client(made), "resources/read", uri="two://new")
        assert await ask(Client(made), "resources/read", uri="two://x") != ""
    assert servers["b"].asked_for() == []


async def test_a_resource_that_came_without_a_word_is_found_where_lists_are_not_young(monkeypatch):
    advance = moving_clock(monkeypatch)
    servers = {"a": Has("one://x"), "b": Has("two://x")}
    async with running(servers) as made:
        client = Client(made)
        await client.request("resources/list")
        servers["b"].uris.append("three://x")
        advance(LOOKED_S)
        assert await ask(client, "resources/read", uri="three://x") == ""
        assert await ask(client, "resources/read", uri="three://y") == ""
        assert servers["b"].counted("resources/list") == 2
    assert servers["b"].asked_for() == ["three://x", "three://y"]


@pytest.mark.parametrize(
    ("uri", "server"),
    [
        ("a:x", "one"),
        ("b://x", None),
        ("https://host/y", "one"),
        ("https://other/y", "two"),
        ("https://third/y", None),
        ("plain", None),
    ],
)
def test_whose_a_uri_is_by_its_kind(uri, server):
    known = [("one", "a:1"), ("one", "a:{x}"), ("one", "b:1"), ("two", "b:2"), ("one", "https://host/x")]
    known += [("two", "https://OTHER/{x}"), ("two", "{+uri}"), ("two", "plain")]
    assert of_the_kind(uri, known) == server
