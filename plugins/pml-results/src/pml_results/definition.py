"""What clients read of ``read_result``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READ = "read_result"
RESOURCE = "stored_result"
URI = "pml://results/"
LINKS_SINCE = "2025-06-18"
"""Revision of MCP from which clients know links to resources in results."""
META = "pml/result"
"""Key of ``_meta`` of an answer that was stored."""
DEFINITION: Mapping[str, Any] = {
    "name": READ,
    "description": "Read parts of a stored result: path, then select, then one of lines, search, page.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "path": {"type": "string", "description": "rows[0].name"},
            "select": {"type": "string", "description": "JMESPath"},
            "lines": {"type": "string", "description": "120-180, 120-, or -40 for the last 40"},
            "search": {"type": "string", "description": "Words that a line has"},
            "page": {"type": "integer", "minimum": 1},
        },
        "required": ["id"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}

RESOURCE_DEFINITION: Mapping[str, Any] = {
    "name": RESOURCE,
    "description": f"The whole of a stored result, for resources/read of {URI}ID.",
    "inputSchema": {
        "type": "object",
        "properties": {"uri": {"type": "string"}},
        "required": ["uri"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}
TEMPLATE: Mapping[str, Any] = {
    "uriTemplate": f"{URI}{{id}}",
    "name": RESOURCE,
    "title": "Stored result",
    "description": "A result that was too large to be answered, by the id that its preview has.",
}
