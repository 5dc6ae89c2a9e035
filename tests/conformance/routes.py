"""The ways from the scenarios to the reference server: straight, and through a gateway with it behind stdio or HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

REFERENCE = [sys.executable, str(Path(__file__).with_name("reference"))]
PML = str(Path(sys.executable).with_name("pml"))
SERVER = "reference"
START_S, STOP_S = 60.0, 10.0
DIRECT = "direct"
THROUGH = {"stdio": "through PML, stdio behind", "http": "through PML, HTTP behind"}
"""The routes through the gateway, with their titles."""
ROUTES = (DIRECT, *THROUGH)
_choosing, _given = threading.Lock(), set[int]()


class BrokenRouteError(Exception):
    """A process did not start, or ended too early. The message has the end of what it logged."""


def free_port() -> int:
    """A port of the loopback interface that nobody listens on; never the same one twice."""
    with _choosing:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            if port not in _given:
                _given.add(port)
                return port


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) or "(it logged nothing)"


@contextmanager
def _running(command: Sequence[str], port: int, folder: Path, name: str) -> Iterator[str]:
    """A process that serves MCP over HTTP, as long as the block; gives its URL."""
    log = folder / f"{name}.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    environment = {**inherited, "PML_HOME": str(folder / "home")}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder, env=environment
        )
    try:
        deadline = time.monotonic() + START_S
        while not _listens(port):
            if process.poll() is not None:
                raise BrokenRouteError(f"{name} ended with code {process.returncode}:\n{_tail(log)}")
            if time.monotonic() > deadline:
                raise BrokenRouteError(f"{name} does not listen on port {port} after {START_S:g} s:\n{_tail(log)}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _reference(folder: Path) -> Iterator[str]:
    port = free_port()
    with _running([*REFERENCE, "http", str(port)], port, folder, "reference") as url:
        yield url


@contextmanager
def _gateway(server: Mapping[str, object], folder: Path) -> Iterator[str]:
    config, port = folder / "pml.toml", free_port()
    # Strings and lists of them are written in TOML as in JSON.
    lines = [f"{key} = {json.dumps(value)}" for key, value in server.items()]
    config.write_text("\n".join([f"[servers.{SERVER}]", *lines, ""]), encoding="utf-8")
    command = [PML, "serve", "--config", str(config), "--mode", "full_proxy", "--http", f"127.0.0.1:{port}"]
    with _running(command, port, folder, "pml") as url:
        yield url


@contextmanager
def opened(route: str, folder: Path) -> Iterator[str]:
    """Everything that a route takes, as long as the block; gives the URL to send the scenarios to.

    Args:
        route: One of :data:`ROUTES`.
        folder: Where configuration, logs and the gateway's home go.

    Raises:
        BrokenRouteError: A process of it did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if route == DIRECT:
        with _reference(folder) as url:
            yield url
    elif route == "stdio":
        # A server that several clients share is told of none what it can do, so that it asks nobody anything. The
        # scenarios look for tools by the names that the server gives them.
        server = {"command": REFERENCE[0], "args": [*REFERENCE[1:], "stdio"], "sharing": "per_client", "prefix": ""}
        with _gateway(server, folder) as url:
            yield url
    else:
        with _reference(folder) as behind, _gateway({"url": behind, "prefix": ""}, folder) as url:
            yield url
