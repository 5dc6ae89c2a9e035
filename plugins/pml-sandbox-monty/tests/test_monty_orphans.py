"""Workers end with the gateway, however it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

GATEWAY = """
import asyncio, json, sys, time
from pml_hookspecs import CodeRun
from pml_sandbox_monty import Monty, Settings
from pml_testing.fakes import FakeRun, outcome
from pml_testing.isolation import children, services

async def answer(task, run):
    print("busy", flush=True)
    return outcome(task.id, 1)

async def main():
    async with Monty(Settings(timeout_s=2), services()) as made:
        await made.execute(CodeRun(id="task", language="python", source="1"), FakeRun())
        print(json.dumps(sorted(children())), flush=True)
        if sys.argv[1] == "busy":
            source = "await tools.open.echo()\\nwhile True: pass"
            await made.execute(CodeRun(id="task", language="python", source=source), FakeRun(answer))
        time.sleep(60)

asyncio.run(main())
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for processes")
@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_worker_does_not_outlive_a_gateway_that_is_killed(state: str) -> None:
    with subprocess.Popen([sys.executable, "-c", GATEWAY, state], stdout=subprocess.PIPE) as gateway:
        assert gateway.stdout
        workers = json.loads(gateway.stdout.readline())
        assert workers
        assert all(runs(worker) for worker in workers)
        if state == "busy":
            assert gateway.stdout.readline() == b"busy\n"
        gateway.kill()
    # One that is busy hears of it when its code has used up its time.
    deadline = time.monotonic() + 5
    while any(runs(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker is still there"
        time.sleep(0.02)
