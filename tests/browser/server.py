"""A server whose tools read, destroy, take long, and answer with markup."""

from __future__ import annotations

import json
import sys
import threading
import time

HOSTILE = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\"><b>bold</b>"


def tool(name, **annotations):
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": annotations}


TOOLS = [
    tool("read", readOnlyHint=True),
    tool("drop", destructiveHint=True),
    tool("slow", readOnlyHint=True),
    tool("markup", readOnlyHint=True),
]


def answer(method, params):
    if method == "initialize":
        about = {"name": "desk", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        if params["name"] == "slow":
            time.sleep(params["arguments"]["seconds"])
        said = HOSTILE if params["name"] == "markup" else json.dumps(params.get("arguments", {}))
        return {"content": [{"type": "text", "text": said}]}
    return {}


def respond(message):
    result = answer(message["method"], message.get("params", {}))
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


for line in sys.stdin:
    told = json.loads(line)
    if "id" in told:
        threading.Thread(target=respond, args=(told,), daemon=True).start()
