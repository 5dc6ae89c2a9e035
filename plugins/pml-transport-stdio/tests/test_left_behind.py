"""The watchdog, and what has left its process group."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pml_hookspecs import Endpoint
from pml_kit.processes.tree import MARK
from pml_testing.transport_ends import SOON_S, Recorder, alive, ended
from pml_transport_stdio import Settings, Stdio

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
        assert await until(lambda: not any(map(alive, started)), 20)
    finally:
        if gateway.returncode is None:
            gateway.kill()
            await gateway.wait()
        for pid in filter(alive, started):
            os.kill(pid, signal.SIGKILL)


async def test_without_a_shell_servers_are_started_all_the_same(connect, log, monkeypatch):
    monkeypatch.setattr("pml_kit.processes.watchdog.SHELL", "/nowhere/sh")
    async with connect() as link:
        assert await link.request("echo", {"n": 1}, timeout_s=SOON_S) == {"n": 1}
    (told,) = (fields for _, event, fields in log.lines if event == "stdio.no_watchdog")
    assert told["remedy"].startswith("provide ")


# Processes that leave their group.

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="marks are read from /proc")
DAEMON = """
import os, signal, sys, time
pids, mark = sys.argv[1:]
if mark != "keep":
    del os.environ[mark]
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for stream in range(3):
        os.close(stream)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = 'import os, sys, time; print(os.getpid(), file=open(sys.argv[1], "w")); time.sleep(60)'
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", program, pids])
sys.stdin.read()
"""
"""A server that starts a daemon, by the book, which does not end when asked to."""


@pytest.fixture
async def daemon(tmp_path):
    """Runs the server to its end; the process id of the daemon."""
    found: list[int] = []

    async def run(mark):
        server, pids = tmp_path / "server.py", tmp_path / "pids"
        server.write_text(DAEMON)
        address = f"stdio:{sys.executable} -I -S {server} {pids} {mark}"
        async with Stdio(Settings(close_grace_s=0.2)).connect(Endpoint(name="git", address=address), Recorder()):
            assert await until(lambda: pids.exists() and pids.read_text().strip(), 20)
            found.append(int(pids.read_text()))
            assert alive(found[0])
            assert os.getpgid(found[0]) not in (os.getpgid(0), 0)
        return found[0]

    yield run
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@needs_proc
async def test_a_daemon_goes_with_the_server_that_started_it(daemon):
    assert await ended(await daemon("keep"))


@needs_proc
async def test_a_daemon_without_the_mark_is_let_live(daemon):
    assert alive(await daemon(MARK))
