"""What clients read of the two tools. Every word is in the context of every conversation."""

from __future__ import annotations

from typing import Any

MOST = 50
"""Most tools in one answer."""
READ_ONLY = "read_only"
"""The effects of a tool that says that it changes nothing."""

SEARCH_TOOLS: dict[str, Any] = {
    "name": "search_tools",
    "description": "Find tools by what they do or are called; gives names and parameters.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": 8},
            "detail": {"enum": ["brief", "full"]},
            "server": {"type": "string"},
            "effects": {"enum": [READ_ONLY]},
        },
        "required": ["query"],
    },
    "annotations": {"readOnlyHint": True},
}
CALL_TOOL: dict[str, Any] = {
    "name": "call_tool",
    "description": "Call a tool found by search_tools.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "arguments": {"type": "object"},
            "dry_run": {"type": "boolean"},
        },
        "required": ["name"],
    },
}
