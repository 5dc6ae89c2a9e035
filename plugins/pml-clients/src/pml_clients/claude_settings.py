"""What a user of Claude Code has decided about servers (its documentation, 2026).

Servers that a folder brings (``.mcp.json``) wait until their user approves them. That is kept in settings files and in
``~/.claude.json``; a folder's own files approve nothing before the folder is trusted, but refuse always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

from .client_server import ImportedServer

Tree: TypeAlias = Mapping[str, Any]

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """About the servers that count in one project."""

    rejected: frozenset[str]
    approved: frozenset[str]
    all_approved: bool
    disabled: frozenset[str]
    """Switched off in this project."""
    blocked: tuple[Tree, ...]
    """``deniedMcpServers``: each a ``serverName``, ``serverCommand`` or ``serverUrl``; ``*`` in it fits any text."""
    rules: frozenset[str]
    """``permissions.deny``: ``mcp__<server>``, ``mcp__<server>__*`` and ``mcp__<server>__<tool>``."""

    def denied(self, name: str, server: ImportedServer) -> str:
        """Why a server, which is called ``name`` there, is not started, whoever brings it; ``""`` when it is."""
        rule = self._rule(name)
        if self.rules & {rule, f"{rule}__*"}:
            return "is disabled, because permissions.deny of Claude Code names it"
        if any(_blocks(one, name, server) for one in self.blocked):
            return "is disabled, because deniedMcpServers of Claude Code fits it"
        return "is disabled, because Claude Code has it switched off here" if name in self.disabled else ""

    def not_approved(self, name: str) -> str:
        """Why a server of the folder's ``.mcp.json`` is not started; ``""`` when it is."""
        if name in self.rejected:
            return "is disabled, because Claude Code rejects it (disabledMcpjsonServers)"
        if self.all_approved or name in self.approved:
            return ""
        return "is disabled, because .mcp.json brings it, unapproved in Claude Code; enabled = true starts it"

    def denied_tools(self, name: str) -> tuple[str, ...]:
        """The server's own names of the tools that may not be called."""
        begins = f"{self._rule(name)}__"
        return tuple(sorted(rule.removeprefix(begins) for rule in self.rules if rule.startswith(begins)))

    @staticmethod
    def _rule(name: str) -> str:
        return f"mcp__{_NOT_IN_NAMES.sub('_', name)}"


def _blocks(one: Tree, name: str, server: ImportedServer) -> bool:
    url = one.get("serverUrl")
    command = [*([server.command] if server.command else []), *server.args]
    fits_url = isinstance(url, str) and server.url is not None and fnmatchcase(server.url, url.replace("[", "[[]"))
    return one.get("serverName") == name or (bool(command) and one.get("serverCommand") == command) or fits_url


def read(home: Path, project: Path, tree_of: Callable[[Path], Tree]) -> Decisions:
    """What is decided for ``project``.

    Args:
        tree_of: Gives what stands in a file, nothing where there is none; what it raises is passed on.
    """
    state = tree_of(home / ".claude.json")
    here = _table(_table(state, "projects"), str(project))
    own = [tree_of(home / ".claude" / "settings.json"), here]
    folder = [tree_of(project / ".claude" / name) for name in ("settings.json", "settings.local.json")]
    believed = [*own, *folder] if _is_trusted(state, project) else own
    return Decisions(
        rejected=frozenset(_names([*own, *folder], "disabledMcpjsonServers")),
        approved=frozenset(_names(believed, "enabledMcpjsonServers")),
        all_approved=any(tree.get("enableAllProjectMcpServers") is True for tree in believed),
        disabled=frozenset(_names([here], "disabledMcpServers")),
        blocked=tuple(_blocked([*own, *folder])),
        rules=frozenset(_names([_table(tree, "permissions") for tree in (*own, *folder)], "deny")),
    )


def _is_trusted(state: Tree, project: Path) -> bool:
    projects = _table(state, "projects")
    return any(_table(projects, str(one)).get("hasTrustDialogAccepted") is True for one in (project, *project.parents))


def _table(tree: Tree, key: str) -> Tree:
    value = tree.get(key)
    return value if isinstance(value, Mapping) else {}


def _blocked(trees: list[Tree]) -> Iterator[Tree]:
    for tree in trees:
        value = tree.get("deniedMcpServers")
        yield from (one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else ()


def _names(trees: list[Tree], key: str) -> Iterator[str]:
    for tree in trees:
        value = tree.get(key)
        yield from (name for name in value if isinstance(name, str)) if isinstance(value, list) else ()
