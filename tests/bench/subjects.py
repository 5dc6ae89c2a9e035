"""What is measured: how each subject is started, and how it names its servers' tools."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import processes
from client import Answer, BenchError, Connection, WrongAnswerError, encode
from server import catalog

HERE = Path(__file__).parent
PROBE = """
import platform, fastmcp
from fastmcp.server import create_proxy
print(fastmcp.__version__, "on Python", platform.python_version())
"""
PROBE_S = 60


@dataclass(frozen=True)
class Subject:
    """One gateway, or none."""

    name: str
    about: str
    """What it is and which version, for whoever reads the results."""
    command: tuple[str, ...] = ()
    """``{file}`` stands for the path of an ``mcpServers`` file. Empty: the servers are used without a gateway."""
    separator: str = "__"
    """Between the names of server and tool."""
    absent: str = ""
    """Why it cannot be measured here; ``""`` when it can."""
    proof: Callable[[Session], Awaitable[None]] | None = None
    """Raises :class:`client.BenchError` unless the gateway did, while it was measured, what it has to do besides."""


class Session:
    """A subject in front of some servers."""

    def __init__(self, subject: Subject, servers: Mapping[str, int], folder: Path) -> None:
        """Nothing starts yet.

        Args:
            subject: What to start.
            servers: Names, and how many tools each has.
            folder: Working directory; holds also what the subject keeps from one start to the next.
        """
        self.subject, self.servers = subject, servers
        self.calls = 0
        """How many were made."""
        self._server_pids: set[int] = set()
        self._expected = sorted(
            _essence({**tool, "name": self._exposed(name, tool["name"])})
            for name, count in servers.items()
            for tool in catalog(count)
        )
        commands = {name: _server_command(name, count) for name, count in servers.items()}
        if subject.command:
            file = folder / "servers.json"
            entries = {name: {"command": line[0], "args": list(line[1:])} for name, line in commands.items()}
            file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
            line = [part.replace("{file}", str(file)) for part in subject.command]
            gateway = Connection(line, folder, _environment(folder))
            self._connections = dict.fromkeys(servers, gateway)
        else:
            self._connections = {
                name: Connection(line, folder, _environment(folder)) for name, line in commands.items()
            }

    @property
    def connections(self) -> set[Connection]:
        """One to the gateway, or one to each server."""
        return set(self._connections.values())

    async def __aenter__(self) -> Self:
        """Start everything, at once."""
        try:
            await asyncio.gather(*(one.start() for one in self.connections))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.gather(*(one.close() for one in self.connections))

    def route(self, server: str, tool: str, arguments: Mapping[str, Any]) -> tuple[Connection, dict[str, Any]]:
        """Whom to ask, and the params of the request; counts as a call."""
        self.calls += 1
        return self._connections[server], {"name": self._exposed(server, tool), "arguments": arguments}

    async def call(self, server: str, tool: str, **arguments: Any) -> Answer:
        """Call a tool of a server."""
        connection, params = self.route(server, tool, arguments)
        return await connection.request("tools/call", params)

    async def listed(self) -> float:
        """Ask for all tools and make sure that they are all there, as their servers define them.

        Returns:
            When the last answer was there, before it was checked [s].

        Raises:
            WrongAnswerError: Some are missing, are not as they should be, or should not be there.
        """
        answers = await asyncio.gather(*(one.tools() for one in self.connections))
        got = sorted(_essence(tool) for listed, _ in answers for tool in listed)
        if got != self._expected:
            lost, strange = _names(set(self._expected) - set(got)), _names(set(got) - set(self._expected))
            counts = f"listed {len(got)} tools, the servers have {len(self._expected)}"
            raise WrongAnswerError(f"{counts}; missing or changed: {lost}; not as any server has it: {strange}")
        return max(at for _, at in answers)

    async def find_servers(self) -> None:
        """Ask every server for its process, so that :meth:`gateway_pids` can tell them from the gateway's."""
        answers = await asyncio.gather(*(self.call(name, "process") for name in self.servers))
        self._server_pids = {int(answer.text()) for answer in answers}

    def gateway_pids(self) -> set[int]:
        """All processes of the gateway; none without one, or where they cannot be seen."""
        if not (self.subject.command and processes.AVAILABLE):
            return set()
        (gateway,) = self.connections
        return processes.descendants(gateway.pid) - self._server_pids

    def _exposed(self, server: str, tool: str) -> str:
        return f"{server}{self.subject.separator}{tool}" if self.subject.command else tool


def _server_command(name: str, count: int) -> tuple[str, ...]:
    """Without site-packages, so that it starts at once."""
    return (sys.executable, "-I", "-S", str(HERE / "server.py"), name, str(count))


def _environment(folder: Path) -> dict[str, str]:
    """The user's, but no settings and no data of theirs: ``folder`` is the home of whoever looks for one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PML_", "FASTMCP_"))}
    return {**kept, "HOME": str(folder), "PML_HOME": str(folder / ".pml")}


def _essence(tool: Mapping[str, Any]) -> str:
    """What no gateway may change but for the name."""
    return json.dumps([tool["name"], tool.get("description"), tool.get("inputSchema")], sort_keys=True)


def _names(essences: set[str]) -> str:
    """The first few, for a message."""
    return ", ".join([json.loads(essence)[0] for essence in sorted(essences)][:3]) or "none"


async def _recorded(session: Session) -> None:
    """Make sure that the history which PML keeps holds every call of this session, and nothing else.

    Raises:
        BenchError: It does not: then recording was off, or lost something, or went somewhere else.
    """
    (gateway,) = session.connections
    request = {"name": "list_recent_executions", "arguments": {"limit": 100}}
    history = (await gateway.request("tools/call", request)).result()["structuredContent"]
    failed = [one for one in history["executions"] if one["status"] != "success"]
    if history["total_count"] != session.calls or failed:
        told = f"of {session.calls} calls the history holds {history['total_count']}"
        raise BenchError(f"{told}; failed among the last: {encode(failed[:1])}")


def _python() -> str:
    return f"Python {platform.python_version()}"


def _pml() -> Subject:
    about = "PML, full_proxy, recording and tracing as by default"
    script = Path(sys.executable).with_name("pml")
    if not script.exists():
        return Subject("pml", about, absent="there is no pml next to the Python that runs this")
    command = (str(script), "serve", "--config", "{file}", "--mode", "full_proxy")
    version = importlib.metadata.version("pml-core")
    return Subject("pml", f"{about}; pml-core {version} on {_python()}", command, proof=_recorded)


def _fastmcp(python: str) -> Subject:
    about = "FastMCP, a proxy mounted for each server"
    try:
        command = [python, "-c", PROBE]
        probe = subprocess.run(command, capture_output=True, check=False, encoding="utf-8", timeout=PROBE_S)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return Subject("fastmcp", about, absent=f"{python} cannot be used: {exc}")
    if probe.returncode:
        last = (probe.stderr.strip().splitlines() or ["no message"])[-1]
        return Subject(
            "fastmcp", about, absent=f"{last}; name a Python that has fastmcp 4 or newer with --fastmcp-python"
        )
    mount = (python, str(HERE / "fastmcp_mount.py"), "{file}")
    return Subject("fastmcp", f"{about}; fastmcp {probe.stdout.strip()}", mount, separator="_")


def subjects(fastmcp_python: str | None) -> dict[str, Subject]:
    """All of them by name, in the order in which results are shown.

    Args:
        fastmcp_python: A Python that has ``fastmcp``; the one that runs this if not given.
    """
    relay = (sys.executable, "-I", str(HERE / "relay.py"), "{file}")
    found = (
        Subject("direct", "the servers themselves, no gateway"),
        Subject("relay", f"the least that a gateway on asyncio does; {_python()}", relay),
        _fastmcp(fastmcp_python or sys.executable),
        _pml(),
    )
    return {subject.name: subject for subject in found}
