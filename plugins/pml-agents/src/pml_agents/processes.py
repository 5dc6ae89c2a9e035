"""Runs a program to its end, and leaves nothing of it behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pml_kit.cleanup import finish_despite_cancel
from pml_kit.processes.pipes import Reader, Writer
from pml_kit.processes.tree import MARK, ProcessTree
from pml_kit.processes.watchdog import Watchdog

TERM_S, KILL_S = 0.7, 10.0
"""How long what an agent leaves gets to be gone when it is asked to end, and when it is killed [s]; what is killed is
gone at once, unless the machine stands still."""
DRAIN_S = 0.5
"""How long output is waited for that others hold open, once the agent has ended [s]."""
LAST_WORDS = 8 * 1024
"""How much of the end of standard error is kept [bytes]."""
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
    watchdog = Watchdog()
    mark = watchdog.new_mark()
    io: _ProcessIO | None = None
    try:
        watchdog.add(mark)
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
        watchdog.watch(mark, popen.pid)
        io = _ProcessIO(popen, mark, limit_bytes, take)
        return await io.until_it_ends(given)
    finally:
        await finish_despite_cancel(_nothing_left(io, watchdog, mark), name="end of a process")


async def _nothing_left(io: _ProcessIO | None, watchdog: Watchdog, mark: str) -> None:
    try:
        if io is not None:
            io.close()
            await io.tree.end(((None, 0.0), (signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)))
            io.tree.close()
    finally:
        await watchdog.remove(mark)


class _ProcessIO:
    """The pipes of a program while it runs: its input is written, its output is read."""

    def __init__(
        self, popen: subprocess.Popen[bytes], mark: str, limit_bytes: int, take: Callable[[bytes], None]
    ) -> None:
        self._popen, self._limit_bytes, self._take = popen, limit_bytes, take
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._read = asyncio.Event()
        self._size, self._words = 0, b""
        self._open = 0
        self._ends: list[Reader | Writer] = []
        self.tree = ProcessTree(popen, mark, self._ended)

    async def until_it_ends(self, given: bytes | None) -> ProcessExit:
        """Talk with it until it ends, or writes too much."""
        for stream, take in ((self._popen.stdout, self._output), (self._popen.stderr, self._error)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._open += 1
                self._ends.append(Reader(stream.fileno(), take, self._output_ended))
        if given is not None and self._popen.stdin is not None:
            self._write(self._popen.stdin.fileno(), given)
        await self._over
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self._read.wait()
        return ProcessExit(self._popen.returncode, self._words.decode(errors="replace").strip())

    def _write(self, fd: int, given: bytes) -> None:
        os.set_blocking(fd, False)
        # It need not read what it is given.
        writer = Writer(fd, lambda _error: self._close_input(), self._close_input)
        self._ends.append(writer)
        writer.write((given,), now=True)
        if not writer.size:
            self._close_input()

    def _close_input(self) -> None:
        if self._popen.stdin is not None and not self._popen.stdin.closed:
            self._ends.pop().close()
            self._popen.stdin.close()

    def _output(self, data: bytes) -> None:
        if not self._flooded(data):
            self._take(data)

    def _error(self, data: bytes) -> None:
        self._words = (self._words + data[-LAST_WORDS:])[-LAST_WORDS:]
        self._flooded(data)

    def _flooded(self, data: bytes) -> bool:
        self._size += len(data)
        if self._size <= FLOOD * self._limit_bytes:
            return False
        if not self._over.done():
            self._over.set_exception(FloodError())
        return True

    def _output_ended(self, _error: OSError | None) -> None:
        self._open -= 1
        if not self._open:
            self._read.set()

    def _ended(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def close(self) -> None:
        """Let go of the pipes; what was not read of what was written, nobody will read."""
        for end in self._ends:
            end.close()
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()
