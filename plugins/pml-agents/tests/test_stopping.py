"""What becomes of agents' runs when their gateway, a process of its own, is stopped or killed."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from agents_kit import WORKER, environment, happens

from pml_hookspecs import Scope
from pml_store_sqlite import Settings, SqliteStore

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)
CONFIGURATION = """
[gateway]
store = "sqlite"
drain_s = {drain_s}

[plugins.sqlite]
path = "{folder}/pml.db"

[plugins.agents.agents.w]
command = ["{python}", "{worker}", "gate", "{folder}", "{{message}}"]
"""
NEVER_S = 8


class GatewayProcess:
    """A gateway behind its standard input and output."""

    def __init__(self, process):
        self.process, self._last = process, 0

    async def ask(self, method, **params):
        self._last += 1
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        async with asyncio.timeout(120):
            while True:
                said = json.loads(await self.process.stdout.readline())
                if said.get("id") == self._last:
                    return said["result"]

    def _send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def chat(self, message):
        arguments = {"agent_name": "w", "message": message, "async": True}
        told = await self.ask("tools/call", name="chat_with_agent", arguments=arguments)
        return told["structuredContent"]["execution_id"]


@asynccontextmanager
async def served(folder, drain_s=NEVER_S):
    text = CONFIGURATION.format(folder=folder, python=sys.executable, worker=WORKER, drain_s=drain_s)
    (folder / "config.toml").write_text(text)
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "pml_core", "serve", "--config", str(folder / "config.toml"))
    with (folder / "log").open("ab") as log:
        env = {**environment(), "PML_HOME": str(folder / "home")}
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=log, env=env, cwd=folder
        )
    made = GatewayProcess(process)
    try:
        about = {"name": "test", "version": "1"}
        await made.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=about)
        made._send({"method": "notifications/initialized"})
        yield made
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()


async def rows(folder, *ids):
    async with SqliteStore(Settings(path=str(folder / "pml.db"))) as store:
        return [await store.executions.get(id, EVERYONE) for id in ids]


async def becomes(folder, status, *ids):
    async with asyncio.timeout(120):
        while True:
            found = await rows(folder, *ids)
            if {str(row.status) for row in found} == {status}:
                return found
            await asyncio.sleep(0.05)


async def test_what_runs_ends_when_a_gateway_is_stopped_and_what_waits_is_run_by_the_next(tmp_path):
    async with served(tmp_path) as gateway:
        ids = [await gateway.chat("first")]
        await happens((tmp_path / "first.begun").exists)
        ids.append(await gateway.chat("second"))
        gateway.process.terminate()
        await asyncio.sleep(0.2)
        (tmp_path / "first.go").touch()
        await gateway.process.wait()
    first, second = await rows(tmp_path, *ids)
    assert (str(first.status), first.response["structuredContent"]["response"]) == ("ok", "first is done")
    assert (second.status, second.failure, second.duration_ms) == ("pending", None, None)
    assert not (tmp_path / "second.begun").exists()
    async with served(tmp_path):
        (tmp_path / "all.go").touch()
        (second,) = await becomes(tmp_path, "ok", ids[1])
    assert second.response["structuredContent"]["response"] == "second is done"


async def test_what_takes_longer_than_it_may_is_cancelled_and_not_run_again(tmp_path):
    async with served(tmp_path, drain_s=0.1) as gateway:
        id = await gateway.chat("first")
        await happens((tmp_path / "first.begun").exists)
        gateway.process.terminate()
        await gateway.process.wait()
    (row,) = await rows(tmp_path, id)
    assert (str(row.status), "stopped" in row.failure.message) == ("cancelled", True)


@pytest.mark.parametrize("who", ["next", "other"])
async def test_what_had_not_begun_is_taken_over_after_a_kill_and_what_had_is_not(tmp_path, who):
    async with served(tmp_path) as gateway:
        began = datetime.now(UTC)
        ids = [await gateway.chat("first")]
        await happens((tmp_path / "first.begun").exists)
        ids += [await gateway.chat(name) for name in ("second", "third")]
        if who == "next":
            gateway.process.kill()
            await gateway.process.wait()
        async with served(tmp_path):
            if who == "other":
                gateway.process.kill()
                await gateway.process.wait()
            (tmp_path / "all.go").touch()
            await becomes(tmp_path, "ok", *ids[1:])
            (first,) = await becomes(tmp_path, "error", ids[0])
    assert first.failure.code == "execution.lost"
    assert datetime.now(UTC) - began < timedelta(minutes=5)
