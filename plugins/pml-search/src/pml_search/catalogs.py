"""Catalogs in files: one tool a line, as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .rows import Tool

MEMBERS = {
    "name": "name",
    "title": "title",
    "description": "description",
    "input_schema": "inputSchema",
    "inputSchema": "inputSchema",
    "output_schema": "outputSchema",
    "outputSchema": "outputSchema",
    "annotations": "annotations",
}
"""Members of a line, and what MCP calls them."""


class CatalogError(Exception):
    """A catalog cannot be used. The message says which, why and what to do."""


def read(path: Path, complain: Callable[[str], None]) -> list[Tool]:
    """The tools of a file, in its order.

    Args:
        path: Lines of ``{"id", "server", "name", "description", "input_schema"[, "server_description"]}``.
        complain: Told of each line that is left out, with the reason.

    Raises:
        CatalogError: The file cannot be read, or no line of it is a tool.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as exc:
        raise CatalogError(f"{path}: cannot be read: {exc.strerror or exc}; give a file with one tool a line") from exc
    tools: dict[str, Tool] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            tool = _tool(json.loads(line))
        except (TypeError, ValueError, RecursionError) as exc:
            complain(f"{path}:{number}: left out: {exc}")
            continue
        if tool.id in tools:
            complain(f"{path}:{number}: left out: there is a tool {tool.id!r} already")
        else:
            tools[tool.id] = tool
    if lines and not tools:
        raise CatalogError(
            f'{path}: no line of it is a tool; write {{"id", "server", "name", "description", "input_schema"}} a line'
        )
    return list(tools.values())


def _tool(line: Any) -> Tool:
    if not isinstance(line, dict):
        raise TypeError("not a JSON object")
    for member in ("id", "name"):
        if not isinstance(line.get(member), str) or not line[member]:
            raise ValueError(f"{member!r} is missing or no text")
    definition = {MEMBERS[member]: value for member, value in line.items() if member in MEMBERS}
    server, about = line.get("server"), line.get("server_description")
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"))
    return Tool(
        id=line["id"],
        server=server if isinstance(server, str) else "",
        definition=definition,
        digest=hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest(),
        about_server=about if isinstance(about, str) else "",
    )
