"""A server of three tools: one that says what it is told, one that fails, and one that notes what it did in a file."""

import json
import sys
import time
from pathlib import Path

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [{"name": name, "inputSchema": TEXT} for name in ("echo", "fail", "note")]


def answer(method, params):
    """The result of a request."""
    if method == "initialize":
        about = {"name": "things", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method != "tools/call":
        return {}
    text = params.get("arguments", {}).get("text", "")
    if params["name"] == "note":
        with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
        time.sleep(0.05)
    return {"content": [{"type": "text", "text": text}], "isError": params["name"] == "fail"}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        result = answer(asked["method"], asked.get("params", {}))
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
        sys.stdout.flush()
