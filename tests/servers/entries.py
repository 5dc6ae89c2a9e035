"""Which servers are compared: ``servers.toml``, read and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE / "servers.toml"
FILES = HERE / "files"
"""What every server finds in its folder."""


@dataclass(frozen=True)
class Entry:
    """A server: what is installed, how it is started, and what may be asked of it."""

    name: str
    registry: str
    """``npm`` or ``pypi``."""
    package: str
    version: str
    licence: str
    program: str
    """The command that the package brings."""
    args: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    """Requirements beside it, where its own would bring what it does not work with."""
    env: Mapping[str, str] = field(default_factory=dict)
    setup: str = ""
    """Commands of a shell that run in its folder before it starts."""
    never: Mapping[str, str] = field(default_factory=dict)
    """Patterns of tools that are never called, each with the reason."""
    varies: Mapping[str, str] = field(default_factory=dict)
    """Patterns of tools whose answers are not compared, each with the reason: what they say depends on the moment.

    ``tool/structuredContent/member`` is that member of its results.
    """
    lacks: str = ""
    """What it would need to do more than answer with errors; empty for nothing."""
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Arguments that work, by tool."""

    def forbidden(self, tool: str) -> str:
        """Why a tool is not called; empty where it may be."""
        return next((reason for pattern, reason in self.never.items() if fnmatchcase(tool, pattern)), "")

    def varying(self, tool: str) -> str:
        """Why a tool's answers are not compared; empty where they are."""
        return next((reason for pattern, reason in self.varies.items() if fnmatchcase(tool, pattern)), "")


def read(path: Path = DATA) -> list[Entry]:
    """All servers of the file, in its order.

    Raises:
        ValueError: A registry that is none, or a member that an entry does not have.
    """
    found = []
    for name, given in tomllib.loads(path.read_text(encoding="utf-8")).items():
        if given.get("registry") not in ("npm", "pypi"):
            raise ValueError(f"{path.name}: {name}: registry is npm or pypi")
        try:
            lists = {member: tuple(given.get(member, ())) for member in ("args", "beside")}
            found.append(Entry(name=name, **{**given, **lists}))
        except TypeError as exc:
            raise ValueError(f"{path.name}: {name}: {exc}") from exc
    return found
