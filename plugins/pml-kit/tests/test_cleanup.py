from __future__ import annotations

import asyncio
import subprocess
import sys

import anyio
import pytest

from pml_kit.cleanup import finish_despite_cancel

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Work:
    def __init__(self):
        self.begun, self.go, self.done = asyncio.Event(), asyncio.Event(), False

    async def __call__(self):
        self.begun.set()
        await self.go.wait()
        self.done = True


async def test_a_cancellation_waits_until_it_is_done():
    work = Work()
    task = asyncio.ensure_future(finish_despite_cancel(work(), name="work"))
    await work.begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    work.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.done


async def test_waiting_for_the_end_in_a_cancelled_scope_does_not_spin(monkeypatch):
    waits, real = [], asyncio.wait

    def counted(*given, **named):
        waits.append(given)
        return real(*given, **named)

    monkeypatch.setattr(asyncio, "wait", counted)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await finish_despite_cancel(asyncio.sleep(0.1), name="work")
    assert len(waits) == 1


async def test_what_it_raises_is_raised():
    async def fails():
        raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        await finish_despite_cancel(fails(), name="work")


def test_it_imports_nothing_that_was_not_there(tmp_path):
    # A gateway that has used up its descriptors ends too, and can open no file of a module then.
    script = tmp_path / "ends.py"
    script.write_text(
        "import asyncio, sys\n"
        "from pml_kit.cleanup import finish_despite_cancel\n"
        "async def main():\n"
        "    before = set(sys.modules)\n"
        "    await finish_despite_cancel(asyncio.sleep(0), name='work')\n"
        "    print(sorted(set(sys.modules) - before))\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "[]\n"
