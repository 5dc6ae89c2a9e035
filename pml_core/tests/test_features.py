from __future__ import annotations

import asyncio
import time
import types

import pytest

from pml_hookspecs import Offer, RawObject, RpcError, encode, hookimpl
from pml_kit.offers import GUIDES, Guide
from pml_mcp.servers import features
from pml_testing.downstream import a_while, until
from pml_testing.gateway import Client, ScriptedServer, running
from pml_testing.pace import slowness

pytestmark = pytest.mark.anyio


class Prompts(ScriptedServer):
    """Has these prompts and one resource; reports progress before it answers."""

    def __init__(self, *names: str, uri: str = "r:1") -> None:
        super().__init__([])
        self.offers = {"tools": {}, "prompts": {}, "resources": {}}
        self.names, self.uri, self.tokens = names, uri, []
        self.others = {
            "prompts/list": self._prompts,
            "prompts/get": self._answer,
            "resources/list": self._resources,
            "resources/templates/list": self._answer,
            "resources/read": self._answer,
            "completion/complete": self._answer,
        }

    async def _prompts(self, _params):
        return {"prompts": [{"name": name} for name in self.names]}

    async def _resources(self, _params):
        return {"resources": [{"uri": self.uri, "name": self.uri}]}

    async def _answer(self, params):
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            self.tokens.append(token)
            for done in (1, 2):
                note = {"progressToken": token, "progress": done, "total": 2, "message": params.get("who"), "x": 1.5}
                self.handler.notification("notifications/progress", RawObject(encode(note)))
            await a_while(5)
        return {"messages": []}


async def error_of(client, name) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await client.request("prompts/get", {"name": name})
    return caught.value


# Bare names


@pytest.mark.parametrize("name", ["greet", "b__greet", "b:greet"])
async def test_a_prompt_that_one_server_alone_has_is_found_by_its_bare_name(name):
    a, b = Prompts("other"), Prompts("greet", "other")
    async with running({"a": a, "b": b}) as made:
        assert await Client(made).request("prompts/get", {"name": name}) == {"messages": []}
        assert b.asked[-1] == ("prompts/get", {"name": "greet"})
        assert "prompts/get" not in [method for method, _ in a.asked]


async def test_a_bare_name_that_several_servers_have_is_refused_with_the_candidates():
    async with running({"a": Prompts("greet"), "b": Prompts("greet"), "c": Prompts()}) as made:
        client = Client(made)
        error = await error_of(client, "greet")
        assert (error.code, error.data) == (-32602, {"candidates": ["a__greet", "b__greet"]})
        assert error.message == "Several servers have a prompt greet: say which of a__greet, b__greet"
        assert await client.request("prompts/get", {"name": "b__greet"})


async def test_a_prompt_as_clients_see_it_wins_over_a_bare_name():
    a, b = Prompts("greet"), Prompts("a__greet")
    async with running({"a": a, "b": b}) as made:
        await Client(made).request("prompts/get", {"name": "a__greet"})
        assert a.asked[-1] == ("prompts/get", {"name": "greet"})
        await Client(made).request("prompts/get", {"name": "b__a__greet"})
        assert b.asked[-1] == ("prompts/get", {"name": "a__greet"})


async def test_a_bare_name_with_separators_in_it_is_found_too():
    a = Prompts("x__y", "x:y", "a:b:c")
    async with running({"a": a, "b": Prompts()}) as made:
        for name in a.names:
            await Client(made).request("prompts/get", {"name": name})
            assert a.asked[-1] == ("prompts/get", {"name": name})


@pytest.mark.parametrize("name", ["nope", "b__nope", "", "greet ", "Greet", "a__Greet"])
async def test_a_name_that_no_prompt_has_is_unknown(name):
    async with running({"a": Prompts("greet")}) as made:
        error = await error_of(Client(made), name)
        assert (error.code, error.message) == (-32602, f"Unknown prompt: {name}")


@pytest.mark.parametrize(
    ("name", "prefix", "offers"),
    [
        ("a__secret", None, ["prompts"]),
        ("a:secret", None, ["prompts"]),
        ("a__secret", None, []),
        ("secret", "", ["prompts"]),
        ("secret", "", []),
        ("x_secret", "x_", ["prompts"]),
    ],
)
async def test_a_prompt_that_is_not_listed_is_its_servers_to_answer(name, prefix, offers):
    a = Prompts("greet")
    a.offers = {"tools": {}, **{capability: {} for capability in offers}}
    settings = None if prefix is None else {"prefix": prefix}
    async with running({"a": a}, settings=settings) as made:
        client = Client(made)
        assert await client.request("prompts/get", {"name": name}) == {"messages": []}
        assert a.asked[-1] == ("prompts/get", {"name": "secret"})
        await client.request("completion/complete", {"ref": {"type": "ref/prompt", "name": name}})
        assert a.asked[-1] == ("completion/complete", {"ref": {"type": "ref/prompt", "name": "secret"}})
        del a.others["prompts/get"]
        refusal = await error_of(client, name)  # in the server's own words
        assert (refusal.code, refusal.message) == (-32601, "Method not found: prompts/get")


async def test_a_prompt_that_is_not_listed_and_may_be_of_several_is_of_those_that_have_prompts():
    a, b = Prompts("greet"), Prompts("greet")
    async with running({"a": a, "b": b}, settings={"prefix": ""}) as made:
        assert (await error_of(Client(made), "secret")).message == "Unknown prompt: secret"
    b.offers = {"tools": {}}
    async with running({"a": a, "b": b}, settings={"prefix": ""}) as made:
        assert await Client(made).request("prompts/get", {"name": "secret"}) == {"messages": []}
        assert a.asked[-1] == ("prompts/get", {"name": "secret"})


async def test_a_prompt_that_is_not_listed_and_is_refused_is_asked_of_nobody():
    policy, a = types.ModuleType("policy"), Prompts("greet")
    policy.pml_filter_tools = hookimpl(lambda services: [lambda entry, session: "secret" not in entry.id])
    async with running({"a": a}, plugins={("hooks", "policy"): policy}) as made:
        assert (await error_of(Client(made), "a__secret")).message == "Unknown prompt: a__secret"
        assert "prompts/get" not in [method for method, _ in a.asked]


async def test_the_only_server_is_asked_for_resources_that_it_does_not_declare():
    a, b = Prompts(), Prompts()
    a.offers = b.offers = {"tools": {}}
    params = {"uri": "r:2"}
    async with running({"a": a}) as made:
        assert await Client(made).request("resources/read", params) == {"messages": []}
        assert a.asked[-1] == ("resources/read", params)
    async with running({"a": a, "b": b}) as made:
        with pytest.raises(RpcError, match="Resource not found"):
            await Client(made).request("resources/read", params)


async def test_completion_knows_bare_names_as_well():
    b = Prompts("greet")
    async with running({"a": Prompts(), "b": b}) as made:
        params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "x"}}
        await Client(made).request("completion/complete", params)
        assert b.asked[-1] == ("completion/complete", params)


async def test_prompts_have_the_prefix_that_tools_have():
    a = Prompts("greet", "count")
    async with running({"a": a}, settings={"prefix": "my_"}) as made:
        client = Client(made)
        assert await prompts_of(client) == ["my_greet", "my_count"]
        for name in ("my_greet", "greet", "a__greet", "a:greet"):
            await client.request("prompts/get", {"name": name})
            assert a.asked[-1] == ("prompts/get", {"name": "greet"})


async def test_prompts_without_a_prefix_that_are_called_alike_get_their_servers_names():
    a, b = Prompts("greet", "b__greet", "guide_x"), Prompts("greet", "mine")
    guide = Guide(name="x", description="d", text="read me")
    own = types.ModuleType("own")
    own.pml_offers = hookimpl(lambda services: [Offer(GUIDES, guide)])
    async with running({"a": a, "b": b}, settings={"prefix": ""}, plugins={("hooks", "own"): own}) as made:
        client = Client(made)
        shown = ["greet", "b__greet", "a__guide_x", "b__b__greet", "mine", "guide_x"]
        assert await prompts_of(client) == shown
        own = ((a, "greet"), (a, "b__greet"), (a, "guide_x"), (b, "greet"), (b, "mine"))
        for name, (server, its) in zip(shown[:-1], own, strict=True):
            await client.request("prompts/get", {"name": name})
            assert server.asked[-1] == ("prompts/get", {"name": its})
        assert "read me" in str(await client.request("prompts/get", {"name": "guide_x"}))


async def prompts_of(client):
    return [prompt["name"] for prompt in (await client.request("prompts/list"))["prompts"]]


# Progress


@pytest.mark.parametrize(("method", "params"), [("resources/read", {"uri": "r:1"}), ("prompts/get", {"name": "greet"})])
async def test_progress_reaches_the_client_that_asked_under_its_own_token(method, params):
    server = Prompts("greet")
    async with running({"a": server}) as made:
        one, two, silent = Client(made), Client(made), Client(made)
        await asyncio.gather(
            one.request(method, {**params, "who": "one", "_meta": {"progressToken": "t", "k": 1.5}}),
            two.request(method, {**params, "who": "two", "_meta": {"progressToken": "t"}}),
            silent.request(method, params),
        )
        for client, who in ((one, "one"), (two, "two")):
            assert client.link.notified == [
                (
                    "notifications/progress",
                    {"progressToken": "t", "progress": done, "total": 2, "message": who},
                )
                for done in (1, 2)
            ]
        assert silent.link.notified == []
        assert len(set(server.tokens)) == 2
        asked = [p for m, p in server.asked if m == method]
        assert sorted(len(p.get("_meta", {})) for p in asked) == [0, 1, 2]


@pytest.mark.parametrize("token", [0, 7, "", "x"])
async def test_any_token_comes_back_as_it_was(token):
    async with running({"a": Prompts("greet")}) as made:
        client = Client(made)
        await client.request("resources/read", {"uri": "r:1", "_meta": {"progressToken": token}})
        assert [note["progressToken"] for _, note in client.link.notified] == [token] * 2


@pytest.mark.parametrize("token", [True, 1.5, "1", None, 99])
async def test_progress_under_another_token_reaches_nobody(token):
    server = Prompts("greet")
    async with running({"a": server}) as made:
        client = Client(made)
        answer = server.others["prompts/get"]

        async def strange(params):
            server.handler.notification("notifications/progress", RawObject(encode({"progressToken": token})))
            return await answer({})

        server.others["prompts/get"] = strange
        await client.request("prompts/get", {"name": "greet", "_meta": {"progressToken": "t"}})
        assert client.link.notified == []


async def test_progress_that_comes_after_the_answer_is_dropped():
    server = Prompts("greet")
    async with running({"a": server}) as made:
        client = Client(made)
        await client.request("prompts/get", {"name": "greet", "_meta": {"progressToken": "t"}})
        note = {"progressToken": server.tokens[0], "progress": 3}
        server.handler.notification("notifications/progress", RawObject(encode(note)))
        assert len(client.link.notified) == 2


@pytest.mark.parametrize(
    ("method", "member"),
    [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates"), ("prompts/list", "prompts")],
)
async def test_the_only_server_says_itself_that_it_has_no_list_and_one_of_several_hides_no_other(method, member):
    asked = []

    async def no(params):
        asked.append(params)
        raise RpcError(-32603, "connect ECONNREFUSED", {"port": 1})

    broken, other = Prompts("hello"), Prompts("mine")
    given, broken.others[method] = broken.others[method], no
    async with running({"a": broken}) as made:
        for _ in range(2):
            with pytest.raises(RpcError) as caught:
                await Client(made).request(method)
            assert (caught.value.code, caught.value.message) == (-32603, "connect ECONNREFUSED")
            assert caught.value.data == {"port": 1}
        assert len(asked) == 2, "it is asked once for each time that a client asks"
        broken.others[method] = given
        assert member in await Client(made).request(method)
    broken.others[method] = no
    async with running({"a": broken, "b": other}) as made:
        assert member in await Client(made).request(method)


# Servers that are not there yet


async def test_a_list_waits_for_a_server_that_is_starting_and_has_what_it_has():
    server, gate = Prompts("greet"), asyncio.Event()
    serve = server.serve

    async def slowly(method, params):
        if method == "initialize":
            await gate.wait()
        return await serve(method, params)

    server.serve = slowly
    async with running({"a": server}, list_wait_s=0.01) as made:
        listing = asyncio.ensure_future(Client(made).request("prompts/list"))
        await a_while()
        assert not listing.done()
        gate.set()
        assert (await listing)["prompts"] == [{"name": "a__greet"}]


async def test_who_was_shown_less_is_told_when_the_server_has_come_up(quick):
    server, other = Prompts("greet"), Prompts("mine")
    server.refuse = "not today"
    async with running({"a": server, "b": other}) as made:
        client = Client(made)
        await client.initialize()
        assert (await client.request("prompts/list"))["prompts"] == [{"name": "b__mine"}]
        server.refuse = ""
        await until(lambda: client.link.notified)
        assert client.link.notified == [("notifications/prompts/list_changed", {})]
        assert len((await client.request("prompts/list"))["prompts"]) == 2


@pytest.mark.attack("No input stops the house", "read an address that a URI template takes for ever to be matched with")
@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("a://" + "{x}a" * 200 + "!", "a://" + "a" * 10_000),
        ("a://" + "{x}" * 200 + "!", "a://" + "a" * 10_000),
        ("{" * 100_000, "a" * 10_000),
        ("{x}" + "ab{x}" * 2000, "ab" * 5_000 + "!"),
    ],
    ids=["many texts", "none between", "no end", "alternating"],
)
def test_templates_are_matched_without_trying_anything_twice(template, uri):
    begin = time.thread_time()
    features.matches(template, uri)
    assert (time.thread_time() - begin) / slowness() < 0.05


@pytest.mark.parametrize(
    ("template", "uri", "fits"),
    [
        ("a://{x}", "a://b", True),
        ("a://{x}", "a://", False),
        ("a://{x}/b", "a://c/b/b", True),
        ("a://{x}/b/{y}", "a://1/b/2/b/3", True),
        ("a://{x}b{y}b", "a://bbb", False),
        ("a://{x}b{y}b", "a://abcb", True),
        ("a://{x}{y}", "a://b", False),
        ("a://{x}{y}", "a://bc", True),
        ("a://{x", "a://{x", True),
        ("a://x\n{y}", "a://x\nz\n", True),
    ],
)
def test_a_template_is_matched_as_a_whole(template, uri, fits):
    assert features.matches(template, uri) is fits
