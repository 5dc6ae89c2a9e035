"""The upstream direction: the client that started this process, on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Peer, TransportError
from pml_kit.cleanup import finish_despite_cancel
from pml_kit.processes.pipes import Reader, Writer, abandoned, can_wait

from .caller import LOCAL, identify
from .command import SCHEME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pml_hookspecs import Accept, Endpoint, Handler
    from pml_kit.offers import AccessWatcher

    from .caller import Identify
    from .settings import Settings

CLIENT = "the client"
STDIN, STDOUT, STDERR = 0, 1, 2
DRAIN_S = 5.0
"""Time that requests get to be answered after the client closed our input."""
CHECK_S = 0.05
FLUSH_POLL_S = 0.005
HANDLERS_S = 1.0


async def serve(
    endpoint: Endpoint,
    accept: Accept,
    started: Callable[[str], None],
    settings: Settings,
    ask: Identify | None,
    report: AccessWatcher | None,
    log: Any,
) -> None:
    """Serve on this process's own standard input and output."""
    if endpoint.address != SCHEME:
        raise ValueError(f"listener {endpoint.name!r}: its address must be {SCHEME!r}, nothing after it")
    if endpoint.options:
        unknown = ", ".join(map(repr, endpoint.options))
        raise ValueError(f"listener {endpoint.name!r}: a stdio listener has no options; remove {unknown}")
    with _taken_over() as (source, sink):
        caller = await identify(ask, log, report)
        await serve_over(source, sink, accept, started, settings, log, caller)


async def serve_over(
    source: int,
    sink: int,
    accept: Accept,
    started: Callable[[str], None],
    settings: Settings,
    log: Any,
    caller: Peer | Handler = LOCAL,
) -> None:
    """Serve a client that writes to descriptor ``source`` and reads from ``sink``; both stay open.

    ``caller`` is who it is, or what answers it instead of the gateway.
    """
    with _not_blocking(source), _not_blocking(sink):
        started(SCHEME)
        client = Client(source, sink, accept, settings, log, caller)
        try:
            await client.over()
        finally:
            await finish_despite_cancel(client.close(), name="close stdio listener")


class Client:
    """The connection to the client."""

    def __init__(
        self, source: int, sink: int, accept: Accept, settings: Settings, log: Any, caller: Peer | Handler
    ) -> None:
        """Start reading."""
        from pml_kit.jsonrpc.lines import LinePeer

        self._sink, self._settings = sink, settings
        self._error: TransportError | None = None
        self._broken = False
        self._ended = asyncio.Event()
        connection = self._connection = LinePeer(CLIENT, settings, log)
        self._writer = connection.writer = Writer(sink, self._output_broken, self._room)
        connection.handler = accept(connection, caller) if isinstance(caller, Peer) else caller
        self._reader = Reader(source, self._data_received, self._input_ended)

    async def over(self) -> None:
        """Wait for the client to leave, and for the answers it still gets."""
        await self._ended.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self._drain()

    async def close(self) -> None:
        """End the connection, and what is running for it."""
        self._reader.close()
        self._connection.end(self._error)
        await self._connection.join(HANDLERS_S)
        self._writer.flush()
        self._writer.close()

    def _data_received(self, data: bytes) -> None:
        self._connection.data_received(data)
        # Answers cannot be refused, so what leads to more of them is not read while the client does not read either.
        if self._writer.size > self._settings.write_buffer_bytes:
            self._reader.pause()

    def _room(self) -> None:
        self._connection.room()
        self._reader.resume()

    def _input_ended(self, error: OSError | None) -> None:
        self._connection.eof_received()
        why = f" ({error.strerror})" if error else ""
        self._leave(f"{CLIENT} closed the connection{why}")

    def _output_broken(self, error: OSError) -> None:
        self._broken = True
        self._leave(f"{CLIENT} does not take answers any more ({error.strerror})")

    def _leave(self, message: str) -> None:
        if self._error is None:
            self._error = TransportError(message, retryable=False)
            self._connection.fail(self._error)
        self._ended.set()

    async def _drain(self) -> None:
        while not self._broken and not abandoned(self._sink):
            if running := self._connection.running:
                await asyncio.wait(running, timeout=CHECK_S)
            elif self._writer.size:
                await asyncio.sleep(FLUSH_POLL_S)
            else:
                break


@contextlib.contextmanager
def _not_blocking(fd: int) -> Iterator[None]:
    # Not for a terminal: it is one and the same for standard error, which would then lose log lines.
    if not can_wait(fd) or not os.get_blocking(fd):
        yield
        return
    os.set_blocking(fd, False)
    try:
        yield
    finally:
        os.set_blocking(fd, True)


@contextlib.contextmanager
def _taken_over() -> Iterator[tuple[int, int]]:
    """Move standard input and output out of everybody else's way, and back."""
    # A descriptor closed at the start may since have become something else, so Python's word counts.
    if sys.__stdin__ is None or sys.__stdout__ is None:
        raise TransportError(
            "standard input or output is closed; start the gateway from an MCP client, or with both connected",
            retryable=False,
        )
    with contextlib.ExitStack() as stack:
        source, sink, nowhere = os.dup(STDIN), os.dup(STDOUT), os.open(os.devnull, os.O_RDWR)
        for fd in (source, sink, nowhere):
            stack.callback(os.close, fd)
        _flush()
        os.dup2(nowhere, STDIN)
        os.dup2(nowhere if sys.__stderr__ is None else STDERR, STDOUT)
        try:
            yield source, sink
        finally:
            _flush()
            os.dup2(source, STDIN)
            os.dup2(sink, STDOUT)


def _flush() -> None:
    """Let what was printed go where it was printed to."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        sys.stdout.flush()
