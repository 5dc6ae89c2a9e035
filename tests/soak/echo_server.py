"""An MCP server that answers what it is given, and goes wrong in whatever way a call asks for.

    python -I -S echo_server.py LATE_S

One tool, ``echo``: answers ``text``. Its other arguments: ``fault``, one of :data:`FAULTS`; ``together``: keep the call
until so many are kept, then answer all of them in disorder; ``flood``: send so many notifications first, and leave the
file ``done`` once they are written. LATE_S is when a late answer comes [s].
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
import time
from collections import deque
from typing import Any

READ_BYTES = 1 << 20
BIG = 1_000_000
NOBODYS = 1_000_000_000
"""Added to an id, it makes one that nobody uses."""
NOTES = 200
JUNK = b'INFO: not JSON\n\n{"half":\n[1, 2]\nnull\n'
NOT_TEXT = b"\xff\xfe"
FAULTS = ("silent", "late", "twice", "junk", "not text", "wrong id", "text id", "error", "big", "notes", "exit")
EXIT = 7
encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
TOOL = {"name": "echo", "description": "Answers with the text it is given.", "inputSchema": {"type": "object"}}


def line(key: Any, **members: Any) -> bytes:
    """A message."""
    return encode({"jsonrpc": "2.0", "id": key, **members}).encode() + b"\n"


def answer(key: Any, text: str) -> bytes:
    """A good answer."""
    return line(key, result={"content": [{"type": "text", "text": text}]})


def write(data: bytes) -> None:
    """Write all of ``data``."""
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


class Server:
    """Answers messages, rightly or wrongly, at once or late."""

    def __init__(self, late_s: float) -> None:
        """``late_s`` is how long a late answer takes [s]."""
        self._late_s = late_s
        self._late: deque[tuple[float, bytes]] = deque()
        self._kept: list[bytes] = []

    def serve(self) -> None:
        """Until standard input ends."""
        rest = b""
        while True:
            wait_s = max(0.0, self._late[0][0] - time.monotonic()) if self._late else None
            out = b""
            if select.select([0], [], [], wait_s)[0]:
                data = os.read(0, READ_BYTES)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                out = b"".join([self._received(json.loads(each)) for each in lines])
            while self._late and self._late[0][0] <= time.monotonic():
                out += self._late.popleft()[1]
            write(out)

    def _received(self, message: dict[str, Any]) -> bytes:
        key, method = message.get("id"), message.get("method")
        if key is None or method is None:
            return b""
        params = message.get("params") or {}
        if method == "tools/call":
            return self._call(key, params.get("arguments") or {}, (params.get("_meta") or {}).get("progressToken"))
        if method == "initialize":
            about = {"name": "echo", "version": "1"}
            offers = {"tools": {}}
            version = params["protocolVersion"]
            return line(key, result={"protocolVersion": version, "capabilities": offers, "serverInfo": about})
        if method == "tools/list":
            return line(key, result={"tools": [TOOL]})
        if method == "ping":
            return line(key, result={})
        return line(key, error={"code": -32601, "message": f"Method not found: {method}"})

    def _call(self, key: Any, arguments: dict[str, Any], token: Any) -> bytes:
        text, fault = arguments["text"], arguments.get("fault")
        if fault is not None:
            return self._faulty(key, fault, text, token)
        if "flood" in arguments:
            for number in range(0, arguments["flood"], NOTES):
                write(b"".join(note(token, number + each) for each in range(NOTES)))
            with open(arguments["done"], "w", encoding="utf-8"):  # noqa: PTH123 - pathlib takes longer to import
                return answer(key, text)
        together = arguments.get("together")
        if together is None:
            return answer(key, text)
        self._kept.append(answer(key, f"{text} of {together}"))
        if len(self._kept) < together:
            return b""
        random.shuffle(self._kept)
        out, self._kept = b"".join(self._kept), []
        return out

    def _faulty(self, key: Any, fault: str, text: str, token: Any) -> bytes:
        good = answer(key, text)
        if fault == "exit":
            os.write(2, b"as asked\n")
            os._exit(EXIT)
        if fault == "late":
            self._late.append((time.monotonic() + self._late_s, good))
        out = {
            "twice": good + good,
            "junk": JUNK + good,
            "not text": good.replace(text.encode(), text.encode() + NOT_TEXT),
            "wrong id": answer(key + NOBODYS, text),
            "text id": answer(str(key), text),
            "error": line(key, error={"code": -32050, "message": text}),
            "big": answer(key, text + "x" * BIG),
            "notes": b"".join(note(token, n) for n in range(NOTES)) + good,
        }
        return out.get(fault, b"")


def note(token: Any, number: int) -> bytes:
    """A notification: of progress, or for the log."""
    if number % 2:
        params: dict[str, Any] = {"level": "info", "data": number}
        return encode({"jsonrpc": "2.0", "method": "notifications/message", "params": params}).encode() + b"\n"
    params = {"progressToken": token, "progress": number}
    return encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).encode() + b"\n"


if __name__ == "__main__":
    Server(float(sys.argv[1])).serve()
