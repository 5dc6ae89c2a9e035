"""The MCP servers of the demo: where they come from and how they are started."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .materials import Materials


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Packages that are installed together, apart from everything else on the machine."""

    runtime: Literal["python", "node"]
    requirements: tuple[str, ...]
    servers: tuple[str, ...]
    """What is installed for whom, for the progress display."""

    @property
    def folder(self) -> str:
        """Name of its folder: another one for other requirements, another Python or another machine."""
        about = [self.runtime, *self.requirements, platform.system(), platform.machine()]
        if self.runtime == "python":
            about += [sys.implementation.cache_tag or "", sys.base_prefix]
        return f"servers-{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoServer:
    """One MCP server."""

    name: str
    package: str
    """Name on the package index."""
    environment: Environment
    command: Callable[[Path, Materials], list[str]]
    """How to start it, given the folder of its environment."""


PYTHON = Environment(
    runtime="python",
    requirements=("mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19"),
    servers=("time", "git"),
)
# mcp-server-sqlite 2025.4.25 asks for any mcp from 1.6 on, and ends with an AttributeError under mcp 2.
PYTHON_MCP_1 = Environment(
    runtime="python",
    requirements=("mcp-server-sqlite==2025.4.25", "mcp<2"),
    servers=("sqlite",),
)
NODE = Environment(
    runtime="node",
    requirements=(
        "@modelcontextprotocol/server-filesystem@2026.8.31",
        "@modelcontextprotocol/server-memory@2026.8.31",
        "@modelcontextprotocol/server-everything@2026.8.31",
    ),
    servers=("filesystem", "memory", "everything"),
)


def python_of(environment: Path) -> str:
    """The interpreter of a virtual environment."""
    return str(environment / "bin" / "python")


def _node(package: str, *arguments: str) -> Callable[[Path, Materials], list[str]]:
    script = Path("node_modules") / "@modelcontextprotocol" / package / "dist" / "index.js"
    return lambda folder, materials: [
        "node",
        str(folder / script),
        *(a.format(folder=materials.files) for a in arguments),
    ]


TIME = DemoServer(
    name="time",
    package="mcp-server-time",
    environment=PYTHON,
    command=lambda folder, _: [python_of(folder), "-m", "mcp_server_time", "--local-timezone", "UTC"],
)
GIT = DemoServer(
    name="git",
    package="mcp-server-git",
    environment=PYTHON,
    command=lambda folder, m: [python_of(folder), "-m", "mcp_server_git", "--repository", str(m.repository)],
)
SQLITE = DemoServer(
    name="sqlite",
    package="mcp-server-sqlite",
    environment=PYTHON_MCP_1,
    command=lambda folder, m: [
        python_of(folder), "-c", "from mcp_server_sqlite import main; main()", "--db-path", str(m.database),
    ],
)  # fmt: skip
NODE_SERVERS = (
    DemoServer(
        name="filesystem",
        package="@modelcontextprotocol/server-filesystem",
        environment=NODE,
        command=_node("server-filesystem", "{folder}"),
    ),
    DemoServer(
        name="memory",
        package="@modelcontextprotocol/server-memory",
        environment=NODE,
        command=_node("server-memory"),
    ),
    DemoServer(
        name="everything",
        package="@modelcontextprotocol/server-everything",
        environment=NODE,
        command=_node("server-everything"),
    ),
)


def configuration(
    servers: Iterable[DemoServer], folders: Mapping[Environment, Path], materials: Materials
) -> dict[str, Any]:
    """An ``mcpServers`` object, as MCP clients have it in their files."""
    entries: dict[str, Any] = {}
    for server in servers:
        command, *arguments = server.command(folders[server.environment], materials)
        entries[server.name] = {"command": command, "args": arguments}
    if "memory" in entries:
        entries["memory"]["env"] = {"MEMORY_FILE_PATH": str(materials.folder / "memory.jsonl")}
    return {"mcpServers": entries}
