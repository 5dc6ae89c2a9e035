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

NOTEBOOK_CREATE: Mapping[str, Any] = {
    "name": "notebook_create",
    "description": "Create a notebook: cells that run as programs in a folder of their own and can import each other. "
    "Returns its session ID; add cells with cell_create, run them with cell_execute.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "language": {**_LANGUAGE, "default": "typescript"},
            "tools": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Patterns of tools that cells may call, such as files:*; none if left out",
            },
        },
        "required": ["title"],
        "additionalProperties": False,
    },
}
CELL_CREATE: Mapping[str, Any] = {
    "name": "cell_create",
    "description": "Add a cell to a notebook: code with source, or Markdown with text. Returns it with its ID.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "sessionId": _SESSION,
            "source": {"type": "string", "description": "Code; the cell is a program of its own"},
            "text": {"type": "string", "description": "Markdown, with headings of levels 2 to 5"},
            "filename": _FILENAME,
            "language": _LANGUAGE,
            "index": {
                "type": "integer",
                "minimum": 1,
                "description": "Place among the cells; at the end if left out",
            },
        },
        "required": ["sessionId"],
        "additionalProperties": False,
    },
}
CELL_UPDATE: Mapping[str, Any] = {
    "name": "cell_update",
    "description": "Replace the source (code, package.json) or the text (Markdown, title) of a cell, or rename its "
    "file.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "sessionId": _SESSION,
            "cellId": {"type": "string"},
            "source": {"type": "string"},
            "text": {"type": "string"},
            "filename": _FILENAME,
        },
        "required": ["sessionId", "cellId"],
        "additionalProperties": False,
    },
}
NOTEBOOK_GET: Mapping[str, Any] = {
    "name": "notebook_get",
    "description": "Get a notebook: its title, language and cells in order, with their IDs.",
    "inputSchema": {
        "type": "object",
        "properties": {"sessionId": _SESSION},
        "required": ["sessionId"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}
