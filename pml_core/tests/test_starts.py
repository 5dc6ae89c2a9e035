"""Servers start behind the greeting, a few at a time, and at once where they are asked for."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from pml_hookspecs import Session, Status, ToolCall
from pml_mcp.servers.connection import starts
from pml_mcp.servers.connection.starts import LEAST_AT_ONCE, LONGEST_S, Starts
from pml_testing.downstream import moving_clock
from pml_testing.gateway import Client, ScriptedServer, running, until

pytestmark = pytest.mark.anyio
SESSION = Session(key="k", principal="alice")
MANY = 58
LONG_S = 600.0
"""Nobody here waits so long."""


class Silent(ScriptedServer):
    """Never answers, before it is let."""

    def __init__(self):
        super().__init__(["late"])
        self.may = asyncio.Event()

    async def serve(self, method, params):
        await self.may.wait()
        return await super().serve(method, params)


@pytest.fixture
def blind(monkeypatch):
    """Nothing tells who wants a processor."""
    monkeypatch.setattr(starts, "runnable", lambda: None)


@pytest.mark.parametrize("greeting", ["initialize", "server/discover"])
async def test_the_greeting_is_answered_before_any_server_is_started(greeting):
    servers = {f"s{n}": ScriptedServer(["do"]) for n in range(MANY)}
    async with running(servers, one_client=True) as made:
        client = Client(made, modern=greeting == "server/discover")
        await client.request(greeting, {"protocolVersion": "2025-11-25", "capabilities": {}})
        assert [server.links for server in servers.values()] == [[]] * MANY
        await until(lambda: all(server.links for server in servers.values()))


async def test_a_client_that_asks_before_it_greets_is_not_kept_waiting():
    async with running({"a": ScriptedServer(["do"])}, one_client=True) as made:
        assert (await Client(made, modern=True).call("a__do"))["content"]


async def test_without_a_client_servers_start_all_the_same():
    server = ScriptedServer(["do"])
    async with running({"a": server}, one_client=True):
        await until(lambda: server.links)


async def test_a_few_are_started_at_a_time_and_one_that_is_called_at_once(monkeypatch, blind):
    monkeypatch.setattr(starts, "processors", lambda: 1)
    servers = {f"bad{n}": Silent() for n in range(2 * LEAST_AT_ONCE)}
    good = ScriptedServer(["do"])
    async with running({**servers, "good": good}, one_client=True, start_timeout_s=LONG_S) as made:
        client = Client(made)
        await client.initialize()
        await until(lambda: sum(bool(server.links) for server in servers.values()) == LEAST_AT_ONCE)
        assert not good.links
        call = ToolCall(id="t", tool="good:do", arguments={})
        assert (await made.dispatcher.start(call, SESSION)).status is Status.OK
        assert sum(bool(server.links) for server in servers.values()) == LEAST_AT_ONCE
        for server in servers.values():
            server.may.set()
        await until(lambda: all(server.links for server in servers.values()))


class Fleet:
    """Servers that start when it is their turn, and are up when they are told."""

    def __init__(self, starts, number):
        self.begun, self.up = [], [asyncio.Event() for _ in range(number)]
        self.wanted = [asyncio.Event() for _ in range(number)]
        self._tasks = [asyncio.create_task(self._run(starts, n)) for n in range(number)]

    async def _run(self, starts, n):
        async with starts.turn(self.wanted[n]):
            self.begun.append(n)
            await self.up[n].wait()

    async def close(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_turn_ends_when_a_server_is_up_and_the_next_begins(blind):
    server_pool = Fleet(Starts(2), 4)
    await settled()
    assert server_pool.begun == [0, 1]
    server_pool.up[1].set()
    await settled()
    assert server_pool.begun == [0, 1, 2]
    server_pool.wanted[3].set()
    await settled()
    assert server_pool.begun == [0, 1, 2, 3]
    await server_pool.close()


async def test_who_gives_up_its_place_in_the_queue_stops_no_other(blind):
    server_pool = Fleet(Starts(1), 3)
    await settled()
    server_pool._tasks[1].cancel()
    await settled()
    server_pool.up[0].set()
    await settled()
    assert server_pool.begun == [0, 2]
    await server_pool.close()


async def test_a_server_that_takes_long_keeps_others_from_starting_only_for_a_while(monkeypatch, blind):
    advance = moving_clock(monkeypatch)
    server_pool = Fleet(Starts(1), 2)
    await settled()
    assert server_pool.begun == [0]
    advance(LONGEST_S)
    await until(lambda: server_pool.begun == [0, 1])
    await server_pool.close()


async def test_servers_that_want_no_processor_keep_no_other_from_starting(monkeypatch):
    wanting = 2
    monkeypatch.setattr(starts, "runnable", lambda: wanting)
    monkeypatch.setattr(starts, "LONGEST_S", LONG_S)
    looked = []
    look = Starts._look
    monkeypatch.setattr(Starts, "_look", lambda self: (looked.append(1), look(self)))
    server_pool = Fleet(Starts(2), 6)
    await until(lambda: len(looked) > 2)
    assert server_pool.begun == [0, 1]
    wanting = 1
    await until(lambda: 2 in server_pool.begun)
    wanting = 0
    await until(lambda: server_pool.begun == [0, 1, 2, 3, 4, 5])
    await server_pool.close()


@pytest.mark.skipif(starts.runnable() is None, reason="this system does not say which processes want a processor")
def test_what_runs_below_this_process_is_told_from_what_waits():
    busy = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(flush=True)\\nwhile True: pass'])"
    idle = "import sys; print(flush=True); sys.stdin.read()"
    for code, expected in ((busy, 1), (idle, 0)):
        command = [sys.executable, "-c", code]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, process_group=0) as process:
            process.stdout.readline()
            found = {starts.runnable() for _ in range(200)}
            os.killpg(process.pid, signal.SIGKILL)
        assert expected in found
