"""Writes the head of a response together with its body: most answers are short, and each write is a system call."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD, END = b"HTTP/1.1 ", b"\r\n\r\n"


class Joining:
    """A transport that holds a response's head back until its body follows, or for a turn of the loop."""

    def __init__(self, transport: asyncio.Transport) -> None:
        """Write to ``transport``, which does all the rest."""
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, or hold back."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(HEAD) and data.endswith(END):
            self._head = data
            asyncio.get_running_loop().call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Close, once everything is written."""
        self._flush()
        self._transport.close()


class Protocol(HttpToolsProtocol):
    """The server's protocol, on such a transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin."""
        super().connection_made(Joining(transport))  # type: ignore[arg-type]  # it does as one
