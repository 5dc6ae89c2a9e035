"""HTTP/1.1 for httpx2, without its own pool: that one looks at every idle connection for every request.

Here the event loop tells when a connection is closed, and the parser is the C one that the listener uses too.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

import httptools
import httpx2

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

IDLE_CONNECTIONS = 256
IDLE_S = 60.0
"""How long a connection is kept for the next request [s]."""
HIGH_WATER = 1 << 20
"""Data of a response that wait to be read, above which no more is taken from the connection [bytes]."""
EYEBALLS_S = 0.25
"""How long one of a host's addresses is tried before the next is tried as well [s]."""
OPENING_S = 0.5
"""How long the end waits for connections that are being opened [s]."""
DEAD_AFTER_S = 60
"""Quiet time after which the operating system looks whether a peer is still there [s]."""
INFORMATIONAL = 200
FRAMING_BYTES = 128 * 1024
"""Most that a response may have of what is no body: all heads up to the body, and trailers [bytes]."""


class Http1(httpx2.AsyncBaseTransport):
    """The transport: as many connections to one origin as there are requests, idle ones first."""

    def __init__(self, context: ssl.SSLContext | None, connect_timeout_s: float) -> None:
        """Prepare; nothing is opened. ``context`` is for https."""
        self._context, self._connect_timeout_s = context, connect_timeout_s
        self._idle: deque[_Connection] = deque()
        self._all: set[_Connection] = set()
        self._opening: set[asyncio.Task[_Connection]] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; its response once the headers are there."""
        connection = self._take() or await self._open(request.url)
        try:
            connection.send(_head(request), await request.aread())
            status, reason, headers = await connection.head()
        except BaseException:
            connection.abort()
            raise
        return httpx2.Response(
            status, headers=headers, stream=_Body(connection, self), extensions={"reason_phrase": reason}
        )

    def _take(self) -> _Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and now - connection.idle_since < IDLE_S:
                return connection
            connection.abort()
        return None

    def give_back(self, connection: _Connection) -> None:
        """Keep a connection for the next request."""
        if len(self._idle) >= IDLE_CONNECTIONS:
            self._idle.popleft().abort()
        self._idle.append(connection)

    async def _open(self, url: httpx2.URL) -> _Connection:
        # A task that is not cancelled with the request: asyncio loses sockets of attempts that are (happy eyeballs).
        opening = asyncio.get_running_loop().create_task(self._connect(url), name=f"connect to {url.host}")
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._opened_in_vain)
            raise

    def _opened_in_vain(self, opening: asyncio.Task[_Connection]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.give_back(opening.result())

    async def _connect(self, url: httpx2.URL) -> _Connection:
        secure = url.scheme == "https"
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self._all),
                    url.host,
                    url.port or (443 if secure else 80),
                    ssl=self._context if secure else None,
                    happy_eyeballs_delay=EYEBALLS_S,
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("timed out") from error
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error
        return connection

    async def aclose(self) -> None:
        """Close all connections, those too that are being opened."""
        if opening := set(self._opening):
            _, late = await asyncio.wait(opening, timeout=OPENING_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._idle.clear()
        for connection in list(self._all):
            connection.abort()
        while self._all:  # noqa: ASYNC110 - it is a turn of the loop or two
            await asyncio.sleep(0)


def _head(request: httpx2.Request) -> bytes:
    lines = [b"%b: %b" % field for field in request.headers.raw]
    first = b"%b %b HTTP/1.1" % (request.method.encode(), request.url.raw_path)
    return b"\r\n".join((first, *lines, b"", b""))


class _Body(httpx2.AsyncByteStream):
    """The body of a response. Closing it gives the connection back, if the body was read to its end."""

    def __init__(self, connection: _Connection, pool: Http1) -> None:
        self._connection, self._pool = connection, pool
        self._closed = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        while chunk := await self._connection.chunk():
            yield chunk

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._connection.reusable:
            self._connection.reset()
            self._pool.give_back(self._connection)
        else:
            self._connection.abort()


class _Connection(asyncio.Protocol):
    """One connection, for one request at a time."""

    transport: asyncio.Transport

    def __init__(self, everybody: set[_Connection]) -> None:
        self._everybody = everybody
        self._loop = asyncio.get_running_loop()
        self.closed = False
        self.reset()

    def reset(self) -> None:
        """Be ready for the next request."""
        self._parser = httptools.HttpResponseParser(self)
        self._reason = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: deque[bytes] = deque()
        self._size = self._framing = 0
        self._busy = self._has_head = self._complete = self._lasts = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.idle_since = self._loop.time()

    @property
    def reusable(self) -> bool:
        """Whether the response is over and the next may come."""
        return self._complete and self._lasts and not self._chunks and not self.closed

    def send(self, head: bytes, body: bytes) -> None:
        """Send a request."""
        self._busy = True
        self.transport.write(head + body)

    async def head(self) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        """Status, reason and headers of the response."""
        while not self._has_head:
            self._check()
            await self._wait()
        return self._parser.get_status_code(), self._reason, self._headers

    async def chunk(self) -> bytes:
        """Some more of the body; empty at its end."""
        while not self._chunks:
            if self._complete:
                return b""
            self._check()
            self._flow(reading=True)
            await self._wait()
        chunk = self._chunks.popleft() if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        self._flow(reading=True)
        return chunk

    def abort(self) -> None:
        """Close it at once."""
        if not self.closed:
            self.transport.abort()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _flow(self, *, reading: bool) -> None:
        if self.closed or self.transport.is_closing():
            return
        if reading:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def _fail(self, message: str) -> None:
        if self._error is None and not self._complete:
            self._error = httpx2.RemoteProtocolError(message)
        self._wake()

    # What the event loop says.

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._everybody.add(self)
        _keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            # Nobody asked for it.
            self.transport.abort()
            return
        self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"not HTTP/1.1: {error}")
            self.transport.abort()
        # The parser keeps what is not complete, and nothing else bounds it.
        if self._framing > FRAMING_BYTES:
            self._fail(f"more than {FRAMING_BYTES} bytes of headers")
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._everybody.discard(self)
        if self._has_head and not self._complete and error is None and self._ends_with_connection():
            self._complete = True
            self._wake()
        elif not self._has_head:
            self._fail(f"the server closed it without an answer{f' ({error})' if error else ''}")
        else:
            self._fail(f"the server closed it within its answer{f' ({error})' if error else ''}")

    def _ends_with_connection(self) -> bool:
        names = {name.lower() for name, _ in self._headers}
        return b"content-length" not in names and b"transfer-encoding" not in names

    # What the parser says.

    def on_status(self, status: bytes) -> None:
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() < INFORMATIONAL:
            self._headers, self._reason = [], b""
            return
        self._has_head, self._framing = True, 0
        self._wake()

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        self._framing = 0
        if self._size > HIGH_WATER:
            self._flow(reading=False)
        self._wake()

    def on_message_complete(self) -> None:
        if self._has_head:
            self._complete, self._lasts = True, bool(self._parser.should_keep_alive())
            self._wake()


def _keep_alive(connected: socket.socket) -> None:
    """Let the operating system notice a peer that vanished without a word."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", DEAD_AFTER_S), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if (number := getattr(socket, name, None)) is not None:
            connected.setsockopt(socket.IPPROTO_TCP, number, value)
