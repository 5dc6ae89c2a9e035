from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from pml_core import listing, registry
from pml_core.catalog import make_entry
from pml_core.config import ServerSettings
from pml_core.downstream import pauses
from pml_core.endpoints import endpoint_of, scheme_of
from pml_core.gateway import Gateway
from pml_hookspecs import ExecutionQuery, Origin, Peer, RawObject, RpcError, Scope, Status, TransportError, encode
from pml_testing.gateway import Client, ScriptedLink, ScriptedServer, ScriptedTransport, configuration, running

pytestmark = pytest.mark.anyio


async def until(condition, within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


@pytest.fixture
def quick(monkeypatch):
    """Pauses before another attempt take no time; those asked for are kept."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(delay_s, result=None):
        if sys._getframe(1).f_globals["__name__"] != "pml_core.downstream.instance":
            return await sleep(delay_s, result)
        pauses.append(delay_s)
        return await sleep(0, result)

    monkeypatch.setattr(asyncio, "sleep", noted)
    return pauses


@pytest.fixture
def sent(monkeypatch):
    """Every request that a server was sent, as bytes."""
    kept: list[tuple[str, bytes]] = []
    request = ScriptedLink.request

    async def spied(self, method, params, *, timeout_s):
        kept.append((method, RawObject.of(params).raw))
        return await request(self, method, params, timeout_s=timeout_s)

    monkeypatch.setattr(ScriptedLink, "request", spied)
    return kept


def state(made, name: str = "fs"):
    return made.catalog.status(name)


def tools_of(made, name: str = "fs") -> list[str]:
    return [e.name for e in made.catalog if e.server == name]


async def records(made):
    page = await made.store.executions.find(ExecutionQuery(scope=Scope(principals=None), limit=100))
    return page.items


class Lister(ScriptedServer):
    """Lists what ``pages`` says, by cursor; waits for ``gate`` first when there is one."""

    def __init__(self, pages: dict[Any, Any], **options: Any) -> None:
        super().__init__((), **options)
        self.pages, self.asked, self.gate = pages, [], None
        self.listing = asyncio.Event()

    async def serve(self, method, params):
        if method != "tools/list":
            return await super().serve(method, params)
        self.asked.append(params)
        self.listing.set()
        page = self.pages[params.get("cursor")]
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(page, Exception):
            raise page
        return page


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": n, "inputSchema": {"type": "object"}} for n in names]


# Where a server is


def test_an_endpoint_is_quoted_as_a_shell_would_and_variables_are_filled_in():
    settings = ServerSettings(
        command="${BIN}", args=("a b", "${X:-y z}", "$HOME"), env={"TOKEN": "${T}"}, cwd="${D}", options={"k": 1}
    )
    endpoint = endpoint_of("git", settings, {"BIN": "/my bin/x", "T": "t t", "D": "/d"})
    assert endpoint.address == "stdio:'/my bin/x' 'a b' 'y z' '$HOME'"
    assert (endpoint.name, endpoint.env, endpoint.options) == ("git", {"TOKEN": "t t"}, {"k": 1, "cwd": "/d"})


def test_an_endpoint_of_a_url_has_its_headers():
    settings = ServerSettings(url="https://${HOST}/mcp", headers={"Authorization": "Bearer ${T}"})
    endpoint = endpoint_of("far", settings, {"HOST": "h", "T": "t"})
    assert (endpoint.address, endpoint.options) == ("https://h/mcp", {"headers": {"Authorization": "Bearer t"}})
    assert endpoint_of("x", ServerSettings(address="custom:y"), {}).address == "custom:y"


def test_variables_that_are_not_set_are_named_each_once():
    settings = ServerSettings(command="x", args=("${B}", "${A}"), env={"T": "${B}"})
    with pytest.raises(
        TransportError, match=r"environment variable A, B is not set; \[servers.git\] refers to it"
    ) as caught:
        endpoint_of("git", settings, {})
    assert caught.value.retryable is False


@pytest.mark.parametrize(
    ("address", "scheme"), [("stdio:x", "stdio"), ("HTTPS://h", "http"), ("http://h", "http"), ("x", "x")]
)
def test_the_scheme_picks_the_transport(address, scheme):
    assert scheme_of(address) == scheme


# Starting, failing, starting again


@pytest.mark.seed("DRY-19")
async def test_a_server_that_fails_to_start_does_not_stop_the_others_and_says_why(quick):
    bad = ScriptedServer()
    bad.refuse = "no such program: nonsense"
    async with running({"bad": bad, "fs": ScriptedServer(["read"])}) as made:
        client = Client(made)
        assert (await client.call("fs__read"))["structuredContent"] == {}
        assert (state(made, "bad").state, state(made, "bad").reason) == ("down", "no such program: nonsense")
        assert (state(made).state, state(made).reason, state(made).tools) == ("up", "", 1)
        status = json.loads((await client.request("resources/read", {"uri": "pml://status"}))["contents"][0]["text"])
        assert {s["name"]: s["reason"] for s in status["servers"]} == {"bad": "no such program: nonsense", "fs": ""}


async def test_a_server_is_tried_again_after_pauses_that_grow_up_to_a_limit(quick):
    server = ScriptedServer(["read"])
    server.refuse = "busy"
    async with running({"fs": server}) as made:
        await until(lambda: len(quick) >= 10)
        server.refuse = ""
        await until(lambda: state(made).state == "up")
        assert state(made).restarts >= 10
        for number, pause_s in enumerate(quick[:10]):
            wanted_s = pauses.FIRST_S * 2**number if number < pauses.GIVES_UP_AFTER - 1 else pauses.LONGEST_S
            assert wanted_s * 0.8 <= pause_s <= wanted_s * 1.2
        assert tools_of(made) == ["read"]


async def test_after_a_connection_that_worked_the_pauses_begin_anew(quick):
    server = ScriptedServer(["read"])
    server.refuse = "busy"
    async with running({"fs": server}) as made:
        await until(lambda: len(quick) >= 6)
        server.refuse = ""
        await until(lambda: state(made).state == "up")
        before = len(quick)
        server.lose()
        await until(lambda: len(quick) > before)
        assert quick[before] <= pauses.FIRST_S * 1.2


class Troubled(ScriptedTransport):
    """Raises ``error`` for the server ``bad``."""

    def __init__(self, servers, error):
        super().__init__(servers)
        self.error, self.attempts = error, 0

    @asynccontextmanager
    async def connect(self, endpoint, handler):
        if endpoint.name == "bad":
            self.attempts += 1
            raise self.error
        async with super().connect(endpoint, handler) as link:
            yield link


def troubled(error, **gateway):
    transport = Troubled({"fs": ScriptedServer(["read"])}, error)
    found = [registry.provide("pml.transport", "scripted", transport)]
    return transport, Gateway(configuration(["bad", "fs"], **gateway), records=found)


@pytest.mark.parametrize("error", [TransportError("never", retryable=False), ValueError("option x is not understood")])
async def test_what_cannot_be_helped_is_not_tried_again(quick, error):
    transport, gateway = troubled(error)
    async with gateway as made:
        await made.servers_tried()
        for _ in range(10):
            await asyncio.sleep(0)
        assert (state(made, "bad").state, state(made, "bad").reason) == ("down", str(error))
        assert (transport.attempts, quick) == (1, [])
        assert state(made).state == "up"


async def test_a_server_whose_transport_is_not_installed_is_down_and_says_so(quick):
    config = replace(configuration([]), servers={"far": ServerSettings(url="https://host/mcp")})
    async with Gateway(config, records=[]) as made:
        await made.servers_tried()
        assert state(made, "far").state == "down"
        assert "no transport driver named 'http'" in state(made, "far").reason


@pytest.mark.seed("CARD-6")
@pytest.mark.parametrize("error", [RuntimeError("bug"), OSError("no such file"), KeyError("x"), TypeError("y")])
async def test_a_transport_with_a_bug_is_a_server_that_is_down_and_never_a_wait(error):
    _, gateway = troubled(error, list_wait_s=2.0)
    async with gateway as made:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await made.servers_tried()
        assert state(made).state == "up"
        assert state(made, "bad").state == "down"
        assert str(error) in state(made, "bad").reason


async def test_a_server_that_hangs_while_starting_is_given_up_in_time(quick):
    server = Lister({None: {"tools": []}})
    server.gate = asyncio.Event()
    async with running({"fs": server}, start_timeout_s=0.05) as made:
        assert state(made).state == "down"
        assert state(made).reason != ""


@pytest.mark.seed("MUX-7")
async def test_a_connection_that_is_lost_is_opened_again_and_the_tools_are_listed_again(quick):
    server = ScriptedServer(["read"])
    async with running({"fs": server}) as made:
        client = Client(made)
        server.tools = named("read", "write")
        server.lose("the process ended with status 3")
        assert (await client.call("fs__read"))["isError"] is True
        await until(lambda: state(made).state == "up" and state(made).restarts == 1)
        assert tools_of(made) == ["read", "write"]
        assert (await client.call("fs__write", {"a": 1}))["structuredContent"] == {"a": 1}


async def test_a_lost_server_says_why_and_keeps_its_tools_in_the_catalog(quick):
    server = ScriptedServer(["read"])
    async with running({"fs": server}) as made:
        server.refuse = "it will not start"
        server.lose("the process ended with status 3")
        await until(lambda: state(made).state == "down")
        assert tools_of(made) == ["read"]
        assert state(made).tools == 1
        result = await Client(made).call("fs__read")
        assert result["content"][0]["text"].startswith("MCP server fs not connected: ")


async def test_a_disabled_server_is_not_started_and_says_so():
    server = ScriptedServer(["read"])
    config = replace(configuration([]), servers={"fs": ServerSettings(address="scripted:fs", enabled=False)})
    found = [registry.provide("pml.transport", "scripted", ScriptedTransport({"fs": server}))]
    async with Gateway(config, records=found) as made:
        await made.servers_tried()
        assert (state(made).state, server.handler) == ("disabled", None)
        result = await Client(made).call("fs:read")
        assert result["content"][0]["text"] == "MCP server fs not connected: disabled"


async def test_nothing_of_the_gateway_runs_on_after_it_is_closed():
    server = Lister({None: {"tools": named("a")}})
    before = asyncio.all_tasks()
    async with running({"fs": server}):
        server.gate = asyncio.Event()
        server.listing.clear()
        server.handler.notification("notifications/tools/list_changed", RawObject(b"{}"))
        await server.listing.wait()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set()


# Lists


async def test_a_list_in_pages_is_read_to_its_end_also_under_an_empty_cursor():
    pages = {
        None: {"tools": named("a"), "nextCursor": ""},
        "": {"tools": named("b"), "nextCursor": "two"},
        "two": {"tools": named("c")},
    }
    server = Lister(pages)
    async with running({"fs": server}) as made:
        assert tools_of(made) == ["a", "b", "c"]
        assert server.asked == [{}, {"cursor": ""}, {"cursor": "two"}]


async def test_a_server_that_pages_in_circles_is_not_followed_for_ever(monkeypatch):
    monkeypatch.setattr(listing, "MOST_PAGES", 5)
    server = Lister({None: {"tools": named("a"), "nextCursor": "x"}, "x": {"tools": named("b"), "nextCursor": "x"}})
    async with running({"fs": server}) as made:
        assert tools_of(made) == ["a", "b"]
        assert len(server.asked) == 5


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
    assert log.count("a tool without a name is left out") == 5
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
            await until(lambda: tools_of(made) == ["new"], 1)
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
    assert "the changed tool list could not be read" in capsys.readouterr().err


async def test_a_start_shows_the_tools_of_last_time_until_the_server_is_up():
    server = Lister({None: {"tools": named("new")}})
    async with running({"fs": server}) as made:
        store = made.store
        await until(lambda: store.catalog._entries)

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


# Calls


async def test_a_call_while_the_server_is_starting_waits_for_it():
    server = Lister({None: {"tools": named("read")}})
    server.gate = asyncio.Event()
    async with running({"fs": server}, list_wait_s=0.01) as made:
        made.catalog.publish("fs", [])
        made.catalog.publish("fs", [make_entry("fs", {"name": "read"})])  # known from last time
        call = asyncio.ensure_future(Client(made).call("fs__read", {"a": 1}))
        await asyncio.sleep(0.01)
        assert not call.done()
        server.gate.set()
        assert (await call)["structuredContent"] == {"a": 1}


@pytest.mark.seed("MUX-6")
async def test_a_call_that_is_not_answered_in_time_ends_alone():
    gate = asyncio.Event()

    async def slow(name, arguments):
        if name == "slow":
            await gate.wait()
        return {"content": [], "structuredContent": {"name": name}}

    async with running({"fs": ScriptedServer(["slow", "fast"], slow)}, call_timeout_s=0.1) as made:
        client = Client(made)
        late, fast = await asyncio.gather(client.call("fs__slow"), client.call("fs__fast"))
        assert fast["structuredContent"] == {"name": "fast"}
        assert late["isError"] is True
        assert "0.1 s" in late["content"][0]["text"]
        assert late["_meta"]["pml/failure"]["code"] == "tool.timed_out"
        assert late["_meta"]["pml/failure"]["retryable"] is True
        assert {r.status for r in await records(made)} == {Status.OK, Status.TIMED_OUT}
        gate.set()
        assert (await client.call("fs__slow"))["structuredContent"] == {"name": "slow"}


async def test_a_servers_own_time_limit_wins_over_the_gateways():
    async def never(name, arguments):
        await asyncio.Event().wait()

    config = configuration([], call_timeout_s=50.0)
    config = replace(config, servers={"fs": ServerSettings(address="scripted:fs", timeout_s=0.05)})
    found = [registry.provide("pml.transport", "scripted", ScriptedTransport({"fs": ScriptedServer(["read"], never)}))]
    async with Gateway(config, records=found) as made, asyncio.timeout(5):
        await made.servers_tried()
        assert "0.05 s" in (await Client(made).call("fs__read"))["content"][0]["text"]


@pytest.mark.seed("DRY-6")
async def test_a_call_to_a_server_that_is_not_connected_says_so_and_why(quick):
    bad = ScriptedServer()
    bad.refuse = "no such program"
    async with running({"bad": bad, "fs": ScriptedServer()}) as made:
        client = Client(made)
        for name in ("bad:x", "bad__x"):
            result = await client.call(name)
            assert result["isError"] is True
            assert result["content"] == [{"type": "text", "text": "MCP server bad not connected: no such program"}]
        unknown = (await client.call("nosuch:x"))["content"][0]["text"]
        assert unknown.startswith("MCP server nosuch not connected")
        assert "bad, fs" in unknown


async def test_a_connection_lost_during_a_call_is_a_result_that_says_so():
    async def dies(name, arguments):
        raise TransportError("the process ended with status 9", retryable=True)

    async with running({"fs": ScriptedServer(["read"], dies)}) as made:
        result = await Client(made).call("fs__read")
        assert result["content"][0]["text"] == "MCP server fs not connected: the process ended with status 9"


@pytest.mark.parametrize(
    "error", [RpcError(-32050, "no", {"path": "/x", "n": [1, None]}), RpcError(-32602, "bad"), RpcError(7, "")]
)
async def test_a_servers_json_rpc_error_reaches_the_client_verbatim(error):
    async def refuses(name, arguments):
        raise error

    async with running({"fs": ScriptedServer(["read"], refuses)}) as made:
        with pytest.raises(RpcError) as caught:
            await Client(made).call("fs__read")
        assert caught.value.to_wire() == error.to_wire()
        assert [r.status for r in await records(made)] == [Status.ERROR]


async def test_a_tools_own_error_result_reaches_the_client_verbatim_and_is_recorded_as_an_error():
    answer = {
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        "isError": True,
        "x-more": {"a": 1},
    }

    async def fails(name, arguments):
        return answer

    async with running({"fs": ScriptedServer(["read"], fails)}) as made:
        assert await Client(made).call("fs__read") == answer
        (record,) = await records(made)
        assert (record.status, record.failure.code, record.failure.message) == (Status.ERROR, "tool.failed", "one\ntwo")
        assert record.response == answer


@pytest.mark.parametrize("content", [[], None, [{"type": "image"}], [{"text": 5}], "text"])
async def test_an_error_result_without_text_still_has_a_message_in_the_record(content):
    async def fails(name, arguments):
        return {"content": content, "isError": True}

    async with running({"fs": ScriptedServer(["read"], fails)}) as made:
        await Client(made).call("fs__read")
        (record,) = await records(made)
        assert record.failure.message == "fs:read failed without a message."


async def test_a_result_that_only_mentions_is_error_is_no_error():
    async def answers(name, arguments):
        return {"content": [{"type": "text", "text": '"isError": true'}], "isError": False}

    async with running({"fs": ScriptedServer(["read"], answers)}) as made:
        await Client(made).call("fs__read")
        assert [r.status for r in await records(made)] == [Status.OK]


async def test_members_of_params_that_nobody_knows_pass_through_as_they_came(sent):
    async with running({"fs": ScriptedServer(["read"])}) as made:
        link = ScriptedLink(ScriptedServer())
        handler = made.accept(link, Peer(address="t"))
        arguments = b'{"z":1,"a":123456789012345678901234567890,"f":1.0,"e":1E+2,"n":null,"u":"\\u00e9 \\/"}'
        raw = (
            b'{"_meta":{"k":[1.0,null],"pml/intent":"x"},"name":"fs__read","arguments":'
            + arguments
            + b',"task":{"ttl":1.50}}'
        )
        await handler.request("tools/call", RawObject(raw), Origin(1, link))
    method, params = sent[-1]
    assert method == "tools/call"
    assert params.startswith(b'{"name":"read","arguments":' + arguments + b",")
    rest = json.loads(params)
    assert (rest["_meta"], rest["task"]) == ({"k": [1.0, None], "pml/intent": "x"}, {"ttl": 1.5})
    assert b'"task":{"ttl":1.50}' in params


@pytest.mark.seed("DRY-5")
@pytest.mark.parametrize("given", [{}, {"arguments": None}, {"arguments": {}}])
async def test_missing_arguments_are_an_empty_object(sent, given):
    async with running({"fs": ScriptedServer(["read"])}) as made:
        await Client(made).request("tools/call", {"name": "fs__read", **given})
    assert sent[-1][1] == b'{"name":"read","arguments":{}}'


async def test_a_tools_name_reaches_its_server_as_the_server_spells_it(sent):
    for name in ('quo"te', "sp ace", "ü", "a:b", "x" * 90):
        async with running({"fs": ScriptedServer([name])}) as made:
            await Client(made).call(made.catalog.exposed_name(f"fs:{name}"))
        assert json.loads(sent[-1][1])["name"] == name


# Progress and requests of the server


class Reporting(ScriptedServer):
    """Reports progress under the token of each call before it answers."""

    def __init__(self) -> None:
        super().__init__(["read"])
        self.tokens: list[Any] = []

    async def serve(self, method, params):
        if method == "tools/call":
            token = params.get("_meta", {}).get("progressToken")
            self.tokens.append(token)
            note = {"progressToken": token, "progress": 1, "total": 2, "message": params["arguments"].get("who", "")}
            self.handler.notification("notifications/progress", RawObject(encode(note)))
        return await super().serve(method, params)


async def test_progress_reaches_the_client_that_asked_under_its_own_token():
    server = Reporting()
    async with running({"fs": server}) as made:
        one, other = Client(made), Client(made)
        await asyncio.gather(
            one.call("fs__read", {"who": "one"}, _meta={"progressToken": "t", "k": 1}),
            other.call("fs__read", {"who": "other"}, _meta={"progressToken": "t"}),
        )
        assert one.link.notified == [
            ("notifications/progress", {"progressToken": "t", "progress": 1, "total": 2, "message": "one"})
        ]
        assert [n["message"] for _, n in other.link.notified] == ["other"]
        assert len(set(server.tokens)) == 2
        assert server.params[0]["_meta"]["k"] == 1
        assert "t" not in server.tokens


@pytest.mark.parametrize("token", [0, 7, "", "x"])
async def test_any_progress_token_of_a_client_comes_back_as_it_was(token):
    async with running({"fs": Reporting()}) as made:
        client = Client(made)
        await client.call("fs__read", _meta={"progressToken": token})
        assert [n["progressToken"] for _, n in client.link.notified] == [token]


async def test_without_a_token_the_server_is_given_none_and_nobody_is_told():
    server = Reporting()
    async with running({"fs": server}) as made:
        client = Client(made)
        await client.call("fs__read", _meta={"k": 1})
        assert (server.tokens, client.link.notified) == ([None], [])


@pytest.mark.parametrize(
    "params", [{}, {"progressToken": 99}, {"progressToken": []}, {"progressToken": {}}, {"progressToken": None}]
)
async def test_progress_that_belongs_to_no_call_is_dropped(params):
    server = Reporting()
    async with running({"fs": server}) as made:
        client = Client(made)
        await client.call("fs__read", _meta={"progressToken": 1})
        server.handler.notification("notifications/progress", RawObject(encode(params)))
        assert len(client.link.notified) == 1


async def test_a_server_may_ping_and_is_told_that_no_client_is_there():
    server = ScriptedServer()
    async with running({"fs": server}, log_level="debug"):
        assert await server.handler.request("ping", RawObject(b"{}"), Origin(1, server.link)) == {}
        with pytest.raises(RpcError) as caught:
            await server.handler.request("sampling/createMessage", RawObject(b"{}"), Origin(2, server.link))
        assert caught.value.code == -31999
        server.handler.notification("notifications/message", RawObject(b"{}"))
