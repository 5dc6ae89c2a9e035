from __future__ import annotations

import asyncio
import functools
import types

import pytest

from pml_catalog.exposure.tool_rules import Filters
from pml_catalog.lookup import not_connected
from pml_hookspecs import ExecutionQuery, RpcError, Scope, Session, Status, ToolCall, hookimpl
from pml_kit.errors import OperatorError
from pml_testing.fakes import FakeLog, entry
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
SESSION = Session(key="k", principal="alice")


def filtering(*filters):
    plugins = {}
    for name, keeps in filters:
        made = types.ModuleType(name)
        made.pml_filter_tools = hookimpl(lambda services, keeps=keeps: [keeps])
        plugins["hooks", name] = made
    return plugins


def boom(entry, session):
    raise ValueError("broken policy")


async def test_an_unknown_tool_is_an_error_of_the_protocol_with_the_nearest_names():
    async with running({"fs": ScriptedServer(["read_file", "write_file"])}) as made:
        with pytest.raises(RpcError) as caught:
            await Client(made).call("fs_raed_file")
        assert caught.value.code == -32602
        assert caught.value.message.startswith("Unknown tool: fs_raed_file. Did you mean fs__read_file")
        assert caught.value.data["nearest"][0] == "fs__read_file"
        with pytest.raises(RpcError, match=r"Unknown tool: q+\.$"):
            await Client(made).call("qqqqqqqqqqqq")


async def test_what_a_caller_may_not_have_is_not_suggested_to_it():
    plugins = filtering(("policy", lambda entry, session: entry.name != "read_secrets"))
    async with running({"fs": ScriptedServer(["read_secrets", "read_secret_x"])}, plugins=plugins) as made:
        with pytest.raises(RpcError) as caught:
            await Client(made).call("fs_read_secretz")
    assert caught.value.data["nearest"] == ["fs__read_secret_x"]


async def test_a_tool_that_no_server_can_have_by_its_name_is_unknown_and_not_unconnected():
    server = ScriptedServer(["read"])
    async with running({"fs": server}) as made:
        for name in ("none", "fs_none", "pml:none"):
            result = await made.dispatcher.start(ToolCall(id="t", tool=name), SESSION)
            assert (result.status, result.failure.code) == (Status.ERROR, "tool.unknown"), name
        assert server.calls == []


async def test_a_filtered_tool_can_neither_be_listed_nor_called_and_says_whose_policy_it_is():
    server = ScriptedServer(["read", "write"])

    def read_only(entry, session):
        return entry.name != "write" or session.principal == "root"

    async with running({"fs": server}, plugins=filtering(("a", lambda e, s: True), ("read_only", read_only))) as made:
        for name in ("fs__write", "fs:write"):
            result = await Client(made).call(name)
            assert result["isError"] is True
            assert "'read_only'" in result["content"][0]["text"]
            assert result["_meta"]["pml/failure"]["code"] == "policy.denied"
            assert result["_meta"]["pml/failure"]["details"] == {"plugin": "read_only"}
        assert server.calls == []
        await Client(made).call("fs__read")
        root = Session(key="r", principal="root")
        assert (await made.dispatcher.start(ToolCall(id="t", tool="fs:write"), root)).status is Status.OK
        page = await made.store.executions.find(
            ExecutionQuery(scope=Scope(principals=None), statuses=frozenset({"denied"}))
        )
        assert page.total == 2


async def test_a_filter_that_fails_drops_the_tool_and_is_logged(capsys):
    server = ScriptedServer(["read"])
    async with running({"fs": server}, plugins=filtering(("policy", boom))) as made:
        result = await made.dispatcher.start(ToolCall(id="t", tool="fs:read"), SESSION)
        assert (result.status, result.failure.code, server.calls) == (Status.DENIED, "policy.denied", [])
    assert "broken policy" in capsys.readouterr().err


def test_the_first_filter_that_drops_is_named_and_the_others_are_not_asked():
    asked = []

    def second(entry, session):
        asked.append(entry.id)
        return False

    filters = Filters([("a", lambda e, s: True), ("b", lambda e, s: False), ("c", second)], FakeLog())
    assert (filters.refusing(entry("fs:read"), SESSION), asked) == ("b", [])
    assert Filters([("a", lambda e, s: True)], FakeLog()).refusing(entry("fs:read"), SESSION) is None
    assert Filters([], FakeLog()).refusing(entry("fs:read"), SESSION) is None


class LateJudge:
    async def __call__(self, entry, session):
        return False


async def late(entry, session):
    return False


async def late_one_by_one(entry, session):
    yield False


def one_by_one(entry, session):
    yield False


@pytest.mark.parametrize(
    "keeps", [late, late_one_by_one, one_by_one, LateJudge(), functools.partial(late), LateJudge().__call__, "keep"]
)
async def test_a_filter_that_is_no_plain_function_keeps_the_gateway_from_starting(keeps):
    with pytest.raises(OperatorError, match=r"failed in pml_filter_tools: .* is no plain function") as refused:
        async with running({"fs": ScriptedServer(["read"])}, plugins=filtering(("policy", keeps))):
            pass
    assert 'block = ["policy"]' in refused.value.remedy


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("answer", [1, "yes", None, late])
def test_what_gives_neither_true_nor_false_drops_the_tool_and_is_told_once(answer, hides):
    def keeps(entry, session):
        # A decorator makes of a coroutine function what does not look like one.
        return late(entry, session) if answer is late else answer

    keeps.hides = hides
    log = FakeLog()
    filters = Filters([("policy", keeps)], log)
    for _ in range(3):
        assert filters.refusing(entry("fs:read"), SESSION) == "policy"
        assert filters.hides(entry("fs:read"), SESSION) is hides
    ((level, event, fields),) = log.lines
    assert (level, fields["plugin"]) == ("error", "policy")
    assert "neither True nor False" in event


def test_the_text_for_a_server_that_is_not_connected():
    failure = not_connected("fs", "no such program")
    assert failure.message == "MCP server fs not connected: no such program"
    assert (failure.code, failure.retryable) == ("tool.not_connected", True)
    assert failure.details == {"server": "fs", "reason": "no such program"}


async def test_a_call_to_a_server_that_is_still_starting_without_known_tools_says_that():
    gate = asyncio.Event()

    class Slow(ScriptedServer):
        async def serve(self, method, params):
            await gate.wait()
            return await super().serve(method, params)

    async with running({"fs": Slow()}, list_wait_s=0.01) as made:
        result = await Client(made).call("fs:read_file")
        assert result["content"][0]["text"] == "MCP server fs not connected: starting"
        gate.set()


async def test_a_server_that_is_not_configured_is_not_worth_another_try():
    async with running({"fs": ScriptedServer()}) as made:
        for tool in ("capability:count", "fz:read"):
            failure = (await made.dispatcher.start(ToolCall(id="t", tool=tool), SESSION)).failure
            server = tool.partition(":")[0]
            said = f"MCP server {server} not connected: it is not configured; configured: fs"
            assert (failure.code, failure.message, failure.retryable) == ("tool.not_connected", said, False)
