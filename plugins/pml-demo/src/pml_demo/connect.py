"""How to connect MCP clients to PML, ready to be copied."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Connection:
    """What makes one client start PML."""

    client: str
    where: str
    """A shell, or the file that :attr:`text` is the content of."""
    text: str


def pml_command() -> list[str]:
    """The full path of the ``pml`` that the user ran, or of its module's interpreter."""
    for candidate in (Path(sys.argv[0]), Path(sys.executable).with_name("pml")):
        if candidate.stem == "pml" and candidate.is_file():
            return [str(candidate.absolute())]
    return [sys.executable, "-m", "pml_core"]


def connections(command: list[str]) -> list[Connection]:
    """One per client, for the ``pml`` that is started with ``command``."""
    program, *arguments = [*command, "serve"]
    entry = {"command": program, "args": arguments}
    return [
        Connection("Claude Code", "shell", shlex.join(["claude", "mcp", "add", "pml", "--", program, *arguments])),
        Connection("Cursor", ".cursor/mcp.json", json.dumps({"mcpServers": {"pml": entry}})),
        Connection("VS Code", ".vscode/mcp.json", json.dumps({"servers": {"pml": {"type": "stdio", **entry}}})),
    ]
