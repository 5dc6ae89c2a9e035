"""Programs that the demo runs."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from pml_demo.problem import DemoError
from pml_demo.processes import run

pytestmark = pytest.mark.anyio
SLEEPER = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1], sys.argv[2])
time.sleep(60)
"""


async def test_the_output_comes_back():
    assert await run([sys.executable, "-c", "print('here')"], limit_s=30) == "here\n"


async def test_a_program_gets_what_every_program_gets(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "poison")
    said = await run([sys.executable, "-c", "import os; print(*os.environ)"], limit_s=30)
    assert "PATH" in said
    assert "AWS_SECRET_ACCESS_KEY" not in said


async def test_a_failure_quotes_the_end_of_the_output():
    program = "import sys; print('\\n'.join(map(str, range(100)))); print('why', file=sys.stderr); sys.exit(3)"
    with pytest.raises(DemoError, match="ended with status 3") as failure:
        await run([sys.executable, "-u", "-c", program], limit_s=30)
    assert str(failure.value).endswith("  why")
    assert "\n  50\n" not in str(failure.value)


async def test_a_program_that_is_not_there_is_named():
    with pytest.raises(DemoError, match="/no/such/program cannot be started: No such file"):
        await run(["/no/such/program"], limit_s=1)


async def test_a_program_that_takes_too_long_is_stopped():
    with pytest.raises(DemoError, match=r"took longer than 0\.2 s"):
        await run([sys.executable, "-c", "import time; time.sleep(60)"], limit_s=0.2)


async def test_cancelling_ends_the_program_and_what_it_started(tmp_path):
    ready = tmp_path / "ready"
    command = [sys.executable, "-c", SLEEPER, str(tmp_path / "writing"), str(ready)]
    task = asyncio.create_task(run(command, limit_s=60))
    async with asyncio.timeout(20):
        while not ready.exists():  # noqa: ASYNC110 - a process sets no event
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while any(map(running, ready.read_text().split())):  # noqa: ASYNC110 - nor does one that ends
            await asyncio.sleep(0.01)


def running(pid):
    """Whether the process is there; one that is dead and not yet waited for by its parent is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        if not Path("/proc/self").exists():
            return exists(pid)
        return False
    return state not in "ZX"


def exists(pid):
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True
