"""What clients read of the tools; the types of their arguments are those of the clients in Python, too."""

from __future__ import annotations

from typing import Annotated, Any, Required, TypeAlias, TypedDict

from pml_hookspecs import QUESTIONS

from .client_results import ExecutionStatus, TriggeredBy
from .questions import QUESTIONS_BY_TOOL
from .shapes import FOUND, PAGE, RESULT, SUMMARY, schema_of

LONGEST_HOURS = 168
MOST_LISTED = 100
LONGEST_TEXT = 10_000
"""Longest text in a call [characters]."""

LookBack: TypeAlias = Annotated[float | None, ("minimum", 1), ("maximum", LONGEST_HOURS), ("default", 24)]
PageSize: TypeAlias = Annotated[int | None, ("minimum", 1), ("maximum", MOST_LISTED), ("default", 20)]
Since: TypeAlias = Annotated[
    str | None,
    "From when on, in place of hours, as far back as history is kept: a date or time in ISO 8601 (UTC "
    "unless it says its zone), or an age such as 30d",
]
Until: TypeAlias = Annotated[
    str | None, "Until when, a date to its end; hours count back from here. Omit for now."
]  # fmt: skip


class Times(TypedDict, total=False):
    """Which time a summary is about."""

    hours: Annotated[LookBack, "Look back period in hours (default 24)"]
    since: Since
    until: Until


class SummaryArguments(Times, total=False):
    """What ``get_agent_activity_summary`` takes."""

    agent_name: Annotated[str | None, "Specific agent to summarize. Omit for fleet-wide summary."]


class Filters(TypedDict, total=False):
    """What ``list_recent_executions`` takes, and ``search_executions`` with a query."""

    agent_name: Annotated[str | None, "Filter by specific agent name. Omit for all accessible agents."]
    status: Annotated[ExecutionStatus | None, "Filter by execution status"]
    triggered_by: Annotated[TriggeredBy | None, "Filter by trigger source"]
    person: Annotated[str | None, "Filter by whose key asked for it"]
    tool: Annotated[str | None, "Calls of this tool (server:tool, or server:* for any of it), inside others as well"]
    hours: Annotated[LookBack, f"Look back period in hours (default 24, max {LONGEST_HOURS})"]
    since: Since
    until: Until
    limit: Annotated[PageSize, f"Maximum results to return (default 20, max {MOST_LISTED})"]
    cursor: Annotated[str | None, "next_cursor of the page before. Omit for the first page."]


class ResultArguments(TypedDict, total=False):
    """What ``get_execution_result`` takes."""

    agent_name: Required[Annotated[str, "Name of the agent that ran the execution"]]
    execution_id: Required[
        Annotated[str, "Execution ID (returned from async chat_with_agent or list_recent_executions)"]
    ]
    include_transcript: Annotated[bool, "Include full execution transcript (can be large)", ("default", False)]
    select: Annotated[str | None, "JMESPath: what of the response"]


def _tool(name: str, description: str, takes: dict[str, Any], answers: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "inputSchema": {**takes, "additionalProperties": False},
        "outputSchema": answers,
        "annotations": {"readOnlyHint": True},
        "_meta": {QUESTIONS: [*QUESTIONS_BY_TOOL[name]]},
    }


def _with_query(takes: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a list as those of a search, which looks as far back as it can."""
    words = "Words, or beginnings of words, that must all occur, in any order and case"
    query, filters = {"type": "string", "description": words}, takes["properties"]
    about = f"Look back period in hours (default {LONGEST_HOURS}, max {LONGEST_HOURS})"
    hours = {**filters["hours"], "default": LONGEST_HOURS, "description": about}
    return {**takes, "properties": {"query": query, **filters, "hours": hours}, "required": ["query"]}


LIST_RECENT_EXECUTIONS = _tool(
    "list_recent_executions",
    "List recent task executions across agents. Use to monitor what happened, check task completion status, or find "
    "specific executions.",
    schema_of(Filters, nulls=False),
    PAGE,
)
SEARCH_EXECUTIONS = _tool(
    "search_executions",
    "Find past executions by words in what was asked, answered or went wrong. Use when you know what an execution was "
    "about, but not its id.",
    _with_query(schema_of(Filters, nulls=False)),
    FOUND,
)
GET_EXECUTION_RESULT = _tool(
    "get_execution_result",
    "Get the full result of a specific execution including output, cost, and optionally the execution transcript. Use "
    "after triggering async tasks or to inspect historical execution details.",
    schema_of(ResultArguments, nulls=False),
    RESULT,
)
GET_AGENT_ACTIVITY_SUMMARY = _tool(
    "get_agent_activity_summary",
    "Get a high-level summary of agent activity and health. Use for monitoring dashboards, health checks, or "
    "understanding agent workload.",
    schema_of(SummaryArguments, nulls=False),
    SUMMARY,
)
