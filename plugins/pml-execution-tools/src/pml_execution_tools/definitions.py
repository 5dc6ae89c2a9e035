"""What clients read of the tools."""

from __future__ import annotations

from typing import Any

from pml_hookspecs import QUESTIONS

from .questions import QUESTIONS_BY_TOOL
from .shapes import FOUND, PAGE, RESULT, STATUSES, SUMMARY, TRIGGERS

LONGEST_HOURS = 168
MOST_LISTED = 100

_AGENT = {"type": "string", "description": "Filter by specific agent name. Omit for all accessible agents."}
_STATUS = {"type": "string", "enum": STATUSES, "description": "Filter by execution status"}
_TRIGGER = {"type": "string", "enum": TRIGGERS, "description": "Filter by trigger source"}
_CURSOR = {"type": "string", "description": "next_cursor of the page before. Omit for the first page."}
_LIMIT = {
    "type": "integer",
    "minimum": 1,
    "maximum": MOST_LISTED,
    "default": 20,
    "description": "Maximum results to return (default 20, max 100)",
}

_SINCE = {
    "type": "string",
    "description": "From when on, in place of hours, as far back as history is kept: a date or time in ISO 8601 (UTC "
    "unless it says its zone), or an age such as 30d",
}
_UNTIL = {"type": "string", "description": "Until when, a date to its end; hours count back from here. Omit for now."}


def _hours(default: int, about: str) -> dict[str, Any]:
    limits = {"type": "number", "minimum": 1, "maximum": LONGEST_HOURS}
    return {**limits, "default": default, "description": about}


LIST_RECENT_EXECUTIONS: dict[str, Any] = {
    "name": "list_recent_executions",
    "description": "List recent task executions across agents. Use to monitor what happened, check task completion "
    "status, or find specific executions.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "agent_name": _AGENT,
            "status": _STATUS,
            "triggered_by": _TRIGGER,
            "hours": _hours(24, "Look back period in hours (default 24, max 168)"),
            "since": _SINCE,
            "until": _UNTIL,
            "limit": _LIMIT,
            "cursor": _CURSOR,
        },
        "additionalProperties": False,
    },
    "outputSchema": PAGE,
    "annotations": {"readOnlyHint": True},
    "_meta": {QUESTIONS: [*QUESTIONS_BY_TOOL["list_recent_executions"]]},
}
SEARCH_EXECUTIONS: dict[str, Any] = {
    "name": "search_executions",
    "description": "Find past executions by words in what was asked, answered or went wrong. Use when you know what an "
    "execution was about, but not its id.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "Words, or beginnings of words, that must all occur, in any order and case",
            },
            "agent_name": _AGENT,
            "status": _STATUS,
            "triggered_by": _TRIGGER,
            "hours": _hours(LONGEST_HOURS, "Look back period in hours (default 168, max 168)"),
            "since": _SINCE,
            "until": _UNTIL,
            "limit": _LIMIT,
            "cursor": _CURSOR,
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    "outputSchema": FOUND,
    "annotations": {"readOnlyHint": True},
    "_meta": {QUESTIONS: [*QUESTIONS_BY_TOOL["search_executions"]]},
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
    "outputSchema": RESULT,
    "annotations": {"readOnlyHint": True},
    "_meta": {QUESTIONS: [*QUESTIONS_BY_TOOL["get_execution_result"]]},
}
GET_AGENT_ACTIVITY_SUMMARY: dict[str, Any] = {
    "name": "get_agent_activity_summary",
    "description": "Get a high-level summary of agent activity and health. Use for monitoring dashboards, health "
    "checks, or understanding agent workload.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "agent_name": {
                "type": "string",
                "description": "Specific agent to summarize. Omit for fleet-wide summary.",
            },
            "hours": _hours(24, "Look back period in hours (default 24)"),
            "since": _SINCE,
            "until": _UNTIL,
        },
        "additionalProperties": False,
    },
    "outputSchema": SUMMARY,
    "annotations": {"readOnlyHint": True},
    "_meta": {QUESTIONS: [*QUESTIONS_BY_TOOL["get_agent_activity_summary"]]},
}
