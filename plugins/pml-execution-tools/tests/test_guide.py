"""The guide says what is so: its calls are made, its commands run, its program works."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pml_execution_tools import plugin
from pml_hookspecs import InvalidArguments, MetaTool, RunOptions, ToolCall, ToolFailed, hookimpl
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import Client, running

pytestmark = pytest.mark.anyio
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "history.md"
TEXT = GUIDE.read_text(encoding="utf-8")
STEP = re.compile(r"^<!-- (call: \w+|answer) -->\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^<!-- commands -->\n\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(pml executions [^`]*)`")
ID = re.compile(r"019abc12-[0-9a-f-]{27}")
ANYTHING = "…"
CONTEXT = {"context_used": 12_500, "context_max": 200_000}


class Agents:
    """Two agents: a researcher, and an accountant who is rate limited the first time."""

    def __init__(self) -> None:
        self.services: Any = None
        self.refused = False

    @hookimpl
    def pml_meta_tools(self, services: Any) -> list[MetaTool]:
        self.services = services
        schema = {"type": "object"}
        agents = {"researcher": self.research, "accountant": self.account}
        services.publish(
            "agents",
            [MetaTool(definition={"name": name, "inputSchema": schema}, call=call) for name, call in agents.items()],
        )
        return [MetaTool(definition={"name": "chat_with_agent", "inputSchema": schema}, call=self.chat)]

    async def chat(self, arguments: Any, run: Any) -> dict[str, Any]:
        name = arguments["agent_name"]
        task = ToolCall(id="chat", tool=f"agents:{name}", arguments={"message": arguments["message"]})
        assert arguments["async"] is True
        id = await self.services.start(task, run.session, RunOptions(agent=name, trigger="mcp"))
        return {"agent_name": name, "execution_id": id, "status": "pending"}

    async def research(self, arguments: Any, run: Any) -> dict[str, Any]:
        said = arguments["message"].replace("Find three", "Three")
        lines = [{"role": "user", "text": arguments["message"]}, {"role": "assistant", "text": said}]
        run.note(cost_usd=0.04, transcript=lines, **CONTEXT)
        return {"response": said}

    async def account(self, arguments: Any, run: Any) -> dict[str, Any]:
        if not self.refused:
            self.refused = True
            message = "Rate limited by external API"
            raise ToolFailed(message, {"error": message})
        return {"response": arguments["message"]}


@pytest.fixture
async def gateway(tmp_path, anyio_backend):
    plugins = {
        ("hooks", "execution_tools"): plugin,
        ("hooks", "agents"): Agents(),
        ("store", "sqlite"): SqliteStore,
    }
    tables = {"sqlite": {"path": str(tmp_path / "pml.db"), "flush_interval_ms": 1}}
    async with running({}, plugins=plugins, tables=tables, store="sqlite") as started:
        yield started


def difference(said: Any, found: Any, ids: dict[str, str], where: str = "") -> str:
    """What the guide says that is not so; ids that it shows stand for those that there are."""
    if said == ANYTHING:
        return ""
    if isinstance(said, str) and ID.fullmatch(said):
        return "" if ids.setdefault(said, found) == found else f"{where}: {found} is not {said}"
    if isinstance(said, dict) and isinstance(found, dict):
        missing = [f"{where}.{name} is missing" for name in said if name not in found]
        return "; ".join(missing + [d for name in said if name in found and (d := difference(said[name], found[name], ids, f"{where}.{name}"))])  # fmt: skip  # noqa: E501
    if isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        return "; ".join(d for n, one in enumerate(said) if (d := difference(one, found[n], ids, f"{where}[{n}]")))
    return "" if said == found else f"{where}: {found!r} is not {said!r}"


def steps():
    found = [(kind, json.loads(text)) for kind, text in STEP.findall(TEXT)]
    assert [kind == "answer" for kind, _ in found] == [False, True] * (len(found) // 2)
    return [(call.removeprefix("call: "), given, said) for (call, given), (_, said) in zip(found[::2], found[1::2], strict=True)]  # fmt: skip  # noqa: E501


def with_ids(given: Any, ids: dict[str, str]) -> Any:
    return json.loads(ID.sub(lambda match: ids[match[0]], json.dumps(given)))


async def test_each_call_of_the_guide_is_answered_as_it_says(gateway):
    client, ids = Client(gateway), dict[str, str]()
    asked = steps()
    assert {tool for tool, *_ in asked} == {
        "chat_with_agent", "get_execution_result", "get_agent_activity_summary", "list_recent_executions",
    }  # fmt: skip
    for tool, given, said in asked:
        async with asyncio.timeout(60):
            while True:
                answer = await client.call(tool, with_ids(given, ids))
                assert not answer.get("isError"), answer
                found = answer["structuredContent"]
                if found.get("execution", {}).get("status") not in ("pending", "running"):
                    break
                await asyncio.sleep(0.01)
        assert difference(said, found, ids) == "", (tool, given, found)
    assert len(ids) == 4


def commands():
    written = [line for block in COMMANDS.findall(TEXT) for line in block.splitlines()]
    return sorted({*written, *INLINE.findall(TEXT)})


@pytest.mark.parametrize("line", commands())
async def test_each_command_of_the_guide_runs(gateway, line, capsys):
    client = Client(gateway)
    made = (await client.call("chat_with_agent", {"agent_name": "researcher", "message": "Go", "async": True}))[
        "structuredContent"
    ]
    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())
    words = [made["execution_id"] if word == "ID" else word for word in shlex.split(line)[1:]]
    arguments = parser.parse_args(words)
    services = gateway.assembly.services("execution_tools")
    running_command = asyncio.get_running_loop().create_task(arguments.run_with(arguments, services))
    if words[1] == "tail":
        await asyncio.sleep(0)
        running_command.cancel()
        await asyncio.wait([running_command])
        return
    assert await running_command == 0
    assert capsys.readouterr().out


async def test_the_program_of_the_guide_finds_agents_that_fail(served):
    [source] = PROGRAM.findall(TEXT)
    names: dict[str, Any] = {}
    exec(compile(source, str(GUIDE), "exec"), names)
    history = served.history
    await history.put(history.record("good", agent="fine", principal="alice"))
    await history.put(history.record("bad", agent="broken", principal="alice", status="error"))
    # What began before the gateway would be taken for lost.
    begun = {"status": "running", "started_at": datetime.now(UTC), "duration_ms": None}
    await history.put(history.record("open", agent="working", principal="alice", **begun))
    assert await names["unhealthy"](served.url, "alice") == ["broken"]
    with pytest.raises(SystemExit, match="Try again in 2 s"):
        await names["unhealthy"](served.url, "limited")


async def test_a_command_that_the_guide_does_not_know_is_none():
    """Guards the test above: a command that does not exist fails."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    plugin.pml_commands(parser.add_subparsers())
    with pytest.raises((argparse.ArgumentError, SystemExit, InvalidArguments)):
        parser.parse_args(["executions", "lists"])


async def test_the_program_of_the_readme_knows_an_answer_when_there_is_one(served):
    [source] = PROGRAM.findall((Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    exec(compile(source, "README.md", "exec"), names)
    await served.history.put(served.history.record("one", principal="alice", response="15 invoices"))
    for id, expected in (("one", "15 invoices"), ("two", None)):
        assert await asyncio.to_thread(names["answer"], served.url, "alice", "ruby-agent", id) == expected
