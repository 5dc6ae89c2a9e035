"""A server that answers with as many rows as it is asked for, each of some 280 bytes on the wire."""

from __future__ import annotations

import json
import sys

WORDS = "lorem ipsum dolor sit amet " * 8
ROWS = {"name": "rows", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}


def answer(method, params):
    if method == "initialize":
        about = {"name": "rows", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [ROWS]}
    if method == "tools/call":
        rows = [{"id": k, "name": f"name number {k}", "text": WORDS} for k in range(params["arguments"]["n"])]
        return {"content": [{"type": "text", "text": json.dumps(rows)}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
