"""An MCP server of the standard library only, good or bad as the test wants it.

Writes its process id into the folder ``--pids``, and what ``write_note`` is given into the file ``--notes``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "echo", "description": "Answer with the text that was given.", "inputSchema": TEXT},
    {"name": "write_note", "description": "Add a line of text to the notebook.", "inputSchema": TEXT},
    {"name": "fail", "description": "Fail, always.", "inputSchema": {"type": "object"}},
]
NUMBER, SUM = {"type": "integer"}, {"total": {"type": "integer"}, "parts": {"type": "array"}}
ADD = {
    "name": "add",
    "description": "Add two whole numbers.",
    "inputSchema": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
    "outputSchema": {"type": "object", "properties": SUM, "required": list(SUM)},
}
BAD_TOOLS = {
    "empty-schema": [{"name": "shapeless", "description": "Has an empty schema.", "inputSchema": {}}],
    "duplicate": [{"name": "echo", "description": "Has a name that is taken.", "inputSchema": TEXT}],
    "nameless": [{"description": "Has no name.", "inputSchema": TEXT}],
}
JUNK = 'starting up, please wait\n\n{not json}\n[1, 2]\n"text"\n'


def main() -> None:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bad", choices=["exit", "junk", "only-junk", "stubborn", *BAD_TOOLS])
    parser.add_argument("--add", action="store_true", help="have the tool add, and no other")
    parser.add_argument("--pids", type=Path)
    parser.add_argument("--notes", type=Path, default=Path(os.devnull))
    parser.add_argument("--delay", type=float, default=0.0, help="how long each call takes [s]")
    given = parser.parse_args()
    if given.pids:
        (given.pids / str(os.getpid())).touch()
    if given.bad == "exit":
        sys.exit("cannot open the database: no such file")
    if given.bad == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if given.bad in ("junk", "only-junk"):
        sys.stdout.write(JUNK)
        sys.stdout.flush()
    if given.bad == "only-junk":
        sys.stdin.read()
        return
    tools = [ADD] if given.add else TOOLS + BAD_TOOLS.get(given.bad, [])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        time.sleep(given.delay if message["method"] == "tools/call" else 0)
        answer = {"jsonrpc": "2.0", "id": message["id"], **respond(message, tools, given.notes)}
        sys.stdout.write(json.dumps(answer) + "\n")
        if given.bad == "junk":
            sys.stdout.write(JUNK)
        sys.stdout.flush()
    while given.bad == "stubborn":
        time.sleep(1)


def respond(message: dict, tools: list, notes: Path) -> dict:
    """The result or the error for one request."""
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        about = {"name": "plain", "version": "1"}
        return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}}
    if method == "tools/list":
        return {"result": {"tools": tools}}
    if method == "tools/call":
        return {"result": call(params["name"], params.get("arguments", {}), notes)}
    return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


def call(name: str, arguments: dict, notes: Path) -> dict:
    """A ``CallToolResult``."""
    if name == "fail":
        return {"content": [{"type": "text", "text": "it always fails"}], "isError": True}
    if name == "add":
        parts = [arguments["a"], arguments["b"]]
        added = {"total": sum(parts), "parts": parts}
        return {"content": [{"type": "text", "text": json.dumps(added)}], "structuredContent": added}
    if name == "write_note":
        with notes.open("a", encoding="utf-8") as file:
            file.write(arguments["text"] + "\n")
    return {"content": [{"type": "text", "text": str(arguments.get("text"))}]}


if __name__ == "__main__":
    main()
