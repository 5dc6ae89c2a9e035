"""What the fixture ``stdio_server`` gives: a server process made of a small script."""

from __future__ import annotations

import shlex
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import fixtures_script


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that starts when somebody connects to it, and ends with the connection."""

    script: Path

    @property
    def command(self) -> list[str]:
        """The command line that starts it."""
        # -P: this folder's modules must not shadow others.
        return [sys.executable, "-P", fixtures_script.__file__, str(self.script)]

    @property
    def address(self) -> str:
        """For ``[servers.<name>] address``."""
        return "stdio:" + shlex.join(self.command)

    @property
    def config(self) -> dict[str, Any]:
        """As MCP clients are configured: ``{"mcpServers": {NAME: …}}`` with the script's name."""
        command, *args = self.command
        return {"mcpServers": {self.script.stem: {"command": command, "args": args}}}


def write(folder: Path, script: str, name: str) -> StdioServer:
    """Keep a script in a file.

    Raises:
        SyntaxError: It is no Python.
        ValueError: It defines no tool.
    """
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    if not fixtures_script.functions(str(path)):
        raise ValueError(f"the script of stdio_server {name!r} defines no function, so the server would have no tool")
    return StdioServer(path)
