"""Real HTTP servers for the tests, in the loop that the test runs in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import NamedTuple

import pytest
import uvicorn

from pml_hookspecs import Endpoint
from pml_testing.transport_ends import SOON_S, Recorder
from pml_transport_http import Http, Settings


class Web:
    """Starts and stops servers, each on a port of its own."""

    def __init__(self):
        self._running = {}

    async def serve(self, app, *, port=0, lifespan="off"):
        """Serve an ASGI application; its address, with the path ``/mcp``."""
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
        port = bound.getsockname()[1]
        config = uvicorn.Config(app, log_level="critical", lifespan=lifespan, ws="none", timeout_graceful_shutdown=0.1)
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None
        server.capture_signals = contextlib.nullcontext
        task = asyncio.ensure_future(server.serve(sockets=[bound]))
        async with asyncio.timeout(SOON_S):
            while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
                await asyncio.sleep(0.005)
        self._running[port] = (server, task)
        return f"http://127.0.0.1:{port}/mcp"

    async def stop(self, url):
        """Stop the server at an address."""
        server, task = self._running.pop(int(url.split(":")[2].split("/")[0]))
        server.should_exit = True
        await task

    async def close(self):
        for port in list(self._running):
            await self.stop(f"http://127.0.0.1:{port}/")


@pytest.fixture
async def web(anyio_backend):
    made = Web()
    yield made
    await made.close()


@pytest.fixture
def connect():
    """``async with connect(url, handler=…, settings=…, **options) as link``."""

    @contextlib.asynccontextmanager
    async def connect(url, *, handler=None, services=None, settings=None, name="git", **options):
        transport = Http(Settings(**(settings or {})), services)
        endpoint = Endpoint(name=name, address=url, options=options)
        async with asyncio.timeout(4 * SOON_S), transport.connect(endpoint, handler or Recorder()) as link:
            yield link

    return connect


class Request(NamedTuple):
    """What a scripted server was sent."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self):
        return json.loads(self.body)


class Raw:
    """A server written by hand, byte for byte: what a reply does, the client sees.

    ``reply(request, stream)`` is called for each request; the connection stays open when it returns None, and is closed
    when it returns anything else.
    """

    def __init__(self, reply, ssl=None):
        self.reply, self.ssl = reply, ssl
        self.requests = []
        self.writers = set()
        self.tasks = set()
        self.server = None
        self.port = 0

    async def start(self):
        self.server = await asyncio.start_server(self.connected, "127.0.0.1", self.port, ssl=self.ssl)
        self.port = self.server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{self.port}/mcp"

    async def stop(self):
        """End as a killed process does."""
        self.server.close()
        for writer in list(self.writers):
            writer.transport.abort()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.server.wait_closed()

    async def connected(self, reader, writer):
        self.writers.add(writer)
        self.tasks.add(asyncio.current_task())
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.strip().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Request(*first.split()[:2], headers, body)
                self.requests.append(request)
                if await self.reply(request, Stream(writer)) is not None:
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self.tasks.discard(asyncio.current_task())
            self.writers.discard(writer)
            writer.close()

    def posted(self, method):
        """The requests with a message of this method, in order."""
        return [r for r in self.requests if r.method == "POST" and r.message.get("method") == method]


class Stream:
    """Writes replies."""

    def __init__(self, writer):
        self.writer = writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def status(self, line, body=b"", *, kind="text/plain", **headers):
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {line}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\n\r\n"
        await self.send(head.encode() + body)

    async def json(self, value, **headers):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        await self.status("200 OK", body, kind="application/json", **headers)

    async def result(self, request, result, **headers):
        """Answer a request; take anything else."""
        if "id" not in request.message or "method" not in request.message:
            return await self.status("202 Accepted")
        return await self.json({"jsonrpc": "2.0", "id": request.message["id"], "result": result}, **headers)

    async def open(self, **headers):
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{more}Transfer-Encoding: chunked\r\n\r\n"
        await self.send(head.encode())

    async def chunk(self, data):
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, message, *, id=None, end="\n"):
        head = "" if id is None else f"id: {id}{end}"
        await self.chunk(f"{head}data: {json.dumps(message, ensure_ascii=False)}{end}{end}".encode())

    async def close(self):
        await self.send(b"0\r\n\r\n")


@pytest.fixture
async def raw(anyio_backend):
    """``await raw(reply)`` starts a server written by hand and gives it with its ``url``."""
    servers = []

    async def start(reply, **options):
        server = Raw(reply, **options)
        server.url = await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()
