"""An MCP server whose tools leave a trace of every call on the disk. Standard library only.

Each tool takes a ``key`` and appends it, with a line feed, to the file given on the command line; the line is on the
disk when the call is answered. Before and after there is a wait, so that a gateway can be killed at any point of it.
A file named by our process id, in the folder ``<file>.pids``, holds that of our parent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "before_ms": {"type": "integer"}, "after_ms": {"type": "integer"}},
    "required": ["key"],
}
TOOLS = [
    {"name": "once", "description": "Leaves a trace. Not to be repeated.", "inputSchema": SCHEMA},
    {
        "name": "again",
        "description": "Leaves a trace. May be repeated.",
        "inputSchema": SCHEMA,
        "annotations": {"idempotentHint": True},
    },
    {
        "name": "look",
        "description": "Says that it only reads, and leaves a trace so that somebody can check how often.",
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True},
    },
]


class Server:
    """Answers each request in a thread of its own."""

    def __init__(self, traces: Path) -> None:
        self._traces, self._writing = os.open(traces, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644), threading.Lock()

    def serve(self) -> None:
        """Until standard input ends."""
        for line in sys.stdin:
            message = json.loads(line)
            if "id" in message:
                threading.Thread(target=self._answer, args=(message,)).start()

    def _answer(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params", {})
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "initialize":
            answer["result"] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "counting", "version": "1"},
            }
        elif method == "tools/list":
            answer["result"] = {"tools": TOOLS}
        elif method == "tools/call":
            answer["result"] = self._call(params["arguments"])
        elif method == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": f"Method not found: {method}"}
        with self._writing:
            try:
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()
            except BrokenPipeError:  # the gateway was killed meanwhile; the trace stays
                os._exit(0)

    def _call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        time.sleep(arguments.get("before_ms", 0) / 1000)
        os.write(self._traces, f"{arguments['key']}\n".encode())
        os.fsync(self._traces)
        time.sleep(arguments.get("after_ms", 0) / 1000)
        told = {"key": arguments["key"]}
        return {"content": [{"type": "text", "text": json.dumps(told)}], "structuredContent": told}


def main() -> None:
    """Serve."""
    traces = Path(sys.argv[1])
    pid = traces.with_name(f"{traces.name}.pids") / str(os.getpid())
    pid.parent.mkdir(exist_ok=True)
    pid.write_text(str(os.getppid()))
    Server(traces).serve()


if __name__ == "__main__":
    main()
