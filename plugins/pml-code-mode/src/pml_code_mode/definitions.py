"""What clients are told of the tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RUN_CODE, RUN_CODE_READ, DESCRIBE = "run_code", "run_code_read", "describe_code_tools"
_CALL = {
    "typescript": "await tools.server.tool({name: value})",
    "javascript": "await tools.server.tool({name: value})",
    "python": "await tools.server.tool(name=value)",
}
_PARALLEL = {"typescript": "Promise.all", "javascript": "Promise.all", "python": "asyncio.gather"}


def run_code(language: str) -> Mapping[str, Any]:
    """The definition of ``run_code`` where code is in ``language`` unless it says."""
    return {
        "name": RUN_CODE,
        "description": (
            f"Run one script instead of many tool calls; only what it returns comes back. The code is the body of an "
            f"async function in {language} without files and network: call tools with {_CALL[language]} "
            f'(tools["my-server"]["my-tool"] for other names), in parallel with {_PARALLEL[language]}, then return '
            f"JSON. A failed call throws. Types of tools: call {DESCRIBE}."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "language": {"type": "string"},
                "inputs": {"type": "object", "description": "Variables of the code"},
                "intent": {"type": "string", "description": "What it is for"},
            },
            "required": ["code"],
        },
    }


def run_code_read() -> Mapping[str, Any]:
    """The definition of the tool for code whose calls only read."""
    return {
        "name": RUN_CODE_READ,
        "description": f"{RUN_CODE} for code that only reads; a call of a tool that does more is refused.",
        "inputSchema": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "language": {}, "inputs": {"type": "object"}, "intent": {}},
            "required": ["code"],
        },
        "annotations": {"readOnlyHint": True, "destructiveHint": False},
    }


DESCRIBE_CODE_TOOLS: Mapping[str, Any] = {
    "name": DESCRIBE,
    "description": "Typed stubs of tools, for code that run_code is to run: found by query, or named.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the tools are for"},
            "tools": {"type": "array", "items": {"type": "string"}, "description": "Names, or server:*"},
            "language": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        },
    },
    "annotations": {"readOnlyHint": True},
}
