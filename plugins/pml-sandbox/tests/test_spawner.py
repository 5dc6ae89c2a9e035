"""Processes that another process starts: as if the gateway had started them, without its standing still."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from pml_kit.jail import Jail, system_files, walls
from pml_kit.jail._priority import NICE
from pml_sandbox.child import Command, Listener, start
from pml_sandbox.spawner import Spawner
from pml_sandbox.spawner_process import SCRATCH

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not walls(), reason="this machine has no walls, so nothing is started by a spawner"),
]
SIZES = {"frame_bytes": 1 << 20, "output_bytes": 1 << 20, "flood_factor": 8}
PYTHON = str(Path(sys.executable).resolve())
PARTS = (PYTHON, sys.base_prefix, *system_files())


class EndListener(Listener):
    def __init__(self):
        self.event = asyncio.Event()

    def ended(self):
        self.event.set()


@asynccontextmanager
async def spawner():
    made = Spawner()
    try:
        yield made
    finally:
        await made.close()


def command(source, **jail):
    words = (PYTHON, "-I", "-S", "-c", source)
    return Command(words=words, jail=Jail(run=PARTS, **jail), environment={"A": "b"})


async def ran(spawner, source, **jail):
    """The process, ended."""
    child = await start(command(source, **jail), spawner, **SIZES)
    child.listener = ended = EndListener()
    try:
        async with asyncio.timeout(60):
            if not child.gone.done():
                await ended.event.wait()
    finally:
        child.kill()
    return child


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def until(condition, within_s=60):
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def gone(pid):
    await until(lambda: not is_alive(pid))


async def killed(*children):
    for child in children:
        child.kill()
        await asyncio.wait_for(child.gone, 5)


def is_there(place):
    return Path(place).exists()


async def test_what_it_says_and_how_it_ends_is_heard():
    async with spawner() as by:
        child = await ran(by, "import sys, os; print('out', os.environ); print('err', file=sys.stderr); sys.exit(7)")
        assert child.out.read().startswith("out environ({'A': 'b'")
        assert (child.error.read(), child.returncode) == ("err\n", 7)


async def test_what_is_sent_is_read():
    async with spawner() as by:
        child = await start(command("print(input()); print(len(input()))"), by, **SIZES)
        child.listener = ended = EndListener()
        child.send(b"x" * 500_000 + b"\n")
        await ended.event.wait()
        hello, length = child.out.read().splitlines()
        assert "hello" in hello
        assert length == "500000"


async def test_the_jail_stands_around_it():
    async with spawner() as by:
        child = await ran(by, "open('/etc/passwd')")
        assert "FileNotFoundError" in child.error.read() or "PermissionError" in child.error.read()
        child = await ran(by, "import socket; socket.socket()")
        assert "PermissionError" in child.error.read()


async def test_one_that_is_killed_is_gone_with_its_group():
    async with spawner() as by:
        child = await start(command("import time; time.sleep(60)"), by, **SIZES)
        pid = child.pid
        assert os.getsid(pid) == os.getpgid(pid) == pid
        child.kill()
        await asyncio.wait_for(child.gone, 30)
        assert child.returncode == -signal.SIGKILL
        assert not is_alive(pid)


async def test_one_that_ends_at_once_is_not_missed():
    async with spawner() as by:
        for _ in range(20):
            quick = Command(words=("/bin/true",), jail=Jail(run=("/bin", "/usr/bin", *system_files())))
            child = await start(quick, by, **SIZES)
            await asyncio.wait_for(child.gone, 30)
            assert child.returncode == 0


async def test_what_is_to_be_killed_is_killed_also_when_the_spawner_is_busy():
    async with spawner() as by:
        child = await start(command("while True: pass"), by, **SIZES)
        by._process.send_signal(signal.SIGSTOP)
        starting = [asyncio.ensure_future(ran(by, "print(1)")) for _ in range(300)]
        await asyncio.sleep(0.1)
        child.kill()
        by._process.send_signal(signal.SIGCONT)
        await asyncio.wait_for(child.gone, 30)
        for one in starting:
            one.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        await until(lambda: not by._asked and not by._living, 30)


async def test_a_terminal_that_interrupts_the_gateway_does_not_interrupt_it():
    async with spawner() as by:
        await ran(by, "print(1)")
        assert os.getpgid(by._process.pid) != os.getpgid(0)


def scratched(source):
    words = (PYTHON, "-I", "-S", "-c", source)
    jail = Jail(run=PARTS, write=(SCRATCH,))
    return Command(words=words, jail=jail, environment={"OWN": SCRATCH}, scratch="pml-test-")


SCRATCHING = (
    "import os; place = os.environ['OWN']; open(place + '/a', 'w').write('a'); os.mkdir(place + '/b'); print(place)"
)


async def test_each_has_a_scratch_folder_of_its_own_which_goes_with_it():
    async with spawner() as by:
        command = scratched(SCRATCHING)
        children = [await start(command, by, **SIZES) for _ in range(3)]
        for child in children:
            await asyncio.wait_for(child.gone, 10)
        places = [Path(child.out.read().strip()) for child in children]
        assert len(set(places)) == 3
        assert {place.name[:9] for place in places} == {"pml-test-"}
        assert not any(is_there(place) for place in places)
        assert [child.error.read() for child in children] == [""] * 3


async def test_a_scratch_folder_goes_also_when_the_spawner_does():
    async with spawner() as by:
        child = await start(
            scratched(SCRATCHING + "; import sys, time; sys.stdout.flush(); time.sleep(60)"), by, **SIZES
        )
        await until(child.out.read)
        place = child.out.read().strip()
        assert is_there(place)
        by._process.kill()
        await asyncio.wait_for(child.gone, 5)
        assert not is_there(place)


async def test_nothing_of_what_cannot_be_started_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    async with spawner() as by:
        nothing = Command(words=("/nowhere/program",), jail=Jail(run=PARTS), scratch="pml-test-")
        with pytest.raises(OSError, match="nowhere"):
            await start(nothing, by, **SIZES)
    assert list(tmp_path.iterdir()) == []


def ticks(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


async def test_what_runs_in_a_jail_leaves_the_processor_to_others():
    async with spawner() as by:
        child = await start(command("while True: pass"), by, **SIZES)
        words = [PYTHON, "-I", "-S", "-c", "while True: pass"]
        # In a session of its own too: the kernel may share processors among sessions, and in this one others run.
        with subprocess.Popen(words, start_new_session=True) as beside:  # noqa: ASYNC220 - it is killed below
            try:
                one = {min(os.sched_getaffinity(0))}
                for pid in (child.pid, beside.pid):
                    os.sched_setaffinity(pid, one)
                await asyncio.sleep(0.3)  # the kernel may let its session be set later only
                before = ticks(child.pid), ticks(beside.pid)
                await until(lambda: ticks(beside.pid) - before[1] >= 60, 30)
                assert (ticks(child.pid) - before[0]) * 2 < ticks(beside.pid) - before[1]
            finally:
                beside.kill()
                await killed(child)


async def test_its_session_gives_way_where_the_kernel_shares_processors_among_sessions():
    async with spawner() as by:
        children = [await start(command("import time; time.sleep(60)"), by, **SIZES) for _ in range(3)]
        groups = [Path(f"/proc/{child.pid}/autogroup") for child in children]
        if is_there(groups[0]):
            await until(lambda: all(group.read_text().endswith(f" nice {NICE}\n") for group in groups))
        await killed(*children)


async def test_many_at_once_are_told_apart():
    async with spawner() as by:
        children = await asyncio.gather(*(ran(by, f"print({n})") for n in range(20)))
        assert [child.out.read() for child in children] == [f"{n}\n" for n in range(20)]


async def test_what_cannot_be_started_is_an_error():
    async with spawner() as by:
        nothing = Command(words=("/nowhere/program",), jail=Jail(run=PARTS))
        with pytest.raises(OSError, match="nowhere"):
            await start(nothing, by, **SIZES)
        # A program that the jail does not grant cannot even be looked at.
        forbidden = Command(words=(PYTHON, "-c", ""), jail=Jail())
        with pytest.raises((OSError, subprocess.SubprocessError)):
            await start(forbidden, by, **SIZES)
        assert (await ran(by, "print(1)")).returncode == 0


async def test_when_it_is_killed_its_children_end_and_the_next_call_starts_another():
    async with spawner() as by:
        child = await start(command("import time; time.sleep(60)"), by, **SIZES)
        pid, process = child.pid, by._process
        process.kill()
        await asyncio.wait_for(child.gone, 30)
        assert child.returncode == -signal.SIGKILL
        await gone(pid)
        assert (await ran(by, "print(1)")).out.read() == "1\n"


async def test_closing_leaves_nothing_behind():
    async with spawner() as by:
        child = await start(command("import time; time.sleep(60)"), by, **SIZES)
        pid, process = child.pid, by._process
    await gone(pid)
    assert process.returncode is not None
    assert child.returncode == -signal.SIGKILL


async def test_the_event_loop_goes_on_while_it_ends():
    async with spawner() as by:
        await ran(by, "pass")
        process = by._process
        process.send_signal(signal.SIGSTOP)  # as on a machine that has other things to do
        closing = asyncio.create_task(by.close())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not closing.done()
        assert process.poll() is None
        process.send_signal(signal.SIGCONT)
        await closing
        assert process.returncode is not None


async def test_closing_amid_a_start_leaves_no_scratch_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for delay_s in (0, 0.001, 0.002, 0.004) * 4:
        by = Spawner()
        await ran(by, "pass")
        starting = asyncio.create_task(start(scratched("import time; time.sleep(60)"), by, **SIZES))
        await asyncio.sleep(0)
        # Not of the event loop, which would hear of the start.
        time.sleep(delay_s)  # noqa: ASYNC251
        await by.close()
        with suppress(OSError, asyncio.CancelledError):
            child = await starting
            child.kill()
            await asyncio.wait_for(child.gone, 5)
        assert list(tmp_path.iterdir()) == []


GATEWAY = """
import asyncio, sys
sys.path[:0] = {path!r}
from test_spawner import SIZES, command, start
from pml_sandbox.spawner import Spawner
async def main():
    by = Spawner()
    child = await start(command("import time; time.sleep(60)"), by, **SIZES)
    print(child.pid, by._process.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_nothing_outlives_a_gateway_that_is_killed():
    source = GATEWAY.format(path=[str(Path(__file__).parent), *sys.path])
    words = [sys.executable, "-c", source]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220 - nothing else runs
        pids = [int(word) for word in process.stdout.readline().split()]
        assert all(is_alive(pid) for pid in pids)
        process.kill()
        process.wait()
    for pid in pids:
        await gone(pid)


async def test_a_call_that_is_taken_back_leaves_no_process():
    async with spawner() as by:
        await ran(by, "print(1)")  # it is up
        starting = asyncio.ensure_future(start(command("import time; time.sleep(60)"), by, **SIZES))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait((starting,))
        children = Path(f"/proc/{by._process.pid}/task/{by._process.pid}/children")
        async with asyncio.timeout(30):
            while children.read_text().split() or by._asked:  # noqa: ASYNC110, ASYNC240 - the kernel tells nobody
                await asyncio.sleep(0.01)
