"""A gateway that serves over HTTP in a process of its own, and those who come to it, with a key or bare sockets."""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2
from listening import ABOUT, LEGACY, META, MODERN, USUAL

SERVING = "serving MCP at "
START_S, PATIENCE_S, POLL_S = 120.0, 120.0, 0.05
TOKENS = {"alice": "alices-token", "mallory": "mallorys-token"}


class ServeProcess:
    """The process, its log and its memory."""

    def __init__(self, folder, *, files=None, tokens=TOKENS, **settings):
        settings = {"allowed_hosts": ["localhost:*"], **settings}
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        lines += ["[plugins.http.tokens]", *(f'{name} = "{token}"' for name, token in tokens.items())]
        (folder / "http.toml").write_text("[plugins.http]\n" + "\n".join(lines))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        self._environment = {**kept, "PML_HOME": str(folder / "home")}
        self._folder, self._files, self._log = folder, files, folder / "gateway.log"

    @contextmanager
    def running(self):
        """Serve while entered."""
        command = [sys.executable, "-m", "pml_core", "serve", "--http", "127.0.0.1:0", "--config", "http.toml"]
        limit = None
        if self._files is not None:
            limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self._files, self._files))  # noqa: E731
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stderr=log,
                preexec_fn=limit,  # noqa: PLW1509 - no threads here
            )  # fmt: skip
        try:
            until(lambda: SERVING in self.said() or self.process.poll() is not None)
            address = self.said().partition(SERVING)[2].split()[0].removesuffix("/mcp")
            self.url, self.port = address, int(address.rpartition(":")[2])
            yield self
            assert self.process.poll() is None, self.said()
        finally:
            self.process.terminate()
            self.process.wait(PATIENCE_S)

    def said(self):
        return self._log.read_text()

    def memory_bytes(self):
        """What the process holds."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def caller(self, name="alice"):
        return Caller(self.url, TOKENS[name])

    def socket(self, *pieces):
        """A connection on which something was sent."""
        connected = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        for piece in pieces:
            connected.sendall(piece)
        return connected


class Caller:
    """One with a key. Each request has a connection of its own."""

    def __init__(self, url, token):
        self._headers = {**USUAL, "authorization": f"Bearer {token}", "connection": "close"}
        self.http = httpx2.Client(base_url=url, timeout=PATIENCE_S, headers=self._headers)

    def post(self, method, params=None, **headers):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return self.http.post("/mcp", json=message, headers=headers)

    def lists(self):
        """Whether it is served."""
        headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
        response = self.post("tools/list", {"_meta": META}, **headers)
        return response.status_code == 200 and "tools" in response.json()["result"]

    def is_served(self):
        """The same, of a gateway that may refuse the connection."""
        try:
            return self.lists()
        except httpx2.HTTPError:
            return False

    def begin(self):
        """Begin a session; the headers of its messages."""
        response = self.post("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": ABOUT})
        assert response.status_code == 200, response.text
        return {"mcp-session-id": response.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}

    def ping(self, session):
        """Status of a request in a session."""
        return self.post("ping", **session).status_code


def head(*lines, method=b"POST", target=b"/mcp"):
    """The head of a request, its last line still to come."""
    return b"\r\n".join((b"%b %b HTTP/1.1" % (method, target), b"host: localhost:1", *lines, b""))


def answer(connected):
    """What a connection brings until it is closed; empty when it was cut off."""
    pieces = []
    try:
        while piece := connected.recv(65536):
            pieces.append(piece)
    except ConnectionError:
        pass
    return b"".join(pieces)


def status(connected):
    """Status of the only answer on a connection, None where it was closed without one."""
    said = answer(connected)
    return int(said.split()[1]) if said else None


def is_open(connected):
    """Whether the other end keeps a connection; what it said there is passed over."""
    try:
        while select.select([connected], [], [], 0)[0]:
            if not connected.recv(65536):
                return False
    except ConnectionError:
        return False
    return True


def poured(connected, piece, most):
    """Send a piece over and over; how many bytes went off until the other end had enough."""
    sent = 0
    try:
        while sent < most:
            connected.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


def until(condition, limit_s=PATIENCE_S, pause_s=POLL_S):
    """Wait for something that nothing tells of."""
    until_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(pause_s)
