"""Code whose gateway is killed, and so is the process that would have ended it: the kernel ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")
LIMIT_S = 5
BEGUN_S = 60.0
END_S = 120.0
"""Longest wait for an end that comes after a few seconds on processors [s]."""
GATEWAY = """
import asyncio, sys
from pml_hookspecs import CodeRun
from pml_sandbox_cpython import CPython, Settings
from pml_testing.fakes import FakeRun, outcome
from pml_testing.isolation import services

async def answer(task, run):
    print(task.arguments["pid"], flush=True)
    return outcome(task.id, 1)

async def main():
    async with CPython(Settings(spare=0), services()) as made:
        source = sys.argv[1]
        task = CodeRun(id="a", language="python", source=source, timeout_s=float(sys.argv[2]))
        await made.execute(task, FakeRun(answer))

asyncio.run(main())
"""
CODE = """
import os, signal, sys, threading, time
await tools.open.echo(pid=os.getpid())
spin = "import signal\\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\\nwhile True: pass"
def again():
    time.sleep(0.2)
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", spin])
threading.Thread(target=again).start()
while True: pass
"""
"""Becomes another program from a thread of its own, which the signal for a parent's death does not reach."""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_another_program(pid: int) -> bool:
    """Whether the code runs what it wanted to become; where that cannot be read, it has been ended."""
    return b"SIG_IGN" in Path(f"/proc/{pid}/cmdline").read_bytes()


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


@pytest.mark.attack("Jail", "go on for ever once the gateway and the process that starts code were both killed")
def test_code_that_nobody_is_left_to_end_ends_by_itself() -> None:
    words = [sys.executable, "-c", GATEWAY, CODE, str(LIMIT_S)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as gateway:
        assert gateway.stdout
        code = int(gateway.stdout.readline())
        spawner = parent(code)
        assert parent(spawner) == gateway.pid
        deadline = time.monotonic() + BEGUN_S
        while not is_another_program(code):
            assert time.monotonic() < deadline, "the code has not become another program"
            time.sleep(0.05)
        os.kill(spawner, signal.SIGSTOP)  # so that it does not end the code before it is killed itself
        gateway.kill()
        os.kill(spawner, signal.SIGKILL)
    try:
        assert state(code) in ("R", "S"), "the code got away, as it meant to"
        deadline = time.monotonic() + END_S
        while state(code) not in ("Z", "X", "gone"):
            assert time.monotonic() < deadline, "the code is still there"
            time.sleep(0.05)
    finally:
        if state(code) not in ("Z", "X", "gone"):
            os.kill(code, signal.SIGKILL)
