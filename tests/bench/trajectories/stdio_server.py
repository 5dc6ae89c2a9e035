"""An MCP server on stdio for the tools of a benchmark, and a socket beside it by which its state is set and read.

The socket is no tool: nothing of the benchmark's bookkeeping is listed, found by a search or counted.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

REVISION = "2025-11-25"
METHOD_NOT_FOUND = -32601


class ToolError(Exception):
    """The tool refuses; its message is what the model reads."""


class World(Protocol):
    """Tools, and what they work on."""

    def definitions(self) -> Sequence[Mapping[str, Any]]: ...

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What the tool answers.

        Raises:
            ToolError: It refuses, or there is none.
        """

    def reset(self, to: Any) -> None:
        """Begin anew, as the benchmark's task says; None for the state that all tasks share."""

    def state(self) -> Any:
        """All that calls can change, as JSON."""


def definition(name: str, description: str, properties: Mapping[str, Any], *, reads: bool, required=None):
    """A tool's, in which everything is required unless said."""
    schema = {"type": "object", "properties": dict(properties), "required": list(required or properties)}
    if required is not None:
        schema["required"] = list(required)
    told = {"name": name, "description": description, "inputSchema": schema}
    return told | ({"annotations": {"readOnlyHint": True}} if reads else {})


class Server:
    """Answers clients on stdio, and the benchmark on a socket, one at a time."""

    def __init__(self, name: str, world: World) -> None:
        self._name, self._world, self._lock = name, world, threading.Lock()

    def serve(self, control: str | None) -> None:
        """Until the input ends."""
        if control:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(control)
            listener.listen()
            threading.Thread(target=self._control, args=(listener,), daemon=True).start()
        for line in sys.stdin:
            message = json.loads(line)
            if "id" in message and "method" in message:
                sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **self._answer(message)}) + "\n")
                sys.stdout.flush()

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        method, params = message["method"], message.get("params") or {}
        if method == "initialize":
            about = {"name": self._name, "version": "1"}
            wanted = params.get("protocolVersion", REVISION)
            return {"result": {"protocolVersion": wanted, "capabilities": {"tools": {}}, "serverInfo": about}}
        if method == "tools/list":
            return {"result": {"tools": list(self._world.definitions())}}
        if method == "tools/call":
            return {"result": self._call(params)}
        if method == "ping":
            return {"result": {}}
        return {"error": {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}}

    def _call(self, params: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            try:
                text, failed = self._world.call(params["name"], params.get("arguments") or {}), False
            except ToolError as exc:
                text, failed = f"Error: {exc}", True
        return {"content": [{"type": "text", "text": text}], "isError": failed}

    def _control(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream:
                for line in stream:
                    asked = json.loads(line)
                    with self._lock:
                        if "reset" in asked:
                            self._world.reset(asked["reset"])
                        answer = self._world.state() if asked.get("state") else True
                    stream.write(json.dumps(answer, sort_keys=True, default=str).encode() + b"\n")
                    stream.flush()


def arguments(**more: str) -> argparse.Namespace:
    """What a server's command line says: the socket, and ``more`` words with their help."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", help="path of the socket to listen on")
    for name, help_ in more.items():
        parser.add_argument(f"--{name}", help=help_)
    return parser.parse_args()
