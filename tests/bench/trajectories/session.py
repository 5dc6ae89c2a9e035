"""Servers and gateways in processes of their own, and what is said to them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.client import BenchError, Connection, encode

from .suite import Suite, Task

PATIENCE_S = 120.0
SERVER = {"PYTHONUTF8": "1", "PYTHONHASHSEED": "0"}
"""Environment of servers: sets of texts have the same order in each."""
SEEN = ("name", "description", "inputSchema")
"""What clients show a model of a tool."""


class Exchange(NamedTuple):
    """One tools/call."""

    request: str
    """What the model writes."""
    text: str
    """What it reads."""
    failed: bool
    seconds: float


class Peer:
    """A server or a gateway, as a client has it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def definitions(self) -> list[str]:
        """Of each listed tool what a model reads."""
        tools, _ = await self._connection.tools()
        return [encode({name: tool[name] for name in SEEN if name in tool}) for tool in tools]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Exchange:
        """Call a tool."""
        began = time.perf_counter()
        async with asyncio.timeout(PATIENCE_S):
            answer = await self._connection.request("tools/call", {"name": name, "arguments": dict(arguments)})
        seconds = answer.at - began
        request = encode({"name": name, "arguments": arguments})
        if "error" in answer.message:
            return Exchange(request, encode(answer.message["error"]), True, seconds)
        result = answer.result()
        text = "\n".join(block.get("text", "") for block in result.get("content", ()))
        return Exchange(request, text, bool(result.get("isError")), seconds)


class States:
    """The states of a suite's servers, by their sockets."""

    def __init__(self, folder: Path, servers: Sequence[str]) -> None:
        self._files = {name: path(folder, name) for name in servers}
        self._streams: dict[str, Any] = {}

    def reset(self, task: Task) -> None:
        """Begin a task anew."""
        starts = task.start or {}
        for name in task.servers:
            self._ask(name, {"reset": starts.get(name)})

    def of(self, task: Task) -> dict[str, Any]:
        """The state of each server that the task has to do with."""
        return {name: self._ask(name, {"state": True}) for name in task.servers}

    def _ask(self, name: str, question: Mapping[str, Any]) -> Any:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = self._connected(self._files[name]).makefile("rwb")
        stream.write(json.dumps(question).encode() + b"\n")
        stream.flush()
        return json.loads(stream.readline())

    def _connected(self, file: Path) -> socket.socket:
        until = time.monotonic() + PATIENCE_S
        while True:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                one.connect(str(file))
            except OSError:
                one.close()
                if time.monotonic() > until:
                    raise BenchError(f"the server of {file.stem} has not started") from None
                time.sleep(0.05)
            else:
                return one


def path(folder: Path, name: str) -> Path:
    """Of a server's socket."""
    return folder / f"{name}.sock"


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    return {**kept, **SERVER, "PML_HOME": str(folder / "home")}


async def _started(stack: AsyncExitStack, command: Sequence[str], folder: Path) -> Peer:
    connection = Connection(command, folder, _environment(folder))
    stack.push_async_callback(connection.close)
    await connection.start()
    return Peer(connection)


@asynccontextmanager
async def direct(suite: Suite):
    """The suite's servers, each with a client of its own: peers by name, and their states."""
    with tempfile.TemporaryDirectory(prefix="pml-tr-") as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            peers = {}
            for server, command in suite.servers.items():
                peers[server] = await _started(stack, [*command, "--control", str(path(folder, server))], folder)
            yield peers, States(folder, list(suite.servers))


@asynccontextmanager
async def crowd(command: Sequence[str]):
    """The tools of others, by themselves."""
    with tempfile.TemporaryDirectory(prefix="pml-tr-") as name:
        async with AsyncExitStack() as stack:
            yield await _started(stack, command, Path(name))


@asynccontextmanager
async def gateway(suite: Suite, others: Sequence[str] | None, more: str = ""):
    """PML in front of the suite's servers, and of the tools of others if there is a command: a peer, and the states.

    Args:
        more: Added to its configuration.
    """
    with tempfile.TemporaryDirectory(prefix="pml-tr-") as name:
        folder = Path(name)
        servers = {key: [*command, "--control", str(path(folder, key))] for key, command in suite.servers.items()}
        if others is not None:
            servers["others"] = list(others)
        lines = ["[gateway]", 'tools_exposure = "meta_only"', more]
        for key, (program, *words) in servers.items():
            lines += [f"[servers.{key}]", f"command = {json.dumps(program)}", f"args = {json.dumps(words)}"]
            lines.append(f"env = {{{', '.join(f'{name} = {json.dumps(value)}' for name, value in SERVER.items())}}}")
        config = folder / "pml.toml"
        config.write_text("\n".join(lines) + "\n", "utf-8")
        async with AsyncExitStack() as stack:
            peer = await _started(stack, [sys.executable, "-m", "pml_core", "serve", "--config", str(config)], folder)
            await _all_up(peer, len(servers))
            yield peer, States(folder, list(suite.servers))


async def _all_up(peer: Peer, servers: int) -> None:
    """Wait until every server's tools are known: names that are none find out."""
    until = time.monotonic() + PATIENCE_S
    while True:
        found = json.loads((await peer.call("search_tools", {"query": "tool", "limit": 1})).text)
        if not found.get("unavailable") and found["total_tools"]:
            return
        if time.monotonic() > until:
            raise BenchError(f"not all of {servers} servers have started: {found.get('unavailable')}")
        await asyncio.sleep(0.1)
