"""The downstream direction: a server's process with a connection to it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pml_hookspecs import TransportError
from pml_kit.cleanup import finish_despite_cancel
from pml_kit.processes.pipes import Reader, Writer
from pml_kit.processes.watchdog import SHELL

from .process import Child, discard, environment, not_started, spawn

if TYPE_CHECKING:
    import subprocess
    from types import TracebackType

    from pml_hookspecs import Endpoint, Handler, Link
    from pml_kit.jsonrpc.lines import LinePeer
    from pml_kit.processes.watchdog import Watchdog

    from .command import Command
    from .reach import Forwarder
    from .settings import Settings

SETTLING_S = 0.05
"""Time between the first sign of a server's end and telling everybody [s]."""
ALL_SIGNS = 3
"""Signs of the end: exit, end of stdout, end of stderr."""
HANDLERS_S = 1.0
"""Time that handlers get to end after their cancellation [s]."""


class Server(AbstractAsyncContextManager["Link"]):
    """Entering starts the server, leaving ends it. For one use."""

    _forwarder: Forwarder | None = None
    _child: Child
    _connection: LinePeer
    _reader: Reader
    _writer: Writer
    _mark: str

    def __init__(
        self,
        endpoint: Endpoint,
        command: Command,
        handler: Handler,
        settings: Settings,
        log: Any,
        watchdog: Watchdog,
        told: set[str],
    ) -> None:
        """Remember what to start; nothing happens yet. ``told`` are the servers whose junk was warned of."""
        self._watchdog, self._told = watchdog, told
        self._endpoint, self._command, self._handler = endpoint, command, handler
        self._settings, self._log = settings, log
        self._settling: asyncio.TimerHandle | None = None
        self._signs: set[str] = set()
        self._otherwise = ""
        self._closing = False

    async def __aenter__(self) -> Link:
        """Start the process.

        Raises:
            TransportError: It cannot be started.
        """
        name = self._endpoint.name
        self._mark = self._watchdog.new_mark()
        popen: subprocess.Popen[bytes] | None = None
        try:
            self._watch()
            popen = await self._spawn(name)
            self._watchdog.watch(self._mark, popen.pid)
            return self._connect(name, popen)
        except BaseException:
            if popen is not None:
                discard(popen)
            if self._forwarder is not None:
                self._forwarder.close()
            await self._watchdog.remove(self._mark)
            raise

    def isolation(self) -> str:
        """What keeps it from the rest of the machine. Starts a process, once, to try.

        Raises:
            TransportError: The machine lacks a wall that is required.
        """
        from .sandbox import isolation

        return isolation(self._endpoint.name, self._command.sandbox)

    async def _spawn(self, name: str) -> subprocess.Popen[bytes]:
        command, sandbox = self._command, self._command.sandbox
        env = environment(command, self._endpoint.env)
        if sandbox is None:
            return spawn(name, command, env, self._mark)
        from .sandbox import contained

        try:
            container, argv = await asyncio.to_thread(contained, name, sandbox, command.argv, command.cwd, env)
        except FileNotFoundError as error:
            raise not_started(name, command.argv[0], error) from error
        command = replace(command, argv=argv)
        if not container.network:
            return spawn(name, command, env, self._mark, container)
        from .reach import Forwarder

        ours, theirs = socket.socketpair()
        with theirs:
            self._forwarder = Forwarder(sandbox.places(), self._log, name)
            self._forwarder.begin(ours)
            return spawn(name, command, env, self._mark, container, theirs.fileno())

    def _watch(self) -> None:
        try:
            self._watchdog.add(self._mark)
        except OSError as error:
            self._log.warning("stdio.no_watchdog", problem=str(error), remedy=f"provide {SHELL}")

    def _connect(self, name: str, popen: subprocess.Popen[bytes]) -> Link:
        # Imported while the process starts: this import takes as long as a small server.
        from pml_kit.jsonrpc.junk import NonProtocolLines
        from pml_kit.jsonrpc.lines import LinePeer

        peer = f"server {name!r}"
        connection = LinePeer(peer, self._settings, self._log, concurrent=self._command.concurrent, sheds=True)
        connection.handler, connection.junk = self._handler, NonProtocolLines(peer, self._log, self._told)
        self._connection = connection
        self._child = Child(name, popen, self._mark, self._log, self._sign)
        self._writer = connection.writer = Writer(self._child.stdin, self._input_broken, connection.room)
        self._reader = Reader(self._child.stdout, connection.data_received, self._output_ended)
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process and everything it started, also when cancelled.

        Where it did not answer in time, the error gets notes of what it said instead.
        """
        if isinstance(error, TimeoutError):
            self._explain(error)
        await finish_despite_cancel(self._close(), name=f"close server {self._endpoint.name!r}")

    def _explain(self, error: TimeoutError) -> None:
        if junk := str(self._connection.junk):
            error.add_note(junk)
        if words := self._child.last_words():
            error.add_note(f"its last words on standard error: {words}")

    def _output_ended(self, _error: OSError | None) -> None:
        self._connection.eof_received()
        self._settle("closed its output")
        self._sign("stdout")

    def _input_broken(self, _error: OSError) -> None:
        self._settle("closed its input")

    def _sign(self, sign: str) -> None:
        """Note the end of the process or of one of its streams."""
        self._signs.add(sign)
        if sign == "exit":
            self._settle("exited")
        if len(self._signs) == ALL_SIGNS and not self._closing:
            self._lose()

    def _settle(self, otherwise: str) -> None:
        """The server is as good as gone: tell everybody once its last answers, exit code and stderr are there.

        Something it started may hold its pipes open, so their end is not waited for.
        """
        if self._settling is None and not self._closing:
            self._otherwise = otherwise
            self._settling = asyncio.get_running_loop().call_later(SETTLING_S, self._lose)

    def _lose(self) -> None:
        self._stop_settling()
        self._connection.eof_received()
        words = self._connection.junk.last_words()
        self._connection.end(TransportError(self._child.obituary(self._otherwise, words), retryable=True))

    def _stop_settling(self) -> None:
        if self._settling is not None:
            self._settling.cancel()

    async def _close(self) -> None:
        self._closing = True
        self._stop_settling()
        connection = self._connection
        connection.end(None)
        self._writer.flush()
        self._writer.close()
        self._child.close_stdin()
        # The reader stays until the end: a server that is still writing must not block on it.
        try:
            await self._child.stop(self._settings.close_grace_s)
            await connection.join(HANDLERS_S)
        finally:
            if self._forwarder is not None:
                self._forwarder.close()
            self._reader.close()
            self._child.close()
            await self._watchdog.remove(self._mark)
