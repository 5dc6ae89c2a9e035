"""A name that is not known is looked up at the servers that may have it before it is refused."""

from __future__ import annotations

import asyncio
import types

import pytest

from pml_catalog.exposure.tool_rules import ToolRules
from pml_catalog.lookup import calls_in
from pml_hookspecs import EMPTY, Identity, RpcError, Step, ToolCall, Workflow, hookimpl
from pml_mcp.servers.features import LOOKED_S
from pml_testing.downstream import Everything, Lister, a_while, moving_clock, named, records, until
from pml_testing.gateway import Client, running

pytestmark = pytest.mark.anyio
LONG_S = 600.0
ALL = {("exposure_mode", "all"): Everything}
CHANGED = "notifications/tools/list_changed"


def lister(*names):
    return Lister({None: {"tools": named(*names)}})


def now_has(server, *names):
    """The server says that it has other tools; its answer, when it is asked for them, takes until the gate opens."""
    server.gate = asyncio.Event()
    server.listing.clear()
    server.pages = {None: {"tools": named(*names)}}
    server.handler.notification(CHANGED, EMPTY)


# While a list is being read


@pytest.mark.parametrize("name", ["fs__new", "fs:new", "new"])
async def test_a_tool_called_right_after_the_list_has_changed_waits_for_its_reading(name):
    server = lister("old")
    async with running({"fs": server}, list_wait_s=LONG_S) as made:
        now_has(server, "old", "new")
        called = asyncio.ensure_future(Client(made).call(name, {"a": 1}))
        await server.listing.wait()
        await a_while()
        assert not called.done()
        assert (await Client(made).call("fs__old"))["structuredContent"] == {}, "what is known waits for nothing"
        server.gate.set()
        assert (await called)["structuredContent"] == {"a": 1}
        assert len(server.cursors) == 2


async def test_a_list_waits_for_the_reading_too():
    server = lister("old")
    async with running({"fs": server}, plugins=ALL, tools_exposure="all", list_wait_s=LONG_S) as made:
        now_has(server, "new")
        listing = asyncio.ensure_future(Client(made).tools())
        await server.listing.wait()
        await a_while()
        assert not listing.done()
        server.gate.set()
        assert await listing == ["fs__new"]


async def test_a_reading_that_does_not_end_is_waited_for_within_the_bound():
    server = lister("old")
    async with running({"fs": server}, list_wait_s=0.05) as made:
        await until(lambda: made.catalog.resolve("fs:old") is not None)
        now_has(server, "old", "new")
        assert (await Client(made).call("fs__new"))["structuredContent"] == {}, "its server is asked all the same"


async def test_who_names_another_server_does_not_wait_for_it():
    server, other = lister("old"), lister("x")
    async with asyncio.timeout(LONG_S / 2), running({"fs": server, "git": other}, list_wait_s=LONG_S) as made:
        now_has(server, "old", "new")
        assert (await Client(made).call("git__new"))["structuredContent"] == {}


def test_the_calls_of_a_plan_are_those_of_plans_within_and_of_what_undoes():
    undo = ToolCall(id="u", tool="a:undo", arguments={})
    one = ToolCall(id="1", tool="a:one", arguments={}, step=Step(compensate=undo))
    within = Workflow(id="w", tasks=(ToolCall(id="2", tool="a:two", arguments={}),))
    assert [call.tool for call in calls_in((one, within))] == ["a:one", "a:undo", "a:two"]


# While a server is not up


async def away(made, name):
    """The failure of a call, which is to be of a server that is not connected."""
    answer = await Client(made).call(name)
    failure = answer["_meta"]["pml/failure"]
    assert (failure["code"], failure["retryable"]) == ("tool.not_connected", True)
    return answer["content"][0]["text"], failure["details"]


@pytest.mark.parametrize("prefix", ["", "w_"])
@pytest.mark.parametrize("state", ["down", "starting"])
async def test_an_unknown_name_may_be_of_a_server_that_is_not_up_whose_prefix_it_has(prefix, state):
    server = lister("read")
    server.gate = asyncio.Event()
    server.refuse = "no such program" if state == "down" else ""
    async with running({"web": server}, settings={"prefix": prefix}, list_wait_s=0.01) as made:
        text, details = await away(made, f"{prefix}read")
        assert made.catalog.status("web").state == state
        assert "web" in text
        assert details.get("servers", details.get("server")) in ("web", ["web"])
        if state == "starting":
            server.gate.set()
            await until(lambda: made.catalog.status("web").state == "up")
            assert (await Client(made).call(f"{prefix}read"))["structuredContent"] == {}


async def test_all_servers_are_named_that_may_have_it_and_no_others():
    servers = {"a": lister(), "b": lister(), "up": lister("read")}
    for name in "ab":
        servers[name].refuse = f"{name} has no program"
    async with running(servers, settings={"prefix": ""}) as made:
        text, details = await away(made, "write")
        assert details["servers"] == ["a", "b"]
        assert text.startswith("Tool write is not known; it may be of a server that is not connected: a: a has no prog")
        assert (await Client(made).call("read"))["structuredContent"] == {}
        text, details = await away(made, "a:write")
        assert details["server"] == "a"
    async with running({"a": servers["a"], "up": servers["up"]}) as made:
        with pytest.raises(RpcError, match="Unknown tool: write"):
            await Client(made).call("write")


async def test_who_may_not_know_of_a_server_is_not_told_that_it_is_away():
    server = lister()
    server.refuse = "no such program"
    key = Identity(principal="alice", access_key="k", allow=("other:*",))
    async with running({"web": server}, settings={"prefix": ""}) as made:
        with pytest.raises(RpcError, match="Unknown tool: write") as caught:
            await Client(made, identity=key).call("write")
        assert "web" not in str(caught.value)


# Tools that nobody was told of


async def refusal_of(made, name):
    """The code of the failure of a call."""
    try:
        answer = await Client(made).call(name)
    except RpcError as error:
        return "tool.unknown" if "Unknown tool" in error.message else error.message
    return answer["_meta"]["pml/failure"]["code"]


async def test_a_tool_that_came_without_a_word_is_looked_up_and_found(monkeypatch):
    server = lister("old")
    async with running({"fs": server}) as made:
        advance = moving_clock(monkeypatch)
        server.pages = {None: {"tools": named("old", "new")}}
        advance(LOOKED_S)
        calls = [Client(made).call("fs__new", {"a": 1}) for _ in range(5)]
        assert [one["structuredContent"] for one in await asyncio.gather(*calls)] == [{"a": 1}] * 5
        assert len(server.cursors) == 2, "they share one reading"
        assert made.catalog.get("fs:new") is not None


@pytest.mark.parametrize(
    ("prefix", "name"),
    [(None, "fs__hidden"), (None, "fs:hidden"), ("", "hidden"), ("", "fs:hidden"), ("w_", "w_hidden")],
)
async def test_a_tool_that_is_served_and_not_listed_is_its_servers_to_answer(prefix, name):
    server, other = lister("old"), lister("x")
    async with running({"fs": server}, settings={"prefix": prefix}) as made:
        assert (await Client(made).call(name, {"a": 1}))["structuredContent"] == {"a": 1}
        assert server.calls == [("hidden", {"a": 1})]
        assert (await records(made))[0].target == "fs:hidden"
        assert made.catalog.get("fs:hidden") is None
    assert other.calls == []


async def test_a_client_that_calls_unknown_names_all_day_has_no_list_read_each_time():
    server = lister("old")
    async with running({"fs": server}) as made:
        for i in range(20):
            await Client(made).call(f"fs__nothing{i}")
        assert len(server.cursors) <= 2


@pytest.mark.parametrize(
    "name", ["hidden", "git__hidden", "git:hidden", "fs__", "fs__a b", "fs__a:b", f"fs__{'x' * 129}"]
)
async def test_names_of_no_server_and_names_that_mcp_does_not_allow_reach_none(name):
    server = lister("old")
    async with running({"fs": server}) as made:
        assert await refusal_of(made, name) in ("tool.unknown", "tool.not_connected")
        assert server.calls == []


async def test_a_name_that_two_servers_may_have_reaches_neither():
    servers = {"a": lister("x"), "b": lister("y")}
    async with running(servers, settings={"prefix": ""}) as made:
        with pytest.raises(RpcError, match="Unknown tool"):
            await Client(made).call("hidden")
        assert servers["a"].calls == servers["b"].calls == []


@pytest.mark.attack("Access", "call a tool that no server lists, whose name a rule forbids, in other spellings too")
@pytest.mark.parametrize(
    "name", ["delete_all", "DELETE_all", "Delete_All", "rea_d", "READ", "rea.d", "secret", "SECRET"]
)
async def test_rules_hold_for_tools_that_are_not_listed_by_their_names(name):
    def keeps(entry, session):
        return not entry.name.startswith("delete_")

    def shows(entry, session):
        return entry.name != "secret"

    shows.hides = True
    own = types.ModuleType("own")
    own.pml_filter_tools = hookimpl(lambda services: [keeps, shows])
    server = lister("read")
    rules = {"tools": ToolRules(deny=("wipe*",))}
    async with running({"fs": server}, plugins={("hooks", "own"): own}, settings=rules) as made:
        for spelt in (f"fs__{name}", f"fs:{name}", "fs__wipe", "fs__WIPE_all"):
            assert await refusal_of(made, spelt) in ("tool.unknown", "policy.denied")
        assert server.calls == []


async def test_what_is_held_is_not_called_under_a_name_that_nobody_accepted():
    server = lister("read")
    async with running({"fs": server}, settings={"on_change": "hold"}) as made:
        failure = (await Client(made).call("fs__hidden"))["_meta"]["pml/failure"]
        assert failure["code"] == "policy.definition_changed"
        assert server.calls == []


async def test_a_rehearsal_never_calls_what_is_not_listed():
    server = lister("read")
    async with running({"fs": server}) as made:
        await Client(made).call("fs__hidden", _meta={"pml/dry_run": "reads"})
        assert server.calls == []
