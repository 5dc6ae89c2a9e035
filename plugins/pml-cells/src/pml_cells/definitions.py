"""What clients are told of the tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SESSION = {"type": "string", "description": "The session/notebook ID"}
_LANGUAGE = {"type": "string", "enum": ["typescript", "javascript", "python"]}
_FILENAME = {
    "type": "string",
    "description": "Name of the file that other cells import; its ending tells the language (.ts .js .py)",
}

CELL_EXECUTE: Mapping[str, Any] = {
    "name": "cell_execute",
    "description": "Execute a notebook cell and return the result",
    "inputSchema": {
        "type": "object",
        "properties": {
            "sessionId": _SESSION,
            "cellId": {"type": "string", "description": "The cell ID to execute"},
            "timeout": {
                "type": "number",
                "description": "Execution timeout in milliseconds (default: 30000)",
                "default": 30000,
            },
        },
        "required": ["sessionId", "cellId"],
    },
}
"""Clients of other notebook servers know it by this name, description and schema."""


def _tool(name: str, description: str, required: list[str], properties: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"name": name, "description": description, "inputSchema": schema}


def _text(description: str = "") -> dict[str, Any]:
    return {"type": "string", "description": description} if description else {"type": "string"}


NOTEBOOK_CREATE: Mapping[str, Any] = _tool(
    "notebook_create",
    "Create a notebook: cells that run as programs in a folder of their own and can import each other. "
    "Returns its session ID; add cells with cell_create, run them with cell_execute.",
    ["title"],
    {
        "title": _text(),
        "language": {**_LANGUAGE, "default": "typescript"},
        "tools": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Patterns of tools that cells may call, such as files:*; none if left out",
        },
    },
)
CELL_CREATE: Mapping[str, Any] = _tool(
    "cell_create",
    "Add a cell to a notebook: code with source, or Markdown with text. Returns it with its ID.",
    ["sessionId"],
    {
        "sessionId": _SESSION,
        "source": _text("Code; the cell is a program of its own"),
        "text": _text("Markdown, with headings of levels 2 to 5"),
        "filename": _FILENAME,
        "language": _LANGUAGE,
        "index": {"type": "integer", "minimum": 1, "description": "Place among the cells; at the end if left out"},
    },
)
CELL_UPDATE: Mapping[str, Any] = _tool(
    "cell_update",
    "Replace the source (code, package.json) or the text (Markdown, title) of a cell, or rename its file.",
    ["sessionId", "cellId"],
    {"sessionId": _SESSION, "cellId": _text(), "source": _text(), "text": _text(), "filename": _FILENAME},
)
NOTEBOOK_GET: Mapping[str, Any] = _tool(
    "notebook_get",
    "Get a notebook: its title, language and cells in order, with their IDs.",
    ["sessionId"],
    {"sessionId": _SESSION},
) | {"annotations": {"readOnlyHint": True}}
