"""A listener on a port of its own, handlers that follow a script, and clients that speak plain HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json

import httpx2
from mcp import Client

from pml_hookspecs import Endpoint, RpcError
from pml_kit.mcp.protocol import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_PROTOCOL_VERSION,
    META_SERVER_INFO,
    METHOD_NOT_FOUND,
)
from pml_testing.transport_ends import SOON_S
from pml_transport_http import Http, Settings

LEGACY, MODERN = "2025-11-25", "2026-07-28"
ABOUT = {"name": "scripted", "version": "1"}
USUAL = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
META = {META_PROTOCOL_VERSION: MODERN, META_CLIENT_CAPABILITIES: {}, META_CLIENT_INFO: ABOUT}
PROGRESS = "notifications/progress"


def text(value):
    """A tool's result."""
    return {"content": [{"type": "text", "text": value}], "resultType": "complete"}


async def echo(params, origin):
    """A tool that says its arguments."""
    return text(json.dumps(params.get("arguments", {})))


class Script:
    """A handler whose tools are ``async def tool(params, origin)``; keeps what it is told."""

    def __init__(self, **tools):
        self.tools = {"echo": echo, **tools}
        self.listing = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
        self.requests = []
        self.notifications = []
        self.closings = []
        self.cancelled = asyncio.Event()

    async def request(self, method, params, origin):
        self.requests.append((method, params))
        try:
            return await self.answer(method, params, origin)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def answer(self, method, params, origin):
        if method == "initialize":
            offers = {"tools": {"listChanged": True}}
            return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": ABOUT}
        if method == "server/discover":
            meta = {META_SERVER_INFO: ABOUT}
            return {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "_meta": meta, **COMPLETE}
        if method == "tools/list":
            return {"tools": self.listing, **COMPLETE}
        if method == "tools/call" and params["name"] in self.tools:
            return await self.tools[params["name"]](params, origin)
        if method in self.tools:
            return await self.tools[method](params, origin)
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    def notification(self, method, params):
        self.notifications.append((method, params.value))

    def closed(self, error):
        self.closings.append(error)


COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class Listening:
    """A listener that runs."""

    def __init__(self, url, task, script):
        self.url, self.task, self.script = url, task, script
        self.links, self.peers = [], []

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    async def stop(self):
        """Cancel it, and wait for its end."""
        self.task.cancel()
        await asyncio.wait([self.task])

    def sdk(self, mode="auto", path="/mcp", **callbacks):
        """The official client."""
        return Client(self.url + path, mode=mode, **callbacks)

    def client(self, **headers):
        """A client that is let in; leave it to close it."""
        return Raw(self.url, headers)


@contextlib.asynccontextmanager
async def listening(services, script=None, *, accept=None, address="http://127.0.0.1:0", routes=None, **settings):
    """``async with listening(services, script) as listener``; ``accept`` instead of ``script`` for several handlers."""
    script = script or Script()
    bound = asyncio.get_running_loop().create_future()

    def accepted(link, peer):
        listener.links.append(link)
        listener.peers.append(peer)
        return script if accept is None else accept(link, peer)

    transport = Http(Settings(**settings), services)
    serving = transport.serve(
        Endpoint(name="default", address=address), accepted, started=bound.set_result, routes=routes
    )
    task = asyncio.ensure_future(serving)
    await asyncio.wait([bound, task], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    listener = Listening(bound.result(), task, script)
    try:
        async with asyncio.timeout(3 * SOON_S):
            yield listener
    finally:
        await listener.stop()


class Raw:
    """An HTTP client that sends what it is told to."""

    def __init__(self, url, headers):
        self.http = httpx2.AsyncClient(base_url=url, timeout=SOON_S, headers=as_headers(USUAL, headers))
        self.session = {}
        self._last = 0

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        await self.http.aclose()

    def message(self, method, params=None, *, id=None):
        self._last += 1
        return {"jsonrpc": "2.0", "id": self._last if id is None else id, "method": method, "params": params or {}}

    async def post(self, content, path="/mcp", **headers):
        """Send a body as it is."""
        return await self.http.post(path, content=as_body(content), headers=as_headers(self.session, headers))

    def stream(self, content, path="/mcp", **headers):
        """The same, for an answer that is read piece by piece."""
        headers = as_headers(self.session, headers)
        return self.http.stream("POST", path, content=as_body(content), headers=headers)

    def listen(self, **headers):
        """Open the stream that belongs to no request, or another one again."""
        return self.http.stream("GET", "/mcp", headers=as_headers(self.session, headers))

    async def initialize(self, path="/mcp", revision=LEGACY):
        """The handshake."""
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": ABOUT}
        response = await self.post(self.message("initialize", hello), path)
        assert response.status_code == 200, response.text
        self.session = {"mcp-session-id": response.headers["mcp-session-id"], "mcp-protocol-version": revision}
        said = await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, path)
        assert said.status_code == 202
        return response

    def calling(self, name, arguments=None, **params):
        """A tool call of the handshake era."""
        return self.message("tools/call", {"name": name, "arguments": arguments or {}, **params})

    async def modern(self, method, params=None, *, path="/mcp", **headers):
        """A request that stands alone."""
        message, said = self.alone(method, params)
        return await self.post(message, path, **{**said, **headers})

    def alone(self, method, params=None):
        """Such a request, and the headers that go with it."""
        params = {"_meta": META, **(params or {})}
        headers = {"mcp_protocol_version": MODERN, "mcp_method": method}
        if name := params.get("name", params.get("uri")):
            headers["mcp_name"] = name
        return self.message(method, params), headers


async def wire(port, lines, content=b""):
    """Send a POST to ``/mcp`` byte for byte, which clients that mean well do not; status and decoded answer."""
    body = as_body(content)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [b"POST /mcp HTTP/1.1", *lines, b"content-length: %d" % len(body), b"connection: close", b"", b""]
    writer.write(b"\r\n".join(head) + body)
    try:
        async with asyncio.timeout(SOON_S):
            answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    return int(answer.split()[1]), json.loads(answer.partition(b"\r\n\r\n")[2])


def as_lines(headers):
    """Headers as they stand on the wire."""
    return [f"{name.replace('_', '-')}:{value}".encode() for name, value in headers.items()]


def as_headers(*groups):
    """Headers from keyword arguments; None leaves one out."""
    merged = {key.replace("_", "-"): value for group in groups for key, value in group.items()}
    return {key: value for key, value in merged.items() if value is not None}


def as_body(content):
    return content if isinstance(content, bytes) else json.dumps(content).encode()


async def until(condition):
    """Wait for something that nothing tells of."""
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


async def events(response):
    """The events of a stream: ``(id, message)``, the message None where there is no data."""
    event = {}
    async for line in response.aiter_lines():
        if line:
            field, _, value = line.partition(":")
            event[field] = value.removeprefix(" ")
        elif "data" in event:
            yield event.get("id"), json.loads(event["data"]) if event["data"] else None
            event = {}
        else:
            event = {}


async def messages(response, count):
    """The first messages of a stream."""
    found = []
    async for _, message in events(response):
        if message is not None:
            found.append(message)
        if len(found) == count:
            break
    return found
