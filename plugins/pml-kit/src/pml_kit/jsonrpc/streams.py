"""A peer on a pair of asyncio's streams, for transports of servers or of clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import TransportError
from pml_kit.cleanup import finish_despite_cancel

from .lines import LinePeer
from .peer import MOST_REQUESTS

if TYPE_CHECKING:
    from pml_hookspecs import Handler

    from .lines import Limits

CHUNK_BYTES = 256 * 1024
HANDLERS_S = 1.0
"""Time that handlers get to end after their cancellation [s]."""
FLUSH_S = 1.0
"""Time that the peer gets to read what was written before the end [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """What a connection may take unless its transport says otherwise."""

    write_buffer_bytes: int = 64 << 20
    notify_buffer_bytes: int = 256 << 10
    max_requests: int = MOST_REQUESTS
    max_message_bytes: int = 64 << 20


class _NullLog:
    """A log that drops everything, for a transport that has none."""

    def __getattr__(self, _level: str) -> Any:
        return lambda *_args, **_fields: None


class _StreamWriter:
    """Implements :class:`pml_kit.jsonrpc.lines.Writer`."""

    def __init__(self, stream: asyncio.StreamWriter) -> None:
        self._stream = stream

    @property
    def size(self) -> int:
        return self._stream.transport.get_write_buffer_size()

    def write(self, chunks: tuple[bytes, ...], *, now: bool = False) -> None:
        self._stream.writelines(chunks)


class StreamConnection(LinePeer):
    """Implements :class:`pml_hookspecs.Link`, from :meth:`open` on."""

    def __init__(
        self,
        peer: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        log: Any = None,
        limits: Limits | None = None,
    ) -> None:
        """Reads nothing yet. ``peer`` is how messages call the other end: ``server 'git'``, say."""
        super().__init__(peer, limits or StreamLimits(), _NullLog() if log is None else log)
        self._reader, self._stream, self.writer = reader, writer, _StreamWriter(writer)
        self._draining: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def open(self, handler: Handler, drain_s: float = 0) -> AsyncIterator[asyncio.Task[None]]:
        """Read as long as the block lasts, and give the task that does, which ends when the peer is gone.

        ``handler`` gets what arrives. In the end, requests of the peer's get ``drain_s`` to be answered [s].
        """
        self.handler = handler
        reading = self.start(self._read(), name=f"read {self._peer}")
        try:
            yield reading
        finally:
            await finish_despite_cancel(self._close(drain_s), name=f"close {self._peer}")

    def hold(self, method: str, params: Mapping[str, Any]) -> None:
        """Keep a notification until there is room."""
        super().hold(method, params)
        if self._draining is None or self._draining.done():
            self._draining = self.start_apart(self._drain(), name=f"write {self._peer}")

    async def _drain(self) -> None:
        try:
            await self._stream.drain()
        except OSError as error:
            self.end(self._lost(f"broke the connection: {error}"))
        self.room()

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(CHUNK_BYTES):
                self.data_received(data)
                # Whoever does not read what it is answered is not read from either.
                await self._stream.drain()
            self.eof_received()
            how = "closed the connection"
        except OSError as error:
            how = f"broke the connection: {error}"
        self.end(self._lost(how))

    def _lost(self, how: str) -> TransportError:
        return TransportError(f"{self._peer} {how}; see its own log", retryable=True)

    async def _close(self, drain_s: float) -> None:
        """End it from this side."""
        if drain_s and not self.ended and self.running:
            await asyncio.wait(self.running, timeout=drain_s)
        self.end(None)
        await self.join(HANDLERS_S)
        self._stream.close()
        # Broken by the peer, it is closed as well.
        with suppress(OSError):
            try:
                async with asyncio.timeout(FLUSH_S):
                    await self._stream.wait_closed()
            finally:
                self._stream.transport.abort()
