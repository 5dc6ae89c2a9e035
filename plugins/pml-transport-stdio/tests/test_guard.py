from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest

from pml_testing.transport_ends import alive
from pml_transport_stdio.guard import Guard

pytestmark = pytest.mark.anyio

STUBBORN = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
if len(sys.argv) > 2:
    subprocess.Popen([sys.executable, "-I", "-S", *sys.argv[:2], *sys.argv[3:]])
with open(sys.argv[1], "a") as pids:
    pids.write(f"{os.getpid()}\\n")
while True:
    time.sleep(60)
"""
"""A server, its wrapper and the wrapper's wrapper, none of which ends when asked to."""

GATEWAY = """
import asyncio, sys
from pml_hookspecs import Endpoint
from pml_transport_stdio import Stdio

class Deaf:
    async def request(self, method, params, origin): return {}
    def notification(self, method, params): pass
    def closed(self, error): pass

async def main():
    stdio = Stdio()
    async with stdio.connect(Endpoint(name="a", address=sys.argv[1]), Deaf()):
        async with stdio.connect(Endpoint(name="b", address=sys.argv[1]), Deaf()):
            await asyncio.sleep(60)

asyncio.run(main())
"""


async def until(condition, limit_s):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.02)
    return True


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
async def test_servers_and_all_below_them_are_gone_soon_after_the_gateway_was_killed(tmp_path, how):
    server, pids = tmp_path / "server.py", tmp_path / "pids"
    server.write_text(STUBBORN)
    pids.touch()
    address = f"stdio:{sys.executable} -I -S {server} {pids} below below"
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, "-c", GATEWAY, address, stderr=asyncio.subprocess.DEVNULL
    )
    started: list[int] = []
    try:
        assert await until(lambda: len(pids.read_text().split()) == 6, 20)
        started = [int(pid) for pid in pids.read_text().split()]
        assert all(map(alive, started))
        gateway.send_signal(how)
        await gateway.wait()
        assert await until(lambda: not any(map(alive, started)), 2)
    finally:
        if gateway.returncode is None:
            gateway.kill()
            await gateway.wait()
        for pid in filter(alive, started):
            os.kill(pid, signal.SIGKILL)


class Silent:
    def __getattr__(self, level):
        return lambda *args, **fields: None


async def test_there_is_one_watchdog_while_there_is_a_server_and_none_afterwards():
    guard = Guard(Silent())
    guard.add(999_999_001)
    watchdog = guard._shell.pid
    guard.add(999_999_002)
    guard.remove(999_999_001)
    assert guard._shell.pid == watchdog
    assert alive(watchdog)
    guard.remove(999_999_002)
    assert not alive(watchdog)


async def test_a_server_that_has_ended_is_not_looked_for_again(tmp_path):
    """Its number may be somebody else's by then."""
    sleeper = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    other = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    guard = Guard(Silent())
    for process in (sleeper, other):
        guard.add(process.pid)
    guard.remove(sleeper.pid)
    shell = guard._shell
    shell.stdin.close()
    try:
        assert await asyncio.wait_for(other.wait(), 5) == -signal.SIGTERM
        assert await asyncio.to_thread(shell.wait, 5) == 0
        assert sleeper.returncode is None
    finally:
        sleeper.kill()
        await sleeper.wait()


async def test_without_a_shell_servers_are_started_all_the_same(monkeypatch):
    monkeypatch.setattr("pml_transport_stdio.guard.SHELL", "/nowhere/sh")
    said = []

    class Log(Silent):
        def warning(self, event, **fields):
            said.append((event, fields["remedy"]))

    guard = Guard(Log())
    guard.add(1)
    guard.remove(1)
    assert said == [("stdio.no_watchdog", "provide /nowhere/sh")]


async def test_a_watchdog_that_was_killed_stops_nothing():
    guard = Guard(Silent())
    guard.add(999_999_001)
    guard._shell.kill()
    await asyncio.to_thread(guard._shell.wait)
    guard.add(999_999_002)
    for group in (999_999_001, 999_999_002):
        guard.remove(group)
