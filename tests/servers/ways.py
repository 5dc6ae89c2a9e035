"""The ways to a server: directly, and through a gateway in each manner that it has."""

# ruff: noqa: ASYNC220, ASYNC240 - nothing else runs in the loop while a gateway starts
from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from calls import agreed
from jail import WORK
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import FileUrl

PML = str(Path(sys.executable).with_name("pml"))
DIRECT = "direct"
TITLES: Mapping[str, str] = {
    "stdio": "full_proxy, stdio",
    "http": "full_proxy, HTTP",
    "all": "full_proxy, all servers behind one gateway",
    "call_tool": "meta_only, call_tool",
}
"""The ways through the gateway, with their titles."""
START_S, STOP_S = 180.0, 20.0


class BrokenWayError(Exception):
    """A way did not come about. The message says why."""


@dataclass(frozen=True)
class Connection:
    """A client's session on some way, initialized."""

    session: ClientSession
    initialized: Mapping[str, Any]


async def _sampling(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text=f"an answer to {len(params.messages)}")
    return types.CreateMessageResult(role="assistant", content=said, model="none", stop_reason="endTurn")


async def _elicitation(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Agrees: what the gateway asks before something is destroyed is to go on."""
    schema = getattr(params, "requested_schema", None) or {}
    return types.ElicitResult(action="accept", content=agreed(schema))


async def _roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri=FileUrl(f"file://{WORK}"), name="work")])


@asynccontextmanager
async def _session(streams: Any) -> AsyncIterator[Connection]:
    async with ClientSession(
        streams[0], streams[1], sampling_callback=_sampling, elicitation_callback=_elicitation,
        list_roots_callback=_roots, client_info=types.Implementation(name="comparison", version="1.0"),
    ) as session:  # fmt: skip
        with anyio.fail_after(START_S):
            found = await session.initialize()
        yield Connection(session, found.model_dump(mode="json", by_alias=True, exclude_none=True))


@asynccontextmanager
async def _program(
    command: Sequence[str], env: Mapping[str, str], folder: Path, name: str
) -> AsyncIterator[Connection]:
    """A session with a program on stdio; what it says on stderr goes to a log in the folder."""
    with (folder / f"{name}.log").open("a", encoding="utf-8") as log:
        parameters = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(env), cwd=folder)
        async with stdio_client(parameters, log) as streams, _session(streams) as connection:
            yield connection


@asynccontextmanager
async def direct(command: Sequence[str], folder: Path) -> AsyncIterator[Connection]:
    """The client starts the server itself."""
    folder.mkdir(parents=True, exist_ok=True)
    async with _program(command, {}, folder, "server") as connection:
        yield connection


def patience_s(servers: Mapping[str, Sequence[str]]) -> float:
    """Longest until all servers behind a gateway are up [s]: they share the processors."""
    return START_S * (1 + len(servers) // 8)


def _configured(servers: Mapping[str, Sequence[str]], folder: Path, mode: str) -> Path:
    lines = ["[gateway]", f'tools_exposure = "{mode}"']
    lines += [f"start_timeout_s = {patience_s(servers)}", f"list_wait_s = {patience_s(servers)}"]
    for name, command in servers.items():
        # Strings and lists of them are written in TOML as in JSON.
        lines += ["", f"[servers.{name}]", f"command = {json.dumps(command[0])}"]
        lines += ['sharing = "per_client"', f"args = {json.dumps(list(command[1:]), ensure_ascii=False)}"]
    path = folder / "config.toml"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    return {**kept, "PML_HOME": str(folder / "home")}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _listens(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
        except OSError:
            await anyio.sleep(0.05)
        else:
            return
    raise BrokenWayError(f"the gateway does not listen: {log.read_text(encoding='utf-8', errors='replace')[-500:]}")


@asynccontextmanager
async def _over_http(servers: Mapping[str, Sequence[str]], folder: Path) -> AsyncIterator[Connection]:
    port, log = _free_port(), folder / "gateway.log"
    config = _configured(servers, folder, "full_proxy")
    command = [PML, "serve", "--config", str(config), "--http", f"127.0.0.1:{port}"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=_environment(folder), cwd=folder
        )
    try:
        await _listens(port, process, log)
        async with AsyncExitStack() as stack:
            streams = await stack.enter_async_context(streamable_http_client(f"http://127.0.0.1:{port}/mcp"))
            yield await stack.enter_async_context(_session(streams))
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@asynccontextmanager
async def through(way: str, servers: Mapping[str, Sequence[str]], folder: Path) -> AsyncIterator[Connection]:
    """A gateway with these servers behind it, by their command lines, and a session with it.

    Raises:
        BrokenWayError: The gateway did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if way == "http":
        async with _over_http(servers, folder) as connection:
            yield connection
        return
    config = _configured(servers, folder, "meta_only" if way == "call_tool" else "full_proxy")
    async with _program([PML, "serve", "--config", str(config)], _environment(folder), folder, "gateway") as connection:
        yield connection


def prefix(way: str, server: str) -> str:
    """What the names of tools and prompts begin with on a way."""
    return "" if way == DIRECT else f"{server}__"
