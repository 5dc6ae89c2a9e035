"""Servers as Codex writes them down in ``config.toml`` (its documentation, 2026), in the terms of the other clients.

What is not of the right shape stays as it is, so that the reader of servers names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SERVERS = "mcp_servers"


def in_common_terms(servers: object) -> object:
    """The table ``mcp_servers`` as an object of servers."""
    if not isinstance(servers, Mapping):
        return servers
    return {name: _server(raw) if isinstance(raw, Mapping) else raw for name, raw in servers.items()}


def _server(raw: Mapping[str, Any]) -> dict[str, Any]:
    server = dict(raw)
    if "url" in server:
        server.setdefault("type", "http")  # Codex speaks nothing else
    _merge(server, "headers", server.pop("http_headers", None))
    named = server.pop("env_http_headers", None)
    _merge(server, "headers", _references(named) if isinstance(named, Mapping) else named)
    if isinstance(variable := server.get("bearer_token_env_var"), str):
        _merge(server, "headers", {"Authorization": f"Bearer ${{{variable}}}"})
        del server["bearer_token_env_var"]
    if isinstance(passed := server.get("env_vars"), list) and all(isinstance(name, str) for name in passed):
        env = server.get("env")
        own = env if isinstance(env, Mapping) else {}
        _merge(server, "env", {name: f"${{{name}:-}}" for name in passed if name not in own})
        del server["env_vars"]
    if isinstance(seconds := server.get("tool_timeout_sec"), (int, float)) and not isinstance(seconds, bool):
        server["timeout"] = server.pop("tool_timeout_sec") * 1000
    return server


def _references(named: Mapping[str, Any]) -> dict[str, Any]:
    """Values that are names of environment variables, as references to these."""
    return {name: f"${{{value}}}" if isinstance(value, str) else value for name, value in named.items()}


def _merge(server: dict[str, Any], key: str, more: object) -> None:
    if more is None:
        return
    before = server.get(key, {})
    server[key] = {**before, **more} if isinstance(before, Mapping) and isinstance(more, Mapping) else more


def trusts(tree: Mapping[str, Any], project: Path) -> bool:
    """Whether the user's ``config.toml``, parsed, trusts a folder, by the nearest that it names."""
    projects = tree.get("projects")
    known = projects if isinstance(projects, Mapping) else {}
    tables = (known.get(str(folder)) for folder in (project, *project.parents))
    levels = (table["trust_level"] for table in tables if isinstance(table, Mapping) and "trust_level" in table)
    return next(levels, None) == "trusted"
