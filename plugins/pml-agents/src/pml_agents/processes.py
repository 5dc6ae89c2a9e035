"""Runs a program to its end, and leaves nothing of it behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pml_kit.cleanup import finish_despite_cancel

from .process_tree import MARK, end, living
from .watchdog import Watchdog

GRACE_S = 0.7
"""Time that an agent gets to stop after SIGTERM [s]."""
AFTER_KILL_S = 10.0
"""How long killed processes are waited for [s]; they are gone at once, unless the machine stands still."""
DRAIN_S = 0.5
"""StartOptions long output is waited for that others hold open, once the agent has ended [s]."""
LOOK_S = 0.02
LAST_WORDS = 8 * 1024
"""StartOptions much of the end of standard error is kept [bytes]."""
FLOOD = 64
"""A program that writes this many times what is kept of its output is ended."""


class FloodError(Exception):
    """The program writes without end."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The exit code of a program, and the end of its standard error."""

    code: int
    """As :attr:`subprocess.Popen.returncode`: negative for a signal."""
    last_words: str
    """The end of its standard error."""


async def run_program(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    given: bytes | None,
    limit_bytes: int,
    take: Callable[[bytes], None],
) -> ProcessExit:
    """Run a program in a session of its own, and end all that it started once it ends, or this is cancelled.

    Args:
        argv: Program and arguments.
        env: All of its environment.
        cwd: Working folder; None for the gateway's own.
        given: Its standard input; None for nothing. It need not read it.
        limit_bytes: How much of its output is kept; far more ends it.
        take: Gets its standard output as it comes.

    Raises:
        OSError: It, or the watchdog, cannot be started.
        ValueError: An argument cannot be one, or a variable.
        FloodError: It wrote without end.
    """
    mark = secrets.token_hex(16)
    watchdog = Watchdog(f"{MARK}={mark}")
    popen: subprocess.Popen[bytes] | None = None
    try:
        pipe = subprocess.PIPE
        # In the loop's own thread: it takes some milliseconds, and a thread would leave it alone when cancelled.
        popen = subprocess.Popen(  # noqa: ASYNC220
            argv,
            bufsize=0,
            stdin=subprocess.DEVNULL if given is None else pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=cwd,
            env={**env, MARK: mark},
            start_new_session=True,
        )
        watchdog.watch(popen.pid)
        return await _ProcessIO(popen, limit_bytes, take).until_it_ends(given)
    finally:
        await finish_despite_cancel(_nothing_left(popen, mark, watchdog), name="end of a process")


async def _nothing_left(popen: subprocess.Popen[bytes] | None, mark: str, watchdog: Watchdog) -> None:
    try:
        if popen is not None:
            await _end_all(popen, mark)
    except BaseException:  # no thread to be had, say, or the loop is being torn down: nothing can be waited for
        if popen is not None and living(popen.pid, mark):
            end(popen.pid, mark, signal.SIGKILL)
        raise
    finally:
        watchdog.stop()


async def _end_all(popen: subprocess.Popen[bytes], mark: str) -> None:
    # In threads: on a machine with many processes it takes a while to look at each.
    for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, AFTER_KILL_S)):
        popen.poll()
        if not await asyncio.to_thread(living, popen.pid, mark):
            break
        await asyncio.to_thread(end, popen.pid, mark, number)
        deadline = asyncio.get_running_loop().time() + patience_s
        while asyncio.get_running_loop().time() < deadline:
            popen.poll()
            if not await asyncio.to_thread(living, popen.pid, mark):
                break
            await asyncio.sleep(LOOK_S)
    popen.poll()


class _ProcessIO:
    """The pipes of a program while it runs: its input is written, its output is read."""

    def __init__(self, popen: subprocess.Popen[bytes], limit_bytes: int, take: Callable[[bytes], None]) -> None:
        self._popen, self._limit_bytes, self._take = popen, limit_bytes, take
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._size, self._words = 0, b""
        self._pidfd = -1
        self._timer: asyncio.TimerHandle | None = None

    async def until_it_ends(self, given: bytes | None) -> ProcessExit:
        """Talk with it until it ends, or writes too much."""
        ends: list[_PipeEnd] = []
        try:
            for stream, take in ((self._popen.stdout, self._output), (self._popen.stderr, self._error)):
                ends.append(_PipeEnd(take))
                await self._loop.connect_read_pipe(partial(_same, ends[-1]), stream)
            if given is not None:
                writing = _PipeEnd(self._nothing)
                ends.append(writing)
                await self._loop.connect_write_pipe(partial(_same, writing), self._popen.stdin)
                writing.write(given)
            self._watch()
            await self._over
            await asyncio.wait([end.over for end in ends[:2]], timeout=DRAIN_S)
        finally:
            self._unwatch()
            for end in ends:
                end.close()
        return ProcessExit(self._popen.returncode, self._words.decode(errors="replace").strip())

    def _nothing(self, data: bytes) -> None:
        """Nothing comes from standard input."""

    def _output(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > FLOOD * self._limit_bytes:
            if not self._over.done():
                self._over.set_exception(FloodError())
            return
        self._take(data)

    def _error(self, data: bytes) -> None:
        self._words = (self._words + data[-LAST_WORDS:])[-LAST_WORDS:]
        self._size += len(data)
        if self._size > FLOOD * self._limit_bytes and not self._over.done():
            self._over.set_exception(FloodError())

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._popen.pid)
        except (AttributeError, OSError):  # not Linux
            self._look()
        else:
            self._loop.add_reader(self._pidfd, self._ended)

    def _look(self) -> None:
        if self._popen.poll() is None:
            self._timer = self._loop.call_later(LOOK_S, self._look)
        else:
            self._ended()

    def _ended(self) -> None:
        self._popen.poll()
        self._unwatch()
        if not self._over.done():
            self._over.set_result(None)

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if self._timer is not None:
            self._timer.cancel()


class _PipeEnd(asyncio.Protocol):
    """This end of one of the three pipes."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._transport: Any = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self.over.done():
            self.over.set_result(None)

    def write(self, data: bytes) -> None:
        """Write, and close when that is through."""
        self._transport.write(data)
        if self._transport is not None:
            self._transport.write_eof()

    def close(self) -> None:
        """Let go; what was not read of what was written, nobody will read."""
        if self._transport is not None:
            abort = getattr(self._transport, "abort", self._transport.close)
            abort()


def _same(end: _PipeEnd) -> _PipeEnd:
    return end


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
