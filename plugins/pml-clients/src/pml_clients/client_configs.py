"""Servers as MCP clients write them down: Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Gemini CLI, Codex.

All of them keep an object of servers under one of a few keys, Codex in TOML and the others in JSON; the fields of a
server differ a little. What PML has no use for is not lost silently: it becomes a note on the server.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

from .client_server import GEMINI_ONLY, REFERENCE, ImportedServer, ServerReader, kind_of
from .trees import with_texts

__all__ = [
    "CLIENTS",
    "ClientConfigError",
    "ImportedServer",
    "NoServersError",
    "every",
    "expand",
    "is_gateway",
    "known_files",
    "looks_like",
    "mistakes",
    "named",
    "parsed",
    "read",
    "servers_in",
]

CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "windsurf", "gemini-cli", "codex")
"""Names of the clients in :func:`known_files`."""

_RESERVED_NAME = "pml"
_UNUSABLE = re.compile(r"[^A-Za-z0-9._-]+")
_GATEWAY_PROGRAMS = ("pml", "pml_core")


class ClientConfigError(Exception):
    """A client's file cannot be used. The message says what is wrong, where, and what to do, on one or more lines."""


class NoServersError(ClientConfigError):
    """The file is sound, but it is not one that holds servers."""


def looks_like(tree: object) -> bool:
    """Whether ``tree``, as parsed, is a client's file rather than a configuration of PML's own.

    A file that has ``servers`` and nothing else can be both, and means the same either way; it counts as a client's.
    """
    if not isinstance(tree, Mapping):
        return False
    scopes = list(_scopes(tree))
    if [scope.keys for scope in scopes] != [("servers",)]:
        return bool(scopes)
    servers = scopes[0].servers
    if not isinstance(servers, Mapping):
        return False
    return "inputs" in tree or (bool(servers) and all(isinstance(raw, Mapping) for raw in servers.values()))


def read(text: str, where: str, *, project: Path | None = None) -> list[ImportedServer]:
    """The servers in a client's file, in the order of the file.

    Args:
        text: JSON; comments, trailing commas and a byte order mark are accepted. Codex's is TOML.
        where: The file's path, for messages. In a folder ``.gemini``, ``$NAME`` refers to the environment too.
        project: Claude Code keeps the servers of all projects in one file. With a project, its servers and those that
            are for every project; without, all there are.

    Raises:
        ClientConfigError: Not JSON or TOML (with line and column), no servers' key in it, or servers of the wrong
            shape: all mistakes at once, each with its path. :class:`NoServersError` when only the key is missing.
    """
    return servers_in(parsed(text, where), where, project=project)


def every(text: str, where: str, *, project: Path | None, problems: list[str]) -> list[ImportedServer]:
    """The sound servers in a client's file, under the names that the file gives, of which one can have several.

    Args:
        text: As for :func:`read`.
        where: As for :func:`read`.
        project: As for :func:`read`.
        problems: What is wrong with the others is added here, each with its path.

    Raises:
        ClientConfigError: As for :func:`read`, but not for single servers.
    """
    return _every(parsed(text, where), where, project, problems)


def mistakes(where: str, problems: Sequence[str]) -> ClientConfigError:
    """The error that tells of all ``problems`` of one file."""
    count = f"{len(problems)} mistake{'s' if len(problems) > 1 else ''}"
    return ClientConfigError("\n".join((f"{where}: {count} to correct", *(f"  {problem}" for problem in problems))))


def parsed(text: str, where: str) -> Any:
    """The tree in a client's file.

    Raises:
        ClientConfigError: Not JSON or TOML, with line and column.
    """
    from . import codex_config, jsonc

    if PurePath(where).suffix == ".toml" or f"[{codex_config.SERVERS}" in text:
        return _toml(text, where)
    try:
        return jsonc.loads(text)
    except jsonc.JsonSyntaxError as exc:
        place = f":{exc.line}:{exc.column}" if exc.line else ""
        raise ClientConfigError(f"{where}{place}: not valid JSON: {exc.message}. Correct it there.") from None


def _toml(text: str, where: str) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as exc:
        raise ClientConfigError(f"{where}: not valid TOML: {exc}. Correct it there.") from None


def servers_in(tree: object, where: str, *, project: Path | None = None) -> list[ImportedServer]:
    """The same as :func:`read`, for what is parsed already."""
    problems: list[str] = []
    found = _every(tree, where, project, problems)
    if problems:
        raise mistakes(where, problems)
    return named(found, override=project is not None)


def _every(tree: object, where: str, project: Path | None, problems: list[str]) -> list[ImportedServer]:
    if not isinstance(tree, Mapping):
        raise ClientConfigError(f"{where}: expected an object with mcpServers or servers, found {kind_of(tree)}.")
    scopes = list(_scopes(tree))
    if not scopes:
        raise NoServersError(
            f"{where}: has no mcpServers (Claude, Cursor, Windsurf, Gemini CLI), no mcp_servers (Codex) and no servers "
            "as VS Code writes them. "
            'Give the file of an MCP client, or wrap the servers: {"mcpServers": {…}}.'
        )
    if project is not None:
        scopes = [scope for scope in scopes if scope.project is None or Path(scope.project) == project]
    reader = ServerReader(_inputs(tree), *_left_out(tree, project))
    gemini = ".gemini" in PurePath(where).parts
    found: list[ImportedServer] = []
    for scope in scopes:
        found += reader.read(scope.servers, scope.keys, gemini=gemini or _is_gemini(scope.servers))
    problems += reader.problems
    return found


def expand(value: str, environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """``value`` with ``${NAME}``, ``${env:NAME}``, ``${KIND:WHAT}`` and ``${NAME:-default}`` replaced.

    The default counts when the variable is unset or empty, as in a shell, and ends at the first ``}``. What is put in
    is not expanded again.

    Returns:
        The text, and the names that are unset and have no default, each once, in order; those stay as written.
    """
    missing: dict[str, None] = {}

    def replaced(found: re.Match[str]) -> str:
        name, default = found.groups()
        if default is not None:
            return environment.get(name) or str(default)
        if name not in environment:
            missing[name] = None
            return found[0]
        return environment[name]

    return REFERENCE.sub(replaced, value), tuple(missing)


def expand_all(value: Any, environment: Mapping[str, str], missing: list[str]) -> Any:
    """Every text in a value, however deep, as :func:`expand` makes it; unset names are added to ``missing``."""

    def expanded(text: str) -> str:
        made, unset = expand(text, environment)
        missing.extend(unset)
        return made

    return with_texts(value, expanded)


def references(value: Any) -> Iterator[str]:
    """The name of all that a text in a value refers to, however deep, as often as it does."""
    if isinstance(value, str):
        yield from (found[1] for found in REFERENCE.finditer(value))
    elif isinstance(value, Mapping):
        yield from (name for inner in value.values() for name in references(inner))
    elif isinstance(value, (list, tuple)):
        yield from (name for inner in value for name in references(inner))


def known_files(home: Path, project: Path) -> list[tuple[str, Path]]:
    """Where clients keep their servers: ``(client, path)``, a client's project files before its others.

    The places of Linux, macOS and Windows are all named; the files need not exist.
    """
    roots = (home / ".config", home / "Library" / "Application Support", home / "AppData" / "Roaming")
    profiles = [root / edition / "User" for root in roots for edition in ("Code", "Code - Insiders")]
    places = {
        "claude-code": [project / ".mcp.json", home / ".claude.json"],
        "claude-desktop": [root / "Claude" / "claude_desktop_config.json" for root in roots],
        "cursor": [folder / ".cursor" / "mcp.json" for folder in (project, home)],
        "vscode": [f / name for f in (project / ".vscode", *profiles) for name in ("mcp.json", "settings.json")],
        "windsurf": [home / ".codeium" / "windsurf" / "mcp_config.json", home / ".codeium" / "mcp_config.json"],
        "gemini-cli": [folder / ".gemini" / "settings.json" for folder in (project, home)],
        "codex": [folder / "config.toml" for folder in (project / ".codex", _codex_home(home))],
    }
    return list(dict.fromkeys((client, path) for client in CLIENTS for path in places[client]))


def _codex_home(home: Path) -> Path:
    return Path(os.environ.get("CODEX_HOME") or home / ".codex")


def is_gateway(server: ImportedServer) -> bool:
    """Whether the server is PML itself: a gateway that is one of its own servers would start itself without end."""
    words = [PureWindowsPath(word).name.removesuffix(".exe") for word in (server.command or "", *server.args)]
    return "serve" in words and any(word in _GATEWAY_PROGRAMS for word in words[: words.index("serve")])


@dataclass(frozen=True, slots=True)
class _Scope:
    """An object of servers, and the project it is for; None for every project."""

    keys: tuple[str, ...]
    servers: object
    project: str | None = None


def _scopes(tree: Mapping[str, Any]) -> Iterator[_Scope]:
    from . import codex_config

    if "mcpServers" in tree:
        yield _Scope(("mcpServers",), tree["mcpServers"])
    if codex_config.SERVERS in tree:
        yield _Scope((codex_config.SERVERS,), codex_config.in_common_terms(tree[codex_config.SERVERS]))
    if "servers" in tree and _in_vscode_terms(tree):
        yield _Scope(("servers",), tree["servers"])
    if "mcp.servers" in tree:
        yield _Scope(("mcp.servers",), tree["mcp.servers"])
    if "servers" in (mcp := _mapping(tree, "mcp")):
        yield _Scope(("mcp", "servers"), mcp["servers"])
    for name, settings in _mapping(tree, "projects").items():
        if isinstance(settings, Mapping) and "mcpServers" in settings:
            yield _Scope(("projects", name, "mcpServers"), settings["mcpServers"], name)


def _in_vscode_terms(tree: Mapping[str, Any]) -> bool:
    """VS Code's keys are camelCase; the tables, and the settings of a server, that only PML has are not."""
    if "gateway" in tree or "plugins" in tree:
        return False
    tables = [raw for raw in _mapping(tree, "servers").values() if isinstance(raw, Mapping)]
    return not any("_" in key or key in ("address", "enabled") for raw in tables for key in raw)


def _mapping(tree: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = tree.get(key)
    return value if isinstance(value, Mapping) else {}


def _names(tree: Mapping[str, Any], key: str) -> frozenset[str]:
    value = tree.get(key)
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()


def _inputs(tree: Mapping[str, Any]) -> dict[str, str]:
    inputs = tree.get("inputs") or _mapping(tree, "mcp").get("inputs")
    entries = [entry for entry in inputs if isinstance(entry, Mapping)] if isinstance(inputs, list) else []
    described = [e for e in entries if isinstance(e.get("id"), str) and isinstance(e.get("description"), str)]
    return {entry["id"]: entry["description"] for entry in described}


def _left_out(tree: Mapping[str, Any], project: Path | None) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Names that Gemini CLI allows (None: all) and those that Gemini CLI, or Claude Code in this project, excludes."""
    gemini = _mapping(tree, "mcp")
    excluded = _names(gemini, "excluded")
    for name, settings in _mapping(tree, "projects").items():
        if project is not None and Path(name) == project and isinstance(settings, Mapping):
            excluded |= _names(settings, "disabledMcpServers")
    return _names(gemini, "allowed") if "allowed" in gemini else None, excluded


def _is_gemini(servers: object) -> bool:
    tables = servers.values() if isinstance(servers, Mapping) else ()
    return any(isinstance(raw, Mapping) and GEMINI_ONLY & set(raw) for raw in tables)


def named(servers: Iterable[ImportedServer], *, override: bool) -> list[ImportedServer]:
    """The servers under names that PML can use, each name once.

    Args:
        servers: Under the names the file gives them; a name can come from several scopes.
        override: Whether a later server takes the place of an earlier one of the same name; else both are kept, under
            two names, unless they are alike.
    """
    kept: list[ImportedServer] = []
    for server in servers:
        earlier = [other for other in kept if other.name == server.name]
        if any(_alike(other, server) for other in earlier):
            continue
        if override and earlier:
            note = "takes the place of the server of the same name that is for every project"
            kept[kept.index(earlier[0])] = replace(server, notes=(*server.notes, note))
        else:
            kept.append(server)
    usable_as_written = {server.name for server in kept if _usable(server.name) == server.name}
    named: dict[str, ImportedServer] = {}
    for server in kept:
        name = wanted = _usable(server.name)
        number = 2
        while name in named or (name in usable_as_written and name != server.name):
            name, number = f"{wanted}-{number}", number + 1
        renamed = (f"is called {json.dumps(server.name)} there",) if name != server.name else ()
        named[name] = replace(server, name=name, notes=(*renamed, *server.notes))
    return list(named.values())


def _alike(one: ImportedServer, other: ImportedServer) -> bool:
    return replace(one, notes=()) == replace(other, notes=())


def _usable(name: str) -> str:
    """``name`` as near as PML allows: letters, digits, ".", "-" and single "_", starting with a letter or digit."""
    usable = re.sub(r"_{2,}", "_", _UNUSABLE.sub("-", name)).lstrip("._-").rstrip("-")
    return f"{usable}-server" if usable == _RESERVED_NAME else usable or "server"
