"""Several gateways on one PostgreSQL, behind HAProxy that sends each request to the next of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"
ASKING = Path(__file__).with_name("asking_server.py")
MODERN = "2026-07-28"
PATIENCE_S, POLL_S = 120.0, 0.05
CONFIG = """
[gateway]
tools_exposure = "full_proxy"
store = "postgres"
{gateway}

[plugins.postgres]
url = "{url}"

[plugins.http]
allowed_hosts = ["127.0.0.1:*"]

[servers.bank]
command = {python}
args = {arguments}
{more}
"""
BALANCER = """
global
    maxconn 1000
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    option redispatch
    retries 3
frontend clients
    bind 127.0.0.1:{port}
    default_backend gateways
backend gateways
    balance roundrobin
    option httpchk GET /healthz
    http-check send hdr Host 127.0.0.1
    default-server inter 200ms fall 1 rise 1
{servers}
"""


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class GatewayProcess:
    """``pml serve --http`` on a machine of its own, as far as its folders go."""

    def __init__(self, folder: Path, name: str, config: str) -> None:
        self.name, self.home, self.port = name, folder / name, free_port()
        self.config, self.log = folder / f"{name}.toml", folder / f"{name}.log"
        self.config.write_text(config)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def begin(self) -> None:
        """Start it; it is not ready yet."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PML_")}
        command = [sys.executable, "-m", "pml_core", "serve", "--config", str(self.config)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--http", f"127.0.0.1:{self.port}"],
                stderr=log,
                cwd=self.home.parent,
                env={**kept, "PML_HOME": str(self.home)},
            )

    def wait(self) -> None:
        """Wait until it serves."""
        until_s = time.monotonic() + PATIENCE_S
        while "serving MCP at " not in self.log.read_text():
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until_s, self.log.read_text()
            time.sleep(POLL_S)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal, and wait for its end."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE_S)
            self.process = None


class Fleet:
    """Gateways, the balancer in front of them, and what their servers were told to pay."""

    def __init__(self, folder: Path, database: str, many: int, *, gateway: str = "", more: str = "") -> None:
        self.database = database
        self.folder, self.paid, self.port = folder, folder / "paid.txt", free_port()
        said = {
            "url": database,
            "python": json.dumps(sys.executable),
            "arguments": json.dumps([str(ASKING), str(self.paid)]),
            "gateway": gateway,
            "more": more.replace("FOLDER", str(folder)),
        }
        self.gateways = [GatewayProcess(folder, f"g{number}", CONFIG.format(**said)) for number in range(many)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def payments(self) -> list[str]:
        """To whom was paid, in order."""
        return self.paid.read_text().split() if self.paid.exists() else []

    def logs(self) -> str:
        """What all say."""
        return "\n".join(one.log.read_text() for one in self.gateways)

    @contextmanager
    def running(self) -> Iterator[Fleet]:
        """Run all as long as the block lasts."""
        servers = "".join(f"    server {one.name} 127.0.0.1:{one.port} check\n" for one in self.gateways)
        config = self.folder / "haproxy.cfg"
        config.write_text(BALANCER.format(port=self.port, servers=servers))
        balancer = None
        try:
            self.gateways[0].begin()  # makes the tables
            self.gateways[0].wait()
            for one in self.gateways[1:]:
                one.begin()
            for one in self.gateways:
                one.wait()
            balancer = subprocess.Popen([HAPROXY, "-f", str(config), "-db", "-q"], cwd=self.folder)
            self._reached()
            yield self
        finally:
            if balancer is not None:
                balancer.terminate()
                balancer.wait()
            for one in self.gateways:
                if one.process is not None:
                    one.process.send_signal(signal.SIGCONT)
                    one.process.terminate()
            for one in self.gateways:
                if one.process is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        one.process.wait(30)
                    one.process.kill()
                    one.process.wait()

    def _reached(self) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(httpx2.TransportError):
                if httpx2.get(f"http://127.0.0.1:{self.port}/healthz").status_code == 200:
                    return
            assert time.monotonic() < until_s, "the balancer reaches nobody"
            time.sleep(POLL_S)

    @asynccontextmanager
    async def client(self, mode: str = "legacy", **options: Any) -> AsyncIterator[Client]:
        """The official SDK's client, at the balancer."""
        given: Any = {"mode": mode, "read_timeout_seconds": PATIENCE_S, **options}
        async with (
            httpx2.AsyncClient(timeout=PATIENCE_S) as http,
            Client(streamable_http_client(self.url, http_client=http), **given) as client,
        ):
            yield client


async def request(
    url: str, method: str, params: Mapping[str, Any], key: str = "", headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What a request of the stateless revision is answered."""
    about = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    said = {
        **accepting(key),
        "mcp-protocol-version": MODERN,
        "mcp-method": method,
        **({"mcp-name": params["name"]} if "name" in params else {}),
        **(headers or {}),
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": about}}
    async with httpx2.AsyncClient(timeout=PATIENCE_S) as http:
        answer = await http.post(url, json=message, headers=said)
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if re.match(r"(data: )?\{", line)]
    read: dict[str, Any] = json.loads(lines[-1])
    return read


async def call(url: str, tool: str, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """As :func:`request`, of a tool."""
    return await request(url, "tools/call", {"name": tool, "arguments": arguments, **more})


async def executions(url: str) -> list[dict[str, Any]]:
    """A page of them, the last ones first; nothing while nobody is there."""
    with contextlib.suppress(httpx2.TransportError):
        told = await call(url, "list_recent_executions", {"limit": 100})
        found: list[dict[str, Any]] = told["result"]["structuredContent"]["executions"]
        return found
    return []


def yes(asked: Mapping[str, Any], **content: Any) -> dict[str, Any]:
    """What a client comes back with to whom everything was asked that ``asked`` says."""
    answer = {"action": "accept", "content": content}
    return {"requestState": asked["requestState"], "inputResponses": dict.fromkeys(asked["inputRequests"], answer)}


async def until(holds: Any, what: str) -> None:
    """Wait until ``holds()`` is true."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():  # noqa: ASYNC110 - it comes from another process
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise AssertionError(f"never: {what}") from None


async def initialize(url: str, key: str) -> str:
    """Begin a session; its id."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    async with httpx2.AsyncClient(timeout=PATIENCE_S) as http:
        answer = await http.post(url, json=message, headers=accepting(key))
    return str(answer.headers["mcp-session-id"])


async def request_in_session(url: str, session: str, key: str) -> int:
    """The status of what a request is answered."""
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    async with httpx2.AsyncClient(timeout=PATIENCE_S) as http:
        answer = await http.post(url, json=message, headers={**accepting(key), "mcp-session-id": session})
    return int(answer.status_code)


def accepting(key: str) -> dict[str, str]:
    """Headers of a request; without a key of nobody in particular."""
    headers = {"accept": "application/json, text/event-stream"}
    return {**headers, "authorization": f"Bearer {key}"} if key else headers
