"""JSON Schemas of what the tools, and with them the REST routes, answer."""

from __future__ import annotations

from typing import Any

STATUSES = ["pending", "running", "success", "failed"]
TRIGGERS = ["manual", "schedule", "agent", "mcp"]

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_TIME = {"type": "string", "format": "date-time"}


def _of(properties: dict[str, Any], *optional: str, **more: Any) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, **more}


def _or_null(schema: dict[str, Any], about: str) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"], "description": about}


def _list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_ENDED_AT = _or_null(_TIME, "Null until it ends")
_SECONDS = _or_null({"type": "number"}, "Null until it ends [s]")
_COST = _or_null({"type": "number"}, "Null when nobody knows [USD]")
_DRY_RUN = {"type": "boolean", "description": "True for a rehearsal; else not there"}
_RATE = _or_null({"type": "number"}, "Of those that ended, how many succeeded [%]; null when none has ended")
_NEXT_CURSOR = {"type": "string", "description": "For the next page; not there on the last one"}

EXECUTION = _of(
    {
        "id": _TEXT,
        "agent_name": _TEXT,
        "status": {"type": "string", "enum": STATUSES},
        "triggered_by": {"type": "string", "enum": TRIGGERS},
        "message": _TEXT,
        "started_at": _TIME,
        "completed_at": _ENDED_AT,
        "duration_seconds": _SECONDS,
        "cost_usd": _COST,
        "has_error": {"type": "boolean"},
        "dry_run": _DRY_RUN,
    },
    "dry_run",
)
FILTERS = {
    "agent_name": _or_null(_TEXT, "Null for all"),
    "status": {"type": ["string", "null"], "enum": [*STATUSES, None]},
    "triggered_by": {"type": ["string", "null"], "enum": [*TRIGGERS, None]},
    "hours": {"type": ["number", "null"], "description": "Null where since says from when on"},
    "since": _or_null(_TIME, "Null where hours say from when on"),
    "until": _or_null(_TIME, "Null for now"),
    "limit": {"type": "integer"},
}


MOST_FOUND = 1000
"""Number up to which stores count what is found by text; see :class:`pml_hookspecs.Page`."""
ALL_MATCHES = "All matches, those on other pages included"


def _page(filters: dict[str, Any], count: str = ALL_MATCHES) -> dict[str, Any]:
    members = {
        "executions": _list_of(EXECUTION),
        "total_count": {**_COUNT, "description": count},
        "filters_applied": _of(filters),
        "next_cursor": _NEXT_CURSOR,
    }
    return _of(members, "next_cursor")


PAGE = _page(FILTERS)
FOUND = _page({"query": _TEXT, **FILTERS}, f"{ALL_MATCHES}; {MOST_FOUND} says that there are as many or more")

TRANSCRIPT = {
    "type": "array",
    "items": {"type": "object"},
    "description": "What an agent said and did; of all else the request, and what ran inside",
}
RESULT = _of(
    {
        "execution": _of(
            {
                "id": _TEXT,
                "agent_name": _TEXT,
                "status": {"type": "string", "enum": STATUSES},
                "message": _TEXT,
                "response": {"description": "Any JSON value; an agent's is its text. Null until it ends"},
                "error": _or_null(_TEXT, "Null when it did not fail"),
                "started_at": _TIME,
                "completed_at": _ENDED_AT,
                "duration_seconds": _SECONDS,
                "cost_usd": _COST,
                "context_used": _or_null({"type": "integer"}, "Null when nobody knows [tokens]"),
                "context_max": _or_null({"type": "integer"}, "Null when nobody knows [tokens]"),
                "tool_calls": _list_of(_TEXT),
                "transcript": TRANSCRIPT,
                "dry_run": _DRY_RUN,
            },
            "transcript",
            "dry_run",
        )
    }
)
LOG = _of({"id": _TEXT, "agent_name": _TEXT, "status": {"type": "string", "enum": STATUSES}, "transcript": TRANSCRIPT})

_FAILURES = _list_of(
    _of(
        {
            "id": {**_TEXT, "description": "Of the newest"},
            "agent_name": _TEXT,
            "message": _TEXT,
            "error": _or_null(_TEXT, "Why"),
            "failed_at": _TIME,
            "times": {**_COUNT, "description": "How often the agent failed like this, but for numbers and ids"},
            "first_failed_at": {**_TIME, "description": "Of the oldest of these"},
        }
    )
)
_COUNTS = {
    "total_executions": _COUNT,
    "successful": _COUNT,
    "failed": _COUNT,
    "running": _COUNT,
    "success_rate": _RATE,
    "total_cost_usd": {"type": "number"},
}
AGENT_SUMMARY = _of(
    {
        "agent_name": _TEXT,
        "summary": _of(
            {
                **_COUNTS,
                "avg_duration_seconds": _or_null({"type": "number"}, "Null when nothing has ended [s]"),
                "last_execution_at": _or_null(_TIME, "Null when there was none"),
                "last_execution_status": {"type": ["string", "null"], "enum": [*STATUSES, None]},
                "is_busy": {"type": "boolean"},
                "queue_length": _COUNT,
            }
        ),
        "recent_failures": _FAILURES,
    }
)
_BY_AGENT = _of(
    {
        "agent_name": _TEXT,
        "executions": _COUNT,
        "success_rate": _RATE,
        "cost_usd": {"type": "number"},
        "status": {"type": "string", "enum": ["idle", "running"]},
    }
)
FLEET_SUMMARY = _of(
    {
        "fleet_summary": _of({"total_agents": _COUNT, "agents_with_activity": _COUNT, **_COUNTS}),
        "by_agent": _list_of(_BY_AGENT),
        "by_client": _list_of(_BY_AGENT),
        "recent_failures": _FAILURES,
    }
)
SUMMARY = {"type": "object", "anyOf": [AGENT_SUMMARY, FLEET_SUMMARY]}
"""MCP wants an object at the top of an output schema."""
