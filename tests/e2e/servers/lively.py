"""An MCP server of the standard library only whose list of tools grows, and that notes what it is told to leave.

``grow`` adds a tool and says so. ``wait`` is never answered; what it is cancelled with goes into the file ``--notes``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "lively", "version": "1"},
}


def send(**message: Any) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=Path, required=True)
    notes = parser.parse_args().notes
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("grow", "wait")]
    waiting = set()
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method == "notifications/cancelled" and params["requestId"] in waiting:
            notes.write_text("a wait was cancelled")
        elif method == "tools/call" and params["name"] == "wait":
            waiting.add(message["id"])
            token = params["_meta"]["progressToken"]
            send(method="notifications/progress", params={"progressToken": token, "progress": 1})
        elif method == "tools/call":
            tools.append({"name": "grown", "inputSchema": {"type": "object"}})
            send(method="notifications/tools/list_changed")
            send(id=message["id"], result={"content": [{"type": "text", "text": "grew"}]})
        elif method == "initialize":
            send(id=message["id"], result=HELLO)
        elif method == "tools/list":
            send(id=message["id"], result={"tools": tools})
        elif "id" in message:
            send(id=message["id"], error={"code": -32601, "message": f"Method not found: {method}"})


if __name__ == "__main__":
    main()
