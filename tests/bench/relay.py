"""The yardstick: the least that a gateway on plain asyncio can do.

    python relay.py FILE

FILE is a client's ``mcpServers`` JSON. All servers are started at once, their tools listed together as
``server__tool``, and calls handed on with another id. It checks, records and restarts nothing. What it costs is what
this way of building a gateway costs; whatever another one takes beyond that, it takes for what it does.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

REVISION = "2025-11-25"
encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Lines(asyncio.Protocol):
    """Cuts a pipe into messages."""

    def __init__(self, on_message: Callable[[dict[str, Any]], None], on_end: Callable[[], None]) -> None:
        self._on_message, self._on_end = on_message, on_end
        self._parts: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        transport.max_size = 1 << 20

    def data_received(self, data: bytes) -> None:
        first, *others = data.split(b"\n")
        self._parts.append(first)
        if others:
            lines = [b"".join(self._parts), *others]
            self._parts = [lines.pop()]
            for line in lines:
                self._on_message(json.loads(line))

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


class Pipe:
    """Where messages are written to."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self.close = transport.close

    @classmethod
    async def open(cls, file: Any) -> Pipe:
        return cls((await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, file))[0])

    def send(self, message: Mapping[str, Any]) -> None:
        self.write(encode(message).encode())

    def write(self, line: bytes) -> None:
        self._transport.write(line + b"\n")


def spawn(entry: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([entry["command"], *entry["args"]], bufsize=0, stdin=pipe, stdout=pipe)


class Server:
    """One of the servers."""

    def __init__(self, client: Pipe) -> None:
        self._client = client
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._relayed: dict[int, Any] = {}
        self._last_id = 0
        self.tools: list[dict[str, Any]] = []

    async def start(self, entry: Mapping[str, Any]) -> None:
        child = spawn(entry)
        self.input = await Pipe.open(child.stdin)
        await asyncio.get_running_loop().connect_read_pipe(lambda: Lines(self._received, self._ended), child.stdout)
        about = {"name": "relay", "version": "1"}
        await self._ask("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": about})
        self.input.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = (await self._ask("tools/list", {}))["result"]["tools"]

    def relay(self, message: dict[str, Any], tool: str) -> None:
        """Hand on a call of the client's."""
        self._last_id += 1
        self._relayed[self._last_id] = message["id"]
        message["id"] = self._last_id
        message["params"]["name"] = tool
        self.input.send(message)

    def _ask(self, method: str, params: Mapping[str, Any]) -> asyncio.Future[dict[str, Any]]:
        self._last_id += 1
        answer = self._asked[self._last_id] = asyncio.get_running_loop().create_future()
        self.input.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return answer

    def _received(self, message: dict[str, Any]) -> None:
        if "method" in message:
            return
        key = message["id"]
        if key in self._relayed:
            message["id"] = self._relayed.pop(key)
            self._client.send(message)
        else:
            self._asked.pop(key).set_result(message)

    def _ended(self) -> None:
        for key in self._relayed.values():
            self._client.send(error(key, -32000, "The server is gone"))
        self._relayed.clear()


def error(key: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, "error": {"code": code, "message": message}}


class Relay:
    """The client's side."""

    def __init__(self, client: Pipe) -> None:
        self._client = client
        self._servers: list[Server] = []
        self._tools: dict[str, tuple[Server, str]] = {}
        self._listing = b""

    async def run(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self._servers = [Server(self._client) for _ in entries]
        await asyncio.gather(*(s.start(e) for s, e in zip(self._servers, entries.values(), strict=True)))
        listed = []
        for name, server in zip(entries, self._servers, strict=True):
            for tool in server.tools:
                exposed = f"{name}__{tool['name']}"
                self._tools[exposed] = (server, tool["name"])
                listed.append({**tool, "name": exposed})
        self._listing = encode({"tools": listed}).encode()
        over = asyncio.Event()
        await asyncio.get_running_loop().connect_read_pipe(lambda: Lines(self._received, over.set), sys.stdin)
        await over.wait()
        for server in self._servers:
            server.input.close()

    def _received(self, message: dict[str, Any]) -> None:
        method, key = message.get("method"), message.get("id")
        if method == "tools/call":
            server, tool = self._tools[message["params"]["name"]]
            server.relay(message, tool)
        elif method == "tools/list":
            self._client.write(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(key).encode(), self._listing))
        elif method == "initialize":
            about = {"name": "relay", "version": "1"}
            result = {"protocolVersion": REVISION, "capabilities": {"tools": {}}, "serverInfo": about}
            self._client.send({"jsonrpc": "2.0", "id": key, "result": result})
        elif key is not None:
            self._client.send(error(key, -32601, f"Method not found: {method}"))


async def main(entries: Mapping[str, Mapping[str, Any]]) -> None:
    await Relay(await Pipe.open(sys.stdout)).run(entries)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - importing pathlib would be felt at start-up
        asyncio.run(main(json.load(file)["mcpServers"]))
