"""A gateway with agents, keys and a history, which several clients talk to over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from pml_hookspecs import ExecutionId, ExecutionRecord, Store
from pml_testing.fakes import FakeServices

PML = str(Path(sys.executable).with_name("pml"))
SERVERS = Path(__file__).with_name("servers")
SERVING = "serving MCP at "
SOON_S, POLL_S = 90.0, 0.05
OWNERS = {
    "ruby": ("ann", ["ben"], []),
    "scribe": ("cyd", [], []),
    "planner": ("ann", [], ["ruby"]),
    "one": ("dora", [], []),
    "two": ("dora", [], []),
    "three": ("dora", [], []),
    "idle": ("dora", [], []),
    "counted": ("eve", [], []),
    "flaky": ("eve", [], []),
}
"""Owner of each agent, whom it is shared with, and whom it may call."""
COMMON = """
[gateway]
{store}

[plugins.execution_tools]
listed = {listed}

[plugins.access]
required = true

[plugins.audit]
poll_s = 0.1

[plugins.schedules]
look_s = 0.2

[plugins.schedules.schedules.report]
every_s = 2
max_runs = 1
agent = "ruby"
message = "Write the report"
principal = "ann"

[plugins.limits.rules.history]
principal = "greta"
tool = "pml:list_recent_executions"
rate = "2/hour"

[servers.plain]
command = {python}
args = [{plain}]
"""
ACCESS = """
[plugins.access.agents.{name}]
owner = {owner}
shared_with = {shared}
permits = {permits}

[plugins.agents.agents.{name}]
command = {command}
parser = "stream-json"
"""


def record(id: str, hours_ago: float, **more: Any) -> ExecutionRecord:
    """What ruby did before the gateway was there."""
    usual: dict[str, Any] = {
        "kind": "tool",
        "target": "agents:ruby",
        "principal": "ann",
        "agent": "ruby",
        "as_agent": True,
        "status": "ok",
        "started_at": datetime.now(UTC) - timedelta(hours=hours_ago),
        "duration_ms": 45_000,
        "request": {"message": f"Something {hours_ago} hours ago"},
        "response": {"structuredContent": {"response": "Done long ago"}},
        "cost_usd": 0.02,
        "trigger": "mcp",
    }
    return ExecutionRecord(id=ExecutionId(id), **{**usual, **more})


OLD = (record("old-5", 5), record("old-30", 30), record("old-160", 160), record("old-200", 200))


class Fleet:
    """One gateway, its folder, and the keys to it."""

    def __init__(self, folder: Path, postgres: str = "", *, listed: bool = True) -> None:
        """``postgres``: address of the database, ``""`` for SQLite; ``listed``: whether the three tools are."""
        self.folder, self._postgres, self._listed = folder, postgres, listed
        self.log, self._config = folder / "gateway.log", folder / "pml.toml"
        self.environment = {**os.environ, "PML_HOME": str(folder / "home")}
        self._keys: dict[str, str] = {}
        self.url = ""

    # Before it starts

    def _configure(self) -> None:
        store = 'store = "sqlite"'
        if self._postgres:
            store = f'store = "postgres"\n[plugins.postgres]\nurl = "{self._postgres}"'
        plain = json.dumps(str(SERVERS / "plain.py"))
        text = COMMON.format(
            store=store,
            listed=json.dumps(self._listed),
            python=json.dumps(sys.executable),
            plain=plain,
        )
        for name, (owner, shared, permits) in OWNERS.items():
            command = [sys.executable, str(SERVERS / "worker.py"), name, str(self.folder)]
            said = {"owner": owner, "shared": shared, "permits": permits, "command": command}
            text += ACCESS.format(name=name, **{part: json.dumps(value) for part, value in said.items()})
        self._config.write_text(text)

    async def _remember_old_days(self) -> None:
        services = FakeServices("store")
        if self._postgres:
            from pml_store_postgres import PostgresStore

            store: Store = PostgresStore(PostgresStore.settings_type(url=self._postgres), services)
        else:
            from pml_store_sqlite import SqliteStore

            path = self.folder / "home" / "pml.db"
            path.parent.mkdir()
            store = SqliteStore(SqliteStore.settings_type(path=str(path)), services)
        async with store:
            for old in OLD:
                await store.executions.put(old)

    @contextmanager
    def running(self, *options: str) -> Iterator[Fleet]:
        """Serve over HTTP as long as the block lasts."""
        self._configure()
        with ThreadPoolExecutor(1) as apart:  # there may be an event loop here
            apart.submit(asyncio.run, self._remember_old_days()).result()
        command = [PML, "serve", "--http", "127.0.0.1:0", "--config", str(self._config), *options]
        with (
            self.log.open("w") as log,
            subprocess.Popen(command, stderr=log, env=self.environment, cwd=self.folder) as process,
        ):
            try:
                until_s = time.monotonic() + SOON_S
                while SERVING not in self.log.read_text():
                    assert process.poll() is None, self.log.read_text()
                    assert time.monotonic() < until_s, self.log.read_text()
                    time.sleep(POLL_S)
                self.url = self.log.read_text().split(SERVING)[1].split()[0]
                yield self
            finally:
                process.terminate()

    # People and programs who use it

    def pml(self, *words: str) -> str:
        """What another ``pml`` command prints."""
        ran = subprocess.run(
            [PML, *words, "--config", str(self._config)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.folder,
            env=self.environment,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def key(self, *whose: str) -> str:
        """A key as ``pml keys create`` makes it: ``--user``, ``ann``. The same one each time."""
        called = " ".join(whose)
        if called not in self._keys:
            self._keys[called] = json.loads(self.pml("keys", "create", *whose, "--json"))["key"]
        return self._keys[called]

    @asynccontextmanager
    async def client(self, *whose: str, era: str = "legacy") -> AsyncIterator[Caller]:
        """The official SDK's client with a key of that kind."""
        key = await asyncio.to_thread(self.key, *whose)
        headers = {"authorization": f"Bearer {key}"}
        failure: Exception | None = None
        mode: Any = era
        async with (
            httpx2.AsyncClient(headers=headers, timeout=SOON_S) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode, cache=None) as client,
        ):
            try:
                yield Caller(client)
            except Exception as exc:  # kept out of the SDK's task groups, which would wrap it
                failure = exc
        if failure is not None:
            raise failure

    async def get(self, path: str, *whose: str, key: str | None = None, **query: Any) -> httpx2.Response:
        """The answer of ``/api``."""
        token = key if key is not None else await asyncio.to_thread(self.key, *whose)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(headers=headers, timeout=SOON_S) as http:
            return await http.get(f"{self.url.removesuffix('/mcp')}/api/{path}", params=query)

    # What it left

    def told(self) -> list[str]:
        """What agents were told, in order: ``ruby: Do this``."""
        file = self.folder / "worker.log"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def audit(self) -> Path:
        return self.folder / "home" / "audit" / "audit.jsonl"

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """Rows of the audit."""
        read = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [row for row in read if row["kind"] == kind]

    async def row(self, kind: str, **about: Any) -> dict[str, Any]:
        """The one row of the audit that says this, once it is there."""
        async with asyncio.timeout(SOON_S):
            while not (found := [row for row in self.rows(kind) if about.items() <= row.items()]):  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        assert len(found) == 1, found
        return found[0]

    def go(self, file: str) -> None:
        """Let those go on who were told to ``wait`` for it."""
        (self.folder / file).touch()


class Caller:
    """A connected client, and how agents use the gateway through it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that succeeds."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        content: dict[str, Any] = result.structured_content
        return content

    async def refusal(self, tool: str, **arguments: Any) -> str:
        """The text of a call that does not."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, text_of(result)
        return text_of(result)

    async def chat(self, agent: str, message: str, **more: Any) -> str:
        """Have an agent do something, to its end; the id."""
        result = await self.client.call_tool("chat_with_agent", {"agent_name": agent, "message": message, **more})
        id: str = result.structured_content["execution_id"]
        return id

    async def begin(self, agent: str, message: str, **more: Any) -> str:
        """Have it done in the background; the id."""
        arguments = {"agent_name": agent, "message": message, "async": True, **more}
        told = await self.answer("chat_with_agent", **arguments)
        assert told["status"] == "pending"
        id: str = told["execution_id"]
        return id

    async def result(self, agent: str, id: str, **more: Any) -> dict[str, Any]:
        """One execution."""
        told = await self.answer("get_execution_result", agent_name=agent, execution_id=id, **more)
        execution: dict[str, Any] = told["execution"]
        return execution

    async def polled(self, agent: str, id: str, *states: str) -> dict[str, Any]:
        """One execution, once it is in one of ``states``; without any, once it has ended."""
        wanted = states or ("success", "failed")
        async with asyncio.timeout(SOON_S):
            while (told := await self.result(agent, id))["status"] not in wanted:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        return told

    async def listed(self, **filters: Any) -> Mapping[str, dict[str, Any]]:
        """What ``list_recent_executions`` shows, by id."""
        told = await self.answer("list_recent_executions", limit=100, **filters)
        return {one["id"]: one for one in told["executions"]}


def text_of(result: Any) -> str:
    """The text of a ``CallToolResult``."""
    return "\n".join(block.text for block in result.content if block.type == "text")
