"""HTTP/1.1 to a gateway with as little work as possible, so that a thousand clients fit into part of one core."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

READ_BYTES = 1 << 16
GONE = "the connection was closed"
EVENTS = b"text/event-stream"


class Response(NamedTuple):
    """A whole response."""

    status: int
    """0 when there is none, because the connection ended."""
    headers: dict[bytes, bytes]
    body: bytes
    at: float
    """When its last byte had been read, on the clock of ``time.perf_counter`` [s]."""

    def message(self) -> Any:
        """The last JSON-RPC message in it; None when there is none."""
        text = self.body
        if self.headers.get(b"content-type", b"").startswith(EVENTS):
            data = [line[5:].strip() for line in text.splitlines() if line.startswith(b"data:")]
            text = next((one for one in reversed(data) if one), b"")
        try:
            return json.loads(text)
        except ValueError:
            return None


OnResponse = Callable[[Response], None]


def head(url: str, method: str, headers: Mapping[str, str]) -> bytes:
    """The beginning of every request of a client, up to its length."""
    parts = urlsplit(url)
    lines = [f"{method} {parts.path} HTTP/1.1", f"Host: {parts.netloc}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n"


class HttpConnection(asyncio.Protocol):
    """Requests one after the other on one connection, which is made anew when it was closed in between."""

    def __init__(self, url: str, source: str = "") -> None:
        """``source`` is the address it comes from; any if empty."""
        parts = urlsplit(url)
        self._host, self._port, self._source = parts.hostname, parts.port, source
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[bytes, OnResponse]] = deque()
        self._current: OnResponse | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._forget()
        self.on_event: Callable[[bytes], None] | None = None
        """Gets what comes of a response that never ends, instead of the response."""
        self.on_lost: Callable[[], None] | None = None

    def send(self, request: bytes, on_response: OnResponse) -> None:
        """Send a request as soon as those before it were answered."""
        self._waiting.append((request, on_response))
        if self._current is None:
            self._next()

    async def request(self, request: bytes) -> Response:
        """Send a request and wait for its response."""
        waiting: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.send(request, lambda response: None if waiting.done() else waiting.set_result(response))
        return await waiting

    def close(self) -> None:
        """Close it; nothing is waited for any more."""
        self.on_lost = None
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        if not self._waiting:
            return
        request, self._current = self._waiting.popleft()
        if self._transport is not None:
            self._transport.write(request)
        else:
            self._connecting = asyncio.get_running_loop().create_task(self._connect(request))

    async def _connect(self, request: bytes) -> None:
        source = (self._source, 0) if self._source else None
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: self, self._host, self._port, local_addr=source)
        except OSError as error:
            self._answered(Response(0, {}, str(error).encode(), time.perf_counter()))
            return
        assert self._transport is not None
        self._transport.write(request)

    def _answered(self, response: Response) -> None:
        on_response, self._current = self._current, None
        if on_response is not None:
            on_response(response)
        self._next()

    def _forget(self) -> None:
        self._data = b""
        self._head: tuple[int, dict[bytes, bytes]] | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._forget()

    def data_received(self, data: bytes) -> None:
        if self._head is not None and self.on_event is not None:
            self.on_event(data)
            return
        self._data += data
        if self._head is None:
            before, found, rest = self._data.partition(b"\r\n\r\n")
            if not found:
                return
            first, *lines = before.split(b"\r\n")
            fields = (line.partition(b":") for line in lines)
            self._head = int(first.split()[1]), {name.lower(): value.strip() for name, _, value in fields}
            self._data = rest
            if self.on_event is not None:
                self._answered(Response(*self._head, b"", time.perf_counter()))
                return
        body = self._body(*self._head)
        if body is not None:
            status, headers = self._head
            self._forget()
            self._answered(Response(status, headers, body, time.perf_counter()))

    def _body(self, status: int, headers: dict[bytes, bytes]) -> bytes | None:
        """All of it; None while more is to come."""
        if headers.get(b"transfer-encoding") == b"chunked":
            return _chunks(self._data) if self._data.endswith(b"0\r\n\r\n") else None
        size = int(headers.get(b"content-length", b"0"))
        return self._data if len(self._data) >= size else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._current is not None:
            self._answered(Response(0, {}, GONE.encode(), time.perf_counter()))
        if self.on_lost is not None:
            self.on_lost()


def _chunks(data: bytes) -> bytes:
    parts = []
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        parts.append(data[:length])
        data = data[length + 2 :]
    return b"".join(parts)
