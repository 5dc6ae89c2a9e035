"""What clients read of the tools."""

from __future__ import annotations

from typing import Any

LIST_RECENT_EXECUTIONS: dict[str, Any] = {
    "name": "list_recent_executions",
    "description": "List recent task executions across agents. Use to monitor what happened, check task completion "
    "status, or find specific executions.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "agent_name": {
                "type": "string",
                "description": "Filter by specific agent name. Omit for all accessible agents.",
            },
            "status": {
                "type": "string",
                "enum": ["pending", "running", "success", "failed"],
                "description": "Filter by execution status",
            },
            "triggered_by": {
                "type": "string",
                "enum": ["manual", "schedule", "agent", "mcp"],
                "description": "Filter by trigger source",
            },
            "hours": {
                "type": "number",
                "minimum": 1,
                "maximum": 168,
                "default": 24,
                "description": "Look back period in hours (default 24, max 168)",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": 100,
                "default": 20,
                "description": "Maximum results to return (default 20, max 100)",
            },
        },
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}
GET_EXECUTION_RESULT: dict[str, Any] = {
    "name": "get_execution_result",
    "description": "Get the full result of a specific execution including output, cost, and optionally the execution "
    "transcript. Use after triggering async tasks or to inspect historical execution details.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "agent_name": {"type": "string", "description": "Name of the agent that ran the execution"},
            "execution_id": {
                "type": "string",
                "description": "Execution ID (returned from async chat_with_agent or list_recent_executions)",
            },
            "include_transcript": {
                "type": "boolean",
                "default": False,
                "description": "Include full execution transcript (can be large)",
            },
        },
        "required": ["agent_name", "execution_id"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}
