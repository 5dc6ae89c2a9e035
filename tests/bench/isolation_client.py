"""A client over HTTP that costs so little that what it measures is the gateway.

    python -I -S isolation_client.py PORT TOOL

Calls the tool again and again after a line on standard input, until the next, and then says on standard output how long
each call took: a list of milliseconds, in JSON.
"""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
from http.client import HTTPResponse

TYPE_CHECKING = False  # typing's own would take as long to import as the rest
if TYPE_CHECKING:
    from typing import Any

REVISION = "2025-11-25"
PAUSE_S = 0.002
"""Between two calls, at most [s]."""
ANSWER_S = 60.0


class HttpClient:
    """One session on one connection."""

    def __init__(self, port: int) -> None:
        """Connect and shake hands."""
        self._port = port
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._session = ""
        self._id = 0
        about = {"name": "isolation-benchmark", "version": "1"}
        self.request("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": about})
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer, result or error."""
        self._id += 1
        return self._send({"id": self._id, "method": method, "params": params})

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; the answer."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def _send(self, message: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode("utf-8", "surrogatepass")
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\n{self._session}Content-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        response = HTTPResponse(self._socket, method="POST")
        response.begin()
        said = response.read()
        if (session := response.getheader("Mcp-Session-Id")) is not None:
            self._session = f"Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {REVISION}\r\n"
        if response.getheader("Content-Type", "").startswith("text/event-stream"):
            said = [line[5:] for line in said.splitlines() if line.startswith(b"data:")][-1]
        return json.loads(said) if said else {}


def main() -> None:
    """Serve standard input."""
    client, tool = HttpClient(int(sys.argv[1])), sys.argv[2]
    while sys.stdin.readline():
        taken_ms = []
        while not select.select([0], [], [], random.uniform(0, PAUSE_S))[0]:
            began = time.perf_counter()
            answer = client.call(tool, {"text": "hello"})
            taken_ms.append((time.perf_counter() - began) * 1000)
            if answer["result"]["content"][0]["text"] != "hello":
                raise SystemExit(f"not what was asked for: {answer}")
        sys.stdin.readline()
        print(json.dumps(taken_ms), flush=True)


if __name__ == "__main__":
    main()
