"""An MCP server, in a process of its own, whose tools are agents: no library, newline-delimited JSON-RPC."""

from __future__ import annotations

import json
import sys

TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}}}
    for name in ("think", "hang")
]


def answer(request):
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        about = {"name": "brain", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params["name"] == "think":
        return {"content": [{"type": "text", "text": f"I thought about: {params['arguments']['message']}"}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and (result := answer(request)) is not None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
        sys.stdout.flush()
