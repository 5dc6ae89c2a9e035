"""The scripted server of :mod:`pml_testing.servers` over streamable HTTP; the standard library is all it needs.

``python -I -S http_servers.py`` listens on a free port of the loopback interface, writes its address to standard output
as one line, and serves until its standard input ends. Each request is answered on a stream of its own; what a script
sends besides the answer goes on the stream of the request that is being looked at.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __name__ != "__main__":
    from .servers import METHODS, Server
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is slow to import
    from servers import METHODS, Server

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TAKEN = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
NO_STREAM = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def running() -> Iterator[str]:
    """Start a server in a process of its own; its address. It ends with the block."""

    command = [sys.executable, "-I", "-S", os.path.abspath(__file__)]  # noqa: PTH100
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipes")
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.stdin.close()
            process.wait()


class HttpServer(Server):
    """The same server; messages travel in bodies."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        super().__init__("obliging")
        self.streams: dict[Any, asyncio.StreamWriter] = {}
        """Where the answer to each request goes."""
        self.here: asyncio.StreamWriter | None = None
        """The stream of the request that is being looked at."""

    def write(self, data: bytes) -> None:
        if self.here is not None and not self.here.is_closing():
            self.here.write(b"%x\r\n%b\r\n" % (len(data), data))

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":")).encode()
        before = self.here
        if "method" not in message:
            self.here = self.streams.pop(message["id"], None)
        self.write(b"data: %b\n\n" % body)
        if "method" not in message and self.here is not None:
            self.here.write(b"0\r\n\r\n")
        self.here = before

    def posted(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Take a message."""
        if "method" in message and "id" in message:
            self.streams[message["id"]] = self.here = writer
            writer.write(STREAM)
        else:
            writer.write(TAKEN)
            self.here = None
        self.received(message)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                _, _, length = head.partition(b"content-length:")
                body = await reader.readexactly(int(length.split(b"\r\n")[0] or 0))
                if head.startswith(b"post"):
                    self.posted(json.loads(body), writer)
                else:
                    writer.write(NO_STREAM)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


def pieces(server: Server, request: dict[str, Any], params: dict[str, Any]) -> None:
    """Answer with the params, in chunks of one byte each."""
    line = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": params}, ensure_ascii=False)
    for byte in f"data: {line}\n\n".encode():
        server.write(bytes([byte]))


async def main() -> None:
    """Serve until standard input ends."""
    METHODS.update(pieces=pieces)
    server = HttpServer()
    listener = await asyncio.start_server(server.connected, "127.0.0.1", 0, limit=1 << 20)
    os.write(1, b"http://127.0.0.1:%d/mcp\n" % listener.sockets[0].getsockname()[1])
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
