"""A server that tells its secret wherever it can say something; on standard input and output, or over HTTP.

Over HTTP the secret is what comes in the header ``Authorization``, else the variable ``SECRET``. With ``--http FILE``
it writes its address there.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SCHEMA = {"type": "object", "properties": {"mine": {"type": "string"}}}


def described(secret, params):
    """What the server says of itself and what it has, by method."""
    about = {"name": "teller", "version": secret, "title": f"Teller {secret}"}
    can = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
    named = {"type": "object", "properties": {"x": {"type": "string", "description": secret}}}
    names = ("tell", "fail", "refuse", "junk", "die")
    tools = [{"name": n, "description": f"Does {n} with {secret}.", "inputSchema": SCHEMA} for n in names]
    text = {"type": "text", "text": f"Use {secret}"}
    return {
        "initialize": {
            "protocolVersion": params.get("protocolVersion"), "capabilities": can, "serverInfo": about,
            "instructions": f"Say {secret}.",
        },
        "tools/list": {"tools": [*tools, {"name": "other", "title": secret, "inputSchema": named}]},
        "resources/list": {"resources": [{"uri": "mem://one", "name": "one", "description": secret}]},
        "resources/templates/list": {"resourceTemplates": []},
        "resources/read": {"contents": [{"uri": params.get("uri"), "text": f"It is {secret}"}]},
        "prompts/list": {"prompts": [{"name": "ask", "description": secret}]},
        "prompts/get": {"messages": [{"role": "user", "content": text}]},
    }  # fmt: skip


def answer(message, secret, say):
    """What to answer to a request; ``say`` takes notifications that come before."""
    method, params = message["method"], message.get("params") or {}
    if method == "tools/call":
        return called(params, secret, say)
    return {"result": described(secret, params).get(method, {})}


def called(params, secret, say):
    """What a call of a tool comes to."""
    token = (params.get("_meta") or {}).get("progressToken")
    if token is not None:
        say("notifications/progress", {"progressToken": token, "progress": 1, "message": f"at {secret}"})
    say("notifications/message", {"level": "error", "logger": secret, "data": {secret: [f"it is {secret}"]}})
    name = params["name"]
    if name == "fail":
        return {"error": {"code": -32042, "message": f"no way in with {secret}", "data": {"token": secret}}}
    if name == "refuse":
        return {"result": {"content": [{"type": "text", "text": f"no: {secret}"}], "isError": True}}
    given = params.get("arguments") or {}
    text = json.dumps({"secret": secret, **given})
    return {"result": {"content": [{"type": "text", "text": text}], "structuredContent": {"of": {secret: [secret]}}}}


def serve_stdio():
    secret = os.environ["SECRET"]
    print("starting with", secret, file=sys.stderr, flush=True)

    def write(message):
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        name = (message.get("params") or {}).get("name")
        if name == "junk":
            print(f"no JSON but {secret}", flush=True)
        if name == "die":
            print(f"Traceback of {secret}", file=sys.stderr, flush=True)
            sys.exit(3)
        told = answer(message, secret, lambda method, params: write({"method": method, "params": params}))
        write({"id": message["id"], **told})


class Handler(BaseHTTPRequestHandler):
    """MCP over HTTP with a session that nobody looks at."""

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        secret = self.headers["Authorization"].removeprefix("Bearer ")
        if "id" not in message:
            self.send_response(202)
            self.end_headers()
            return
        if (message.get("params") or {}).get("name") == "die":
            self.respond(500, "text/plain", f"Traceback of {secret}".encode())
            return
        events = []
        told = answer(message, secret, lambda method, params: events.append({"method": method, "params": params}))
        events.append({"id": message["id"], **told})
        lines = "".join(f"data: {json.dumps({'jsonrpc': '2.0', **one})}\n\n" for one in events)
        self.respond(200, "text/event-stream", lines.encode())

    def do_GET(self):
        self.send_response(405)
        self.end_headers()

    def respond(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        pass


if __name__ == "__main__":
    if sys.argv[1:2] == ["--http"]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Path(sys.argv[2]).write_text(f"http://127.0.0.1:{server.server_address[1]}/mcp")
        server.serve_forever()
    serve_stdio()
