"""Where each MCP client looks for its servers, and how it writes one down (their documentation, 2026)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pml_clients.client_configs import known_files
from pml_clients.trees import KeyPath
from pml_kit.errors import OperatorError

CLIENTS: Mapping[str, str] = {
    "claude-code": "Claude Code",
    "claude-desktop": "Claude Desktop",
    "cursor": "Cursor",
    "vscode": "VS Code",
    "windsurf": "Windsurf",
    "gemini": "Gemini CLI",
    "codex": "Codex",
}
"""Names on the command line, and the clients' own."""
IMPORTED_AS: Mapping[str, str] = {"gemini": "gemini-cli"}
"""Names that ``pml import`` has for them, where they differ."""
USERS_ONLY = ("claude-desktop", "windsurf")
"""Clients that have no file of a project's."""
IN_PROJECT = Path("project")
"""Stands for the project's folder, to tell its files from the user's."""
SYSTEM_FOLDER: Mapping[str, str] = {"darwin": "Library", "win32": "AppData"}
"""Where a system's applications keep their files, below home; else ``.config``."""


@dataclass(frozen=True, slots=True)
class Place:
    """One file of a client's."""

    client: str
    path: Path
    servers: KeyPath
    """Where in it the servers stand."""
    format: Literal["json", "toml"] = "json"

    def entry(self, command: list[str], url: str) -> dict[str, Any]:
        """PML as the client writes a server down.

        Args:
            command: What starts it.
            url: Where it runs already; ``""`` when the client is to start it.

        Raises:
            OperatorError: The client cannot connect to a URL.
        """
        if not url:
            entry: dict[str, Any] = {"command": command[0], "args": command[1:]}
            return {"type": "stdio", **entry} if self.client in ("claude-code", "vscode") else entry
        if self.client == "claude-desktop":
            raise OperatorError(
                "--url: Claude Desktop's file holds programs only",
                "Leave --url out: the client then starts PML itself.",
            )
        key = {"windsurf": "serverUrl", "gemini": "httpUrl"}.get(self.client, "url")
        return {"type": "http", key: url} if self.client in ("claude-code", "vscode") else {key: url}


def place(client: str, home: Path, project: Path, *, of_project: bool) -> Place:
    """The file to write: of several that the client reads, the first that exists.

    Raises:
        OperatorError: The client has no files for single projects.
    """
    if of_project and client in USERS_ONLY:
        raise OperatorError(f"--project: {CLIENTS[client]} has one file for all projects", "Leave --project out.")
    found = _files(client, home, project)
    there = [path for path, projects in found if projects is of_project]
    path = next((path for path in there if path.is_file()), there[0])
    if client == "codex":
        return Place(client, path, ("mcp_servers",), "toml")
    return Place(client, path, ("servers" if client == "vscode" else "mcpServers",))


def _files(client: str, home: Path, project: Path) -> list[tuple[Path, bool]]:
    """Every file of the client's, and whether it is the project's; this system's before the others'."""
    found = []
    for known, path in known_files(home, IN_PROJECT):
        if known != IMPORTED_AS.get(client, client) or (client, path.name) == ("vscode", "settings.json"):
            continue
        projects = path.is_relative_to(IN_PROJECT)
        found.append((project / path.relative_to(IN_PROJECT) if projects else path, projects))
    return sorted(found, key=lambda one: not _of_this_system(one[0], home))


def _of_this_system(path: Path, home: Path) -> bool:
    folder = SYSTEM_FOLDER.get(sys.platform, ".config")
    others = {*SYSTEM_FOLDER.values(), ".config"} - {folder}
    return not path.is_relative_to(home) or path.relative_to(home).parts[0] not in others
