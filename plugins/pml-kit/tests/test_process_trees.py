"""The watchdog, and what has left its process group."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from pml_kit.processes.tree import MARK, _only_zombies, is_empty, marked
from pml_kit.processes.watchdog import Watchdog
from pml_testing.transport_ends import alive

pytestmark = pytest.mark.anyio
needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="marks are read from /proc")
NOBODY, NOBODY_ELSE = 999_999_001, 999_999_002


def watching(*groups):
    """A watchdog of these groups, and the mark of each."""
    watchdog, marks = Watchdog(), []
    for group in groups:
        marks.append(watchdog.new_mark())
        watchdog.add(marks[-1])
        watchdog.watch(marks[-1], group)
    return watchdog, *marks


async def test_there_is_one_shell_while_there_is_a_process_and_none_afterwards():
    watchdog, one, other = watching(NOBODY, NOBODY_ELSE)
    shell = watchdog._shell.pid
    await watchdog.remove(one)
    assert watchdog._shell.pid == shell
    assert alive(shell)
    await watchdog.remove(other)
    assert not alive(shell)


async def test_the_event_loop_goes_on_while_the_watchdog_leaves():
    watchdog, mark = watching(NOBODY)
    shell = watchdog._shell
    shell.send_signal(signal.SIGSTOP)  # as on a machine that has other things to do
    leaving = asyncio.create_task(watchdog.remove(mark))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not leaving.done()
    assert shell.poll() is None
    shell.send_signal(signal.SIGCONT)
    await leaving
    assert not alive(shell.pid)


async def test_where_no_thread_can_be_had_it_leaves_all_the_same(monkeypatch):
    async def none(*_args):
        raise RuntimeError("can't start new thread")

    watchdog, mark = watching(NOBODY)
    shell = watchdog._shell.pid
    monkeypatch.setattr(asyncio, "to_thread", none)
    await watchdog.remove(mark)
    assert not alive(shell)


async def test_what_has_ended_is_not_looked_for_again():
    """Its number may be somebody else's by then."""
    sleeper = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    other = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    watchdog, gone, _ = watching(sleeper.pid, other.pid)
    await watchdog.remove(gone)
    shell = watchdog._shell
    shell.stdin.close()
    try:
        assert await asyncio.wait_for(other.wait(), 30) == -signal.SIGTERM
        assert await asyncio.to_thread(shell.wait, 5) == 0
        assert sleeper.returncode is None
    finally:
        sleeper.kill()
        await sleeper.wait()


@needs_proc
async def test_what_was_started_while_the_gateway_was_killed_is_ended_as_well():
    """Its group was not told yet."""
    watchdog = Watchdog()
    watchdog.add(mark := watchdog.new_mark())
    sleeper = await asyncio.create_subprocess_exec("sleep", "60", env={**os.environ, MARK: mark})
    try:
        watchdog._shell.stdin.close()
        assert await asyncio.wait_for(sleeper.wait(), 30) == -signal.SIGTERM
    finally:
        await asyncio.to_thread(watchdog._shell.wait)


async def test_without_a_shell_whoever_starts_something_is_told(monkeypatch):
    monkeypatch.setattr("pml_kit.processes.watchdog.SHELL", "/nowhere/sh")
    watchdog = Watchdog()
    mark = watchdog.new_mark()
    with pytest.raises(FileNotFoundError):
        watchdog.add(mark)
    watchdog.watch(mark, NOBODY)
    await watchdog.remove(mark)


async def test_a_watchdog_that_was_killed_stops_nothing():
    watchdog, mark = watching(NOBODY)
    watchdog._shell.kill()
    await asyncio.to_thread(watchdog._shell.wait)
    watchdog.add(other := watchdog.new_mark())
    watchdog.watch(other, NOBODY_ELSE)
    for each in (mark, other):
        await watchdog.remove(each)


async def _carried(mark):
    async with asyncio.timeout(20):
        while not marked(mark):  # noqa: ASYNC110 - another process sets it
            await asyncio.sleep(0.02)
    return True


@needs_proc
async def test_a_mark_is_known_as_a_whole():
    sleeper = await asyncio.create_subprocess_exec("sleep", "60", env={MARK: "x.11."})
    try:
        assert await _carried("x.11.")
        assert marked("x.11.") == [sleeper.pid]
        assert marked("x.1") == marked("x.11") == marked("") == []
    finally:
        sleeper.kill()
        await sleeper.wait()
    assert marked("x.11.") == []


def test_each_process_has_a_mark_of_its_own():
    one, other = Watchdog(), Watchdog()
    marks = [one.new_mark(), one.new_mark(), other.new_mark()]
    assert len(set(marks)) == 3
    assert not any(a.startswith(b) for a in marks for b in marks if a != b)


@needs_proc
async def test_the_watchdog_of_a_gateway_behind_a_gateway_is_not_ended_with_the_servers(monkeypatch):
    monkeypatch.setenv(MARK, "outer.1.")
    watchdog, mark = watching(NOBODY)
    try:
        assert watchdog._shell.pid not in marked("outer.1.")
    finally:
        await watchdog.remove(mark)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="zombies are told apart by /proc")
def test_a_group_of_zombies_is_empty():
    child = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", ""], os.environ, setpgroup=0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert _only_zombies(child)
    assert not _only_zombies(os.getpgid(0))
    assert is_empty(child)
    with pytest.raises(ChildProcessError):
        os.waitpid(child, 0)
