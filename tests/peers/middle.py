"""A real gateway between a client and a server of somebody else's tests, all in the process of these tests.

On each side stands one of PML's own transports: ``stdio`` on a pair of sockets in the place of a process's pipes, or
``http`` on a port of this machine. Nothing of the gateway is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Self
from weakref import WeakKeyDictionary

import anyio
import httpx2
import uvicorn
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from pml_core.gateway import Gateway
from pml_core.plugins import local_plugins, registry
from pml_hookspecs import Endpoint, Handler, Link, Transport, TransportError, replace
from pml_kit.jsonrpc.lines import LinePeer
from pml_kit.processes.pipes import Reader, Writer
from pml_kit.system.logs import Logs
from pml_settings.config import Config, GatewaySettings, ServerSettings
from pml_transport_stdio.listener import serve_over
from pml_transport_stdio.settings import Settings as StdioSettings

LONGEST_LINE = 1 << 28
SOON_S = 10.0
GRACE_S = 2.0
NAME = "peer"
OWN = {"resources": "uri", "prompts": "name"}
BEGINNINGS = ("pml://", "guide_")
"""Of what the gateway adds to lists for itself: its status and its guides. It declares that it has such lists."""
_STARTING: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
_ELSEWHERE = tempfile.TemporaryDirectory()
os.environ["PML_HOME"] = _ELSEWHERE.name
"""So that nothing is ever read or written in the home of whoever runs this."""
Run = Callable[[Any, Any], Any]
"""Serves one connection, given a stream to read from and one to write to, until it is closed."""


class _NoLog:
    def __getattr__(self, _level: str) -> Callable[..., None]:
        return lambda *_args, **_fields: None


@asynccontextmanager
async def lines(sock: socket.socket) -> AsyncIterator[tuple[Any, Any]]:
    """JSON-RPC lines on a socket as the two streams that the SDK wants."""
    reader, writer = await asyncio.open_connection(sock=sock, limit=LONGEST_LINE)
    incoming, read = anyio.create_memory_object_stream[Any](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def take_in() -> None:
        async with incoming:
            async for line in reader:
                try:
                    message: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                except ValueError as exc:
                    message = exc
                await incoming.send(message)

    async def send_out() -> None:
        async with outgoing:
            async for message in outgoing:
                writer.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await writer.drain()

    gone = (anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError)

    async def quietly(work: Callable[[], Any]) -> None:
        with suppress(*gone):
            await work()

    tasks = [asyncio.ensure_future(quietly(work)) for work in (take_in, send_out)]
    try:
        yield read, write
    finally:
        with suppress(*gone):
            await write.aclose()
        await asyncio.wait(tasks[1:], timeout=GRACE_S)  # what was written last goes out
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for stream in (incoming, read, write, outgoing):
            stream.close()
        writer.close()
        with suppress(*gone):
            await writer.wait_closed()


class Pipes(Transport):
    """PML's side of a server in this process: the multiplexer of ``stdio`` on a socket."""

    settings_type = None

    def __init__(self, run: Run) -> None:
        """``run`` serves one connection."""
        self._run = run

    def __call__(self, _settings: Any = None, _services: Any = None) -> Pipes:
        """It is its own factory."""
        return self

    def connect(self, endpoint: Endpoint, handler: Handler) -> AbstractAsyncContextManager[Link]:
        """Start the server on a new connection."""
        return self._connected(endpoint.name, handler)

    @asynccontextmanager
    async def _connected(self, name: str, handler: Handler) -> AsyncIterator[Link]:
        near, far = socket.socketpair()
        near.setblocking(False)

        async def serve() -> None:
            async with lines(far) as (read, write):
                await self._run(read, write)

        connection = LinePeer(f"server {name!r}", StdioSettings(), _NoLog(), sheds=True)
        connection.handler = handler

        def lost(_error: OSError | None) -> None:
            connection.eof_received()
            connection.end(TransportError(f"server {name!r} closed its output", retryable=True))

        connection.writer = Writer(near.fileno(), lost, connection.room)
        reader = Reader(near.fileno(), connection.data_received, lost)
        task = asyncio.ensure_future(serve())
        try:
            yield connection
        finally:
            connection.end(None)
            connection.writer.flush()
            connection.writer.close()
            near.shutdown(socket.SHUT_WR)
            await connection.join(GRACE_S)
            await asyncio.wait([task], timeout=GRACE_S)
            reader.close()
            near.close()
            await _ended(task)


async def _ended(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with suppress(BaseException):
        await task


@asynccontextmanager
async def listening(app: Any, *, lifespan: str = "off") -> AsyncIterator[str]:
    """Serve an ASGI application; yields its address, without a path."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_config=None, log_level="critical", lifespan=lifespan, ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    task = asyncio.ensure_future(server.serve(sockets=[bound]))
    try:
        async with asyncio.timeout(SOON_S):
            while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
                await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        await asyncio.wait([task], timeout=GRACE_S)
        await _ended(task)
        bound.close()


@dataclass(frozen=True)
class Behind:
    """The server as PML is to find it: by its address, or as what serves one connection."""

    url: str = ""
    run: Run | None = None
    protocol: str = ""
    declares: frozenset[str] = frozenset()
    """The capabilities that it declares."""


@cache
def _discovered() -> tuple[registry.Record, ...]:
    return tuple(local_plugins.found(Config(GatewaySettings(), {}, {}, ())))


def _installed() -> list[registry.Record]:
    """What is installed, each as when it was found: looking takes as long as all the rest of a gateway's start."""
    return [replace(record, deprecated=[]) for record in _discovered()]


def _one_starts() -> asyncio.Lock:
    """Held while a gateway finds its home, which is a variable of the environment, and so of all that start now."""
    return _STARTING.setdefault(asyncio.get_running_loop(), asyncio.Lock())


@asynccontextmanager
async def gateway(behind: Behind, *, one_client: bool) -> AsyncIterator[Gateway]:
    """A running gateway with the standard set of plugins and one server behind it, whose names it keeps."""
    table: dict[str, Any] = {"prefix": "", "methods": ("*",)}
    if behind.url:
        options = {"protocol": behind.protocol} if behind.protocol else {}
        server = ServerSettings(url=behind.url, options=options, **table)
    else:
        server = ServerSettings(address="inside:", sharing="auto" if one_client else "per_client", **table)
    settings = GatewaySettings(tools_exposure="full_proxy", log_level="error", store="sqlite", tracers=("log", "store"))
    config = Config(gateway=settings, servers={NAME: server}, tables={}, sources=())
    records = _installed()
    if behind.run is not None:
        records = [*records, registry.provide("pml.transport", "inside", Pipes(behind.run))]
    async with AsyncExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        async with _one_starts():
            before, os.environ["PML_HOME"] = os.environ["PML_HOME"], home
            try:
                made = Gateway(config, Logs("error"), records, one_client=one_client)
                running = await stack.enter_async_context(made)
            finally:
                os.environ["PML_HOME"] = before
        yield running


class Foreign:
    """A stream of what the gateway sends, without the resources and prompts of its own that it adds to lists."""

    def __init__(self, stream: Any, declared: frozenset[str]) -> None:
        """``stream`` is what the gateway's messages come from; ``declared`` is what the server declares."""
        self._stream, self._declared = stream, declared

    async def receive(self) -> Any:
        """The next message."""
        return _without_own(await self._stream.receive(), self._declared)

    def __aiter__(self) -> Foreign:
        """All that are to come."""
        return self

    async def __anext__(self) -> Any:
        """The next one."""
        return _without_own(await self._stream.__anext__(), self._declared)

    async def __aenter__(self) -> Self:
        """The stream itself."""
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> Any:
        """Close it."""
        return await self._stream.__aexit__(*exc)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _without_own(item: Any, declared: frozenset[str]) -> Any:
    result = getattr(getattr(item, "message", None), "result", None)
    for member, key in OWN.items():
        if isinstance(result, dict) and isinstance(listed := result.get(member), list):
            result[member] = [one for one in listed if not str(one.get(key)).startswith(BEGINNINGS)]
        if isinstance(result, dict) and member not in declared and "serverInfo" in result:
            result["capabilities"].pop(member, None)
    return item


@asynccontextmanager
async def foreign(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], behind: Behind
) -> AsyncIterator[tuple[Any, Any]]:  # fmt: skip
    """``transport``, whose reading stream is :class:`Foreign`."""
    async with transport as (read, write):
        yield Foreign(read, behind.declares), write


@asynccontextmanager
async def over_stdio(behind: Behind) -> AsyncIterator[AbstractAsyncContextManager[tuple[Any, Any]]]:
    """A transport, for the SDK's clients, to a gateway that serves its one client as ``pml serve`` does."""
    async with gateway(behind, one_client=True) as running:
        near, far = socket.socketpair()
        fd = far.fileno()
        serving = serve_over(fd, fd, running.accept, lambda _bound: None, StdioSettings(), _NoLog())
        task = asyncio.ensure_future(serving)
        try:
            yield foreign(lines(near), behind)
        finally:
            near.close()
            await asyncio.wait([task], timeout=GRACE_S)
            await _ended(task)
            far.close()


@asynccontextmanager
async def over_http(behind: Behind) -> AsyncIterator[AbstractAsyncContextManager[tuple[Any, Any]]]:
    """A transport, for the SDK's clients, to a gateway that serves any number, as ``pml serve --http`` does."""
    async with gateway(behind, one_client=False) as running:
        bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(running.serve("http://127.0.0.1:0", started=bound.set_result))
        try:
            await asyncio.wait([bound, task], return_when=asyncio.FIRST_COMPLETED, timeout=SOON_S)
            if task.done():
                await task
            async with httpx2.AsyncClient(timeout=httpx2.Timeout(30, read=300), follow_redirects=True) as http:
                url = f"{await bound}/mcp"
                yield foreign(streamable_http_client(url, http_client=http, max_sse_event_size=None), behind)
        finally:
            await _ended(task)
