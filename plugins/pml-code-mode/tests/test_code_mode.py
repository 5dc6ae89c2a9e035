"""Both tools through a client of a whole gateway, with code that really runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pml_code_mode import plugin
from pml_code_mode.definitions import DESCRIBE_CODE_TOOLS, run_code
from pml_code_mode.run_code import RunCode
from pml_hookspecs import CatalogEntry, InvalidArguments, Offer, Session, hookimpl
from pml_kit.offers import TOOL_NOTES, ToolNote
from pml_sandbox_deno import Deno
from pml_testing.fakes import FakeServices, entry
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
PLUGINS: dict[tuple[str, str], Any] = {("executor", "deno"): Deno, ("hooks", "code_mode"): plugin}


async def test_only_what_the_script_returns_comes_back() -> None:
    server = ScriptedServer(["read"])
    async with running({"fs": server}, plugins=PLUGINS) as gateway:
        client = Client(gateway)
        await client.initialize()
        code = "await Promise.all([1, 2, 3].map((n) => tools.fs.read({ n }))); return { calls: 3, of: who }"
        answer = await client.call("run_code", {"code": code, "inputs": {"who": "me"}, "intent": "count"})
    assert answer["structuredContent"] == {"calls": 3, "of": "me"}
    assert json.loads(answer["content"][0]["text"]) == {"calls": 3, "of": "me"}


async def test_code_that_fails_says_where() -> None:
    async with running({}, plugins=PLUGINS) as gateway:
        client = Client(gateway)
        await client.initialize()
        answer = await client.call("run_code", {"code": "\nnull.x"})
    assert answer["isError"]
    assert "line 2" in answer["content"][0]["text"]


async def test_run_code_is_listed_only_where_that_was_asked_for() -> None:
    async with running({}, plugins=PLUGINS) as gateway:
        client = Client(gateway)
        await client.initialize()
        assert "run_code" not in await client.tools()
    async with running({}, plugins=PLUGINS, tables={"code_mode": {"listed": True}}) as gateway:
        client = Client(gateway)
        await client.initialize()
        names = await client.tools()
    assert "run_code" in names
    assert "describe_code_tools" not in names


def test_only_endpoints_that_opted_in_have_the_tools() -> None:
    settings = plugin.Settings(listed=True, endpoints=("agents",))
    (has,) = plugin.pml_filter_tools(services=FakeServices("code_mode", settings=settings))
    ours, theirs = entry("pml:run_code"), entry("fs:run_code")
    assert has(ours, Session(key="k", endpoint="agents"))
    assert not has(ours, Session(key="k", endpoint="default"))
    assert not has(entry("pml:describe_code_tools"), Session(key="k", endpoint="default"))
    assert has(theirs, Session(key="k", endpoint="default"))
    assert plugin.pml_filter_tools(services=FakeServices("code_mode")) == []


async def test_an_endpoint_without_code_mode_cannot_call_it() -> None:
    async with running({}, plugins=PLUGINS, tables={"code_mode": {"endpoints": ["agents"]}}) as gateway:
        client = Client(gateway)
        await client.initialize()
        refused = await client.call("run_code", {"code": "return 1"})
    assert refused["isError"]
    assert "not allowed here" in refused["content"][0]["text"]


async def test_describe_code_tools_gives_stubs_of_named_and_found_tools() -> None:
    async with running({"fs": ScriptedServer(["read", "write"])}, plugins=PLUGINS) as gateway:
        client = Client(gateway)
        await client.initialize()
        named = (await client.call("describe_code_tools", {"tools": ["fs:read", "no:such"]}))["structuredContent"]
        every = (await client.call("describe_code_tools", {"tools": ["fs:*"]}))["structuredContent"]
        python = await client.call("describe_code_tools", {"tools": ["fs:read"], "language": "python"})
    assert named["tools"] == ["fs:read"]
    assert named["unknown"] == ["no:such"]
    assert "declare const tools: {\n  fs: {\n    " in named["stubs"]
    assert every["tools"] == ["fs:read", "fs:write"]
    assert "async def read(self" in python["structuredContent"]["stubs"]


async def test_describe_code_tools_keeps_to_the_limit_and_says_what_it_left_out() -> None:
    names = [f"t{n:02}" for n in range(60)]
    async with running({"fs": ScriptedServer(names)}, plugins=PLUGINS) as gateway:
        client = Client(gateway)
        await client.initialize()
        for limit, shown in (({}, 50), ({"limit": 3}, 3)):
            answer = await client.call("describe_code_tools", {"tools": ["fs:*"], **limit})
            told = answer["structuredContent"]
            assert (len(told["tools"]), told["left_out"]) == (shown, 60 - shown)
        wrong = await client.call("describe_code_tools", {"tools": ["fs:*"], "limit": None})
    assert "limit: must be 1 to 50" in wrong["content"][0]["text"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "code: is missing"),
        ({"code": 1}, "code: must be a string"),
        ({"code": "1", "inputs": []}, "inputs: must be an object"),
        ({"code": "1", "tools": []}, "tools: no such argument"),
        ({"code": "1", "intent": 1, "language": 2}, "language: must be a string; intent: must be a string"),
    ],
)
def test_mistakes_in_the_arguments_are_all_told(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArguments, match="cannot run this") as told:
        RunCode("typescript")(arguments)
    assert says in str(told.value)


def test_the_task_says_everything_that_was_given() -> None:
    task = RunCode("python")({"code": "return 1", "inputs": {"a": 1}, "intent": "why"})
    assert (task.language, task.source, task.inputs, task.intent) == ("python", "return 1", {"a": 1}, "why")
    assert task.tools is None
    assert RunCode("python")({"code": "1", "language": "javascript"}).language == "javascript"


def test_both_definitions_are_small() -> None:
    for definition in (run_code("typescript"), run_code("python"), DESCRIBE_CODE_TOOLS):
        assert len(json.dumps(definition)) < 1100


async def test_describe_code_tools_says_what_the_callers_own_calls_have_shown() -> None:
    class Notes:
        def of(self, tool: CatalogEntry, session: Session) -> ToolNote | None:
            return (
                ToolNote(returns="{lines: string[]}") if session.principal == "ann" and tool.id == "fs:read" else None
            )

    class Offering:
        @staticmethod
        @hookimpl
        def pml_offers() -> list[Offer[Any]]:
            return [Offer(TOOL_NOTES, Notes())]

    plugins = {**PLUGINS, ("hooks", "notes"): Offering}
    async with running({"fs": ScriptedServer(["read", "write"])}, plugins=plugins) as gateway:
        ann, bob = (Client(gateway, modern=True, principal=name) for name in ("ann", "bob"))
        told = [await one.call("describe_code_tools", {"tools": ["fs:*"]}) for one in (ann, bob)]
    stubs = [answer["structuredContent"]["stubs"] for answer in told]
    assert "Promise<{lines: string[]}>" in stubs[0]
    assert "lines" not in stubs[1]
