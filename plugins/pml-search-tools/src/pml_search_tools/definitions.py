"""What clients read of the tools. Every word is in the context of every conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_kit.mcp.effects import Effects

MOST = 50
"""Most tools in one answer."""
READ_ONLY = "read_only"
"""The effects of a tool that says that it changes nothing."""

SEARCH_TOOLS: dict[str, Any] = {
    "name": "search_tools",
    "description": "Find tools by what they do; gives names, parameters.",
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
    "description": "Call a tool; select: JMESPath.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "arguments": {"type": "object"},
            "select": {"type": "string"},
            "dry_run": {"type": "boolean"},
        },
        "required": ["name"],
    },
}


def _calls(effects: Effects, does: str, *, reads: bool, destroys: bool) -> dict[str, Any]:
    return {
        **CALL_TOOL,
        "name": f"call_tool_{effects}",
        "description": f"Call a tool that {does}; select: JMESPath.",
        "annotations": {"readOnlyHint": reads, "destructiveHint": destroys},
    }


CALL_BY_EFFECTS: Mapping[Effects, dict[str, Any]] = {
    "read": _calls("read", "only reads", reads=True, destroys=False),
    "write": _calls("write", "writes, destroys nothing", reads=False, destroys=False),
    "destroy": _calls("destroy", "may destroy", reads=False, destroys=True),
}
"""In place of ``call_tool``, by what the tool called does at most."""
