"""A deterministic MCP server that costs so little that what is measured is the gateway in front of it.

    python -I -S server.py NAME COUNT

It lists COUNT tools: four that do something, and as many others as it takes, whose definitions have the size and the
shape of those of real servers. One thread and no import that start-up would feel. ``sleep`` holds up nobody.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from heapq import heappop, heappush

TYPE_CHECKING = False  # typing's own would take as long to import as the rest
if TYPE_CHECKING:
    from typing import Any

READ_BYTES = 1 << 20
FILLING = "The quick brown fox jumps over the lazy dog, 0123456789 times. "
encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

VERBS = ("create", "read", "list", "rename", "remove", "find", "copy", "approve", "lock", "export", "tag")
THINGS = ("page", "order", "build", "mailbox", "table", "meeting", "device", "survey", "ledger", "photo", "route")
OWNERS = ("team", "site", "customer", "region", "cluster")
REMARKS = (
    "Works on one {thing} at a time; give its id, not its title.",
    "Answers with at most fifty entries and a cursor for those that follow.",
    "The caller needs the role of editor in the {owner}; without it the answer is an error that says so.",
    "What is changed can be taken back within thirty days.",
    "Do not use it to look up a {thing} by its title; there is another tool for that.",
    "Counts against the hourly limit of the {owner}.",
)
PROPERTIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("{thing}_id", {"type": "string", "description": "Id of the {thing}, as another tool gave it."}),
    ("{owner}", {"type": "string", "description": "The {owner} it belongs to; your own if left out."}),
    ("count", {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "How many to answer."}),
    ("status", {"type": "string", "enum": ["new", "active", "done"], "description": "Only those with this status."}),
    ("fields", {"type": "array", "items": {"type": "string"}, "description": "Which fields to answer; all if empty."}),
    ("after", {"type": "string", "format": "date", "description": "Only what was changed on this day or later."}),
    (
        "order",
        {
            "type": "object",
            "description": "How to sort.",
            "properties": {"by": {"type": "string", "enum": ["title", "age"]}, "down": {"type": "boolean"}},
            "required": ["by"],
        },
    ),
)


def _tool(name: str, description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "inputSchema": schema}


ACTIVE = (
    _tool("echo", "Answers with the text it is given.", text={"type": "string"}),
    _tool("sleep", "Answers after so many milliseconds.", ms={"type": "integer", "minimum": 0}),
    _tool("blob", "Answers with a text of so many characters.", size={"type": "integer", "minimum": 0}),
    _tool("process", "Answers with the id of the server's process."),
)


def padding(number: int) -> dict[str, Any]:
    """The definition of the tool with this number; the same on every machine."""
    thing, owner = THINGS[number % len(THINGS)], OWNERS[number % len(OWNERS)]
    verb = VERBS[number // len(THINGS) % len(VERBS)]
    said = [REMARKS[(number + step) % len(REMARKS)] for step in range(2 + number % 3)]
    taken = [PROPERTIES[(number * 3 + step) % len(PROPERTIES)] for step in range(3 + number % 4)]

    def fill(text: str) -> str:
        return text.replace("{thing}", thing).replace("{owner}", owner)

    properties = {fill(name): {**schema, "description": fill(schema["description"])} for name, schema in taken}
    definition = _tool(
        f"{verb}_{thing}_{number:03}", fill(" ".join((f"{verb.title()} a {thing}.", *said))), **properties
    )
    definition["inputSchema"]["required"] = list(properties)[: 1 + number % 2]
    return definition


def catalog(count: int) -> list[dict[str, Any]]:
    """The definitions that a server of ``count`` tools lists, in its order."""
    return [*ACTIVE[:count], *(padding(number) for number in range(count - len(ACTIVE)))]


def blob(size: int) -> str:
    """The text that ``blob`` answers with."""
    return (FILLING * (size // len(FILLING) + 1))[:size]


class Server:
    """Answers messages, at once or when their time has come."""

    def __init__(self, name: str, count: int) -> None:
        self._about = {"name": name, "version": "1"}
        self._listing = encode({"tools": catalog(count)}).encode()
        self._sleeping: list[tuple[float, int, bytes]] = []
        self._count = 0

    def serve(self) -> None:
        """Until standard input ends."""
        rest = b""
        while True:
            ready = select.select([0], [], [], self._wait_s())[0]
            out = b""
            if ready:
                data = os.read(0, READ_BYTES)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                out = b"".join([self._answer(json.loads(line)) for line in lines if line])
            self._write(out + self._woken())

    def _wait_s(self) -> float | None:
        return max(0.0, self._sleeping[0][0] - time.monotonic()) if self._sleeping else None

    def _woken(self) -> bytes:
        out = b""
        while self._sleeping and self._sleeping[0][0] <= time.monotonic():
            out += heappop(self._sleeping)[2]
        return out

    @staticmethod
    def _write(data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(1, left) :]

    def _answer(self, message: dict[str, Any]) -> bytes:
        """The line to send now; empty when there is nothing to say, or not yet."""
        if "id" not in message or "method" not in message:
            return b""
        params = message.get("params") or {}
        method = message["method"]
        if method == "tools/call":
            return self._call(message["id"], params["name"], params.get("arguments") or {})
        if method == "tools/list":
            return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (encode(message["id"]).encode(), self._listing)
        if method == "initialize":
            version = params["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": self._about}
            return self._result(message["id"], result)
        if method == "ping":
            return self._result(message["id"], {})
        return self._line(message["id"], error={"code": -32601, "message": f"Method not found: {method}"})

    def _call(self, key: Any, name: str, arguments: dict[str, Any]) -> bytes:
        if name == "echo":
            return self._text(key, arguments["text"])
        if name == "blob":
            return self._text(key, blob(arguments["size"]))
        if name == "process":
            return self._text(key, str(os.getpid()))
        if name == "sleep":
            self._count += 1
            line = self._text(key, f"slept {arguments['ms']}")
            heappush(self._sleeping, (time.monotonic() + arguments["ms"] / 1000, self._count, line))
            return b""
        return self._line(key, error={"code": -32602, "message": f"Unknown tool: {name}"})

    def _text(self, key: Any, text: str) -> bytes:
        return self._result(key, {"content": [{"type": "text", "text": text}]})

    def _result(self, key: Any, result: dict[str, Any]) -> bytes:
        return self._line(key, result=result)

    @staticmethod
    def _line(key: Any, **members: Any) -> bytes:
        return encode({"jsonrpc": "2.0", "id": key, **members}).encode() + b"\n"


if __name__ == "__main__":
    Server(sys.argv[1], int(sys.argv[2])).serve()
