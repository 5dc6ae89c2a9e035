"""An MCP server with a notebook, in a process of its own: ``python notes_server.py FILE``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "add", "inputSchema": TEXT, "annotations": {"destructiveHint": True}},
    {"name": "remove", "inputSchema": TEXT, "annotations": {"destructiveHint": True}},
    {"name": "lines", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "fail", "inputSchema": {"type": "object"}},
    {"name": "hold", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]


def call(notes: Path, name: str, arguments: dict) -> dict:
    """A ``CallToolResult``."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    if name == "fail":
        return {"content": [{"type": "text", "text": "it broke"}], "isError": True}
    if name == "hold":
        notes.with_suffix(".held").touch()
    while name == "hold" and not notes.with_suffix(".go").exists():
        time.sleep(0.01)
    if name == "add":
        lines.append(arguments["text"])
    if name == "remove":
        lines.remove(arguments["text"])
    notes.write_text("".join(f"{line}\n" for line in lines))
    return {"content": [], "structuredContent": {"lines": lines, "last": lines[-1] if lines else None}}


def main() -> None:
    """Answer requests until the input ends."""
    notes = Path(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            about = {"name": "notes", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
        elif method == "tools/list":
            result = {"tools": TOOLS}
        else:
            result = call(notes, params["name"], params.get("arguments", {}))
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
