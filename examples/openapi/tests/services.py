"""HTTP services to try the transport with, each in a thread of its own."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

PETS = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "2.1"},
    "servers": [{"url": "/v1"}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "All pets",
                "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}, "description": "How many"},
                    {"$ref": "#/components/parameters/Trace"},
                ],
            },
            "post": {
                "description": "Adds a pet.",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
            },
        },
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "get pet"},
            "delete": {"operationId": "removePet"},
        },
    },
    "components": {
        "parameters": {"Trace": {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}},
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "owner": {"$ref": "#/components/schemas/Owner"}},
            },
            "Owner": {"type": "object", "properties": {"boss": {"$ref": "#/components/schemas/Owner"}}},
        },
    },
}
SCRIPT = {
    "openapi": "3.1.0",
    "info": {"title": "Script", "version": "1"},
    "paths": {
        f"/{name}": {
            "post": {
                "operationId": name,
                "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
            }
        }
        for name in ("echo", "gather", "stack", "unstack", "hold", "release", "pieces", "big")
    },
}


class Service(BaseHTTPRequestHandler):
    """Serves one of the two documents, and what it tells of."""

    def log_message(self, *_):
        """Nobody reads it."""

    def answer(self, value, status=200, kind="application/json"):
        body = value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if status == 302:
            self.send_header("Location", "/openapi.json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")

    def do_GET(self):
        if self.path == "/openapi.json":
            self.answer(self.server.document)
        elif self.path == "/openapi.yaml":
            self.answer("openapi: 3.1.0\ninfo: {}\n", kind="text/plain")
        else:
            self.pets()

    def do_DELETE(self):
        self.pets()

    def do_POST(self):
        self.script() if self.server.document is SCRIPT else self.pets()

    def pets(self):
        parts = urlsplit(self.path)
        told = {"method": self.command, "path": unquote(parts.path), "raw": parts.path, "query": parts.query}
        told |= {
            "port": self.server.server_port,
            "body": self.body(),
            "trace": self.headers.get("X-Trace"),
            "key": self.headers.get("Authorization"),
        }
        if parts.path.endswith("/nobody"):
            self.answer({"error": "no such pet"}, 404)
        elif parts.path.endswith("/moved"):
            self.answer({}, 302)
        elif parts.path.endswith("/poem"):
            self.answer("Roses are red.", kind="text/plain")
        else:
            self.answer(told)

    def script(self):
        """As :mod:`pml_testing.servers` does; what is held is not answered before something lets go of it."""
        server, params = self.server, self.body()
        with server.changed:
            held = server.held
            if self.path in ("/gather", "/stack", "/hold"):
                held.append(params)
            if self.path == "/unstack" or (self.path == "/stack" and len(held) == params["count"]):
                held.remove(max(held, key=lambda waiting: waiting["n"]))
            elif self.path == "/gather" and len(held) == params["count"]:
                held.clear()
            elif self.path == "/release":
                params = {"released": len(held)}
                held.clear()
            elif self.path == "/big":
                params = {"text": "x" * params["bytes"], "length": len(params["text"])}
            server.changed.notify_all()
            server.changed.wait_for(lambda: not any(waiting is params for waiting in held))
            self.answer({"late": True} if self.path == "/hold" else params)


class Server(ThreadingHTTPServer):
    """Takes many clients at once, and does not mind when they leave."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """They took their request back."""


@contextmanager
def running(document):
    """The address of a service with this document."""
    server = Server(("127.0.0.1", 0), Service)
    server.document, server.held = document, []
    server.changed = threading.Condition()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        with server.changed:
            server.held.clear()
            server.changed.notify_all()
        server.shutdown()
        thread.join()
        server.server_close()
