"""Clients of both eras: a session with its standing stream, or requests that stand alone on one connection."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from connections import HttpConnection, Response, head

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
ABOUT = {"name": "load", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": ABOUT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
TOOL = "bench__echo"
AT_ONCE = 50
"""Clients that connect at a time."""
SHOWN = 300


class LoadError(Exception):
    """What is to be measured does not do what it should."""


def body(method: str, params: dict[str, Any], **id: int) -> bytes:
    """A JSON-RPC message."""
    return json.dumps({"jsonrpc": "2.0", **id, "method": method, "params": params}, separators=(",", ":")).encode()


def whole(beginning: bytes, content: bytes) -> bytes:
    """A request of HTTP."""
    return b"%bContent-Length: %d\r\n\r\n%b" % (beginning, len(content), content)


def problem(response: Response, text: str) -> str:
    """What is wrong with the answer to a call that has to echo ``text``; empty when nothing is."""
    message = response.message() if response.status == 200 else None
    result = message.get("result") if isinstance(message, dict) else None
    if isinstance(result, dict) and not result.get("isError") and result.get("content", [{}])[0].get("text") == text:
        return ""
    return f"{response.status}: {response.body[:SHOWN].decode(errors='replace')}"


class StatelessClient:
    """Of 2026-07-28: one connection, no session."""

    era = STATELESS

    def __init__(self, url: str, source: str) -> None:
        self._calls = HttpConnection(url, source)
        said = {**ACCEPT, "MCP-Protocol-Version": STATELESS}
        self._head = head(url, "POST", {**said, "Mcp-Method": "tools/call", "Mcp-Name": TOOL})
        self._list = head(url, "POST", {**said, "Mcp-Method": "tools/list"})

    async def connect(self) -> None:
        """List the tools."""
        response = await self._calls.request(whole(self._list, body("tools/list", {"_meta": META}, id=0)))
        if response.status != 200:
            raise LoadError(f"tools/list: {response.status} {response.body[:SHOWN]!r}")

    def call(self, number: int, text: str, on_response: Callable[[Response], None]) -> None:
        """Echo a text."""
        params = {"name": TOOL, "arguments": {"text": text}, "_meta": META}
        self._calls.send(whole(self._head, body("tools/call", params, id=number)), on_response)

    def rest(self) -> None:
        """Stay connected and do nothing: the connection is kept."""

    async def leave(self) -> None:
        """Close the connection."""
        self._calls.close()


class SessionClient:
    """Of 2025-11-25: a session, one connection for its calls and one for the stream that belongs to no request."""

    era = HANDSHAKE

    def __init__(self, url: str, source: str) -> None:
        self._url = url
        self._calls, self._stream = HttpConnection(url, source), HttpConnection(url, source)
        self.lost = False
        """Whether the stream has ended although nobody closed it."""

    async def connect(self) -> None:
        """Shake hands and open the stream."""
        about = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": ABOUT}
        begin = await self._calls.request(whole(head(self._url, "POST", ACCEPT), body("initialize", about, id=0)))
        if begin.status != 200:
            raise LoadError(f"initialize: {begin.status} {begin.body[:SHOWN]!r}")
        self._headers = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": begin.headers[b"mcp-session-id"].decode()}
        self._head = head(self._url, "POST", {**ACCEPT, **self._headers})
        said = await self._calls.request(whole(self._head, body("notifications/initialized", {})))
        if said.status != 202:
            raise LoadError(f"notifications/initialized: {said.status} {said.body[:SHOWN]!r}")
        self._stream.on_event = lambda data: None
        self._stream.on_lost = self._on_lost
        opened = await self._stream.request(
            head(self._url, "GET", {"Accept": "text/event-stream", **self._headers}) + b"\r\n"
        )
        if opened.status != 200:
            raise LoadError(f"the standing stream: {opened.status} {opened.body[:SHOWN]!r}")

    def _on_lost(self) -> None:
        self.lost = True

    def call(self, number: int, text: str, on_response: Callable[[Response], None]) -> None:
        """Echo a text."""
        params = {"name": TOOL, "arguments": {"text": text}}
        self._calls.send(whole(self._head, body("tools/call", params, id=number + 1)), on_response)

    def rest(self) -> None:
        """Stay connected and do nothing: as libraries do, the connection for calls is given up, the stream is kept."""
        self._calls.close()

    async def leave(self) -> None:
        """End the session."""
        self._stream.on_lost = None
        await self._calls.request(head(self._url, "DELETE", self._headers) + b"Content-Length: 0\r\n\r\n")
        self._calls.close()
        self._stream.close()


McpClient = StatelessClient | SessionClient


def crowd(urls: Sequence[str], count: int, session_share: float) -> list[McpClient]:
    """Clients, spread evenly over gateways and eras.

    Each comes from one of many addresses of this machine: a pair of addresses has some 28,000 ports only.
    """
    made: list[McpClient] = []
    for number in range(count):
        kind = SessionClient if int((number + 1) * session_share) > int(number * session_share) else StatelessClient
        source = f"127.0.{1 + number // 5000}.1"
        made.append(kind(urls[number % len(urls)], source))
    return made


async def connect(clients: Sequence[McpClient], *, resting: bool = False) -> None:
    """Connect all; with ``resting`` each does nothing from then on.

    Raises:
        LoadError: One of them was refused.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def enter(client: McpClient) -> None:
        async with gate:
            await client.connect()
            if resting:
                client.rest()

    try:
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(enter(client))
    except* LoadError as errors:
        words = Counter(str(error) for error in errors.exceptions)
        raise LoadError(f"not every client could connect: {dict(words)}") from None


async def leave(clients: Sequence[McpClient]) -> None:
    """Disconnect all."""
    for begin in range(0, len(clients), AT_ONCE):
        await asyncio.gather(*(client.leave() for client in clients[begin : begin + AT_ONCE]))
