"""What the history answers, described once: types for Python programs, and by :mod:`.shapes` schemas for clients.

Times are texts in ISO 8601, UTC, with ``Z``; what may be None is null in JSON.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypedDict

ExecutionStatus: TypeAlias = Literal["pending", "running", "success", "failed"]
TriggeredBy: TypeAlias = Literal["manual", "schedule", "agent", "mcp"]
Count: TypeAlias = Annotated[int, ("minimum", 0)]
Time: TypeAlias = Annotated[str, ("format", "date-time")]
EndedAt: TypeAlias = Annotated[Time | None, "Null until it ends"]
Duration: TypeAlias = Annotated[float | None, "Null until it ends [s]"]
Cost: TypeAlias = Annotated[float | None, "Null when nobody knows [USD]"]
DryRun: TypeAlias = Annotated[bool, "True for a rehearsal; else not there"]
Rate: TypeAlias = Annotated[float | None, "Of those that ended, how many succeeded [%]; null when none has ended"]
Tokens: TypeAlias = Annotated[int | None, "Null when nobody knows [tokens]"]
Transcript: TypeAlias = Annotated[
    list[dict[str, Any]], "What an agent said and did; of all else the request, and what ran inside"
]
MOST_FOUND = 1000
"""Number up to which stores count what is found by text; see :class:`pml_hookspecs.Page`."""
ALL_MATCHES = "All matches, those on other pages included"
SOME_MATCHES = f"{ALL_MATCHES}; {MOST_FOUND} says that there are as many or more"


class Execution(TypedDict):
    """One line of a list."""

    id: str
    agent_name: str
    status: ExecutionStatus
    triggered_by: TriggeredBy
    message: str
    started_at: Time
    completed_at: EndedAt
    duration_seconds: Duration
    cost_usd: Cost
    has_error: bool
    dry_run: NotRequired[DryRun]


class FiltersApplied(TypedDict):
    """What a list was narrowed by."""

    agent_name: Annotated[str | None, "Null for all"]
    status: ExecutionStatus | None
    triggered_by: TriggeredBy | None
    person: Annotated[str | None, "Null for all"]
    tool: Annotated[str | None, "Null for all"]
    hours: Annotated[float | None, "Null where since says from when on"]
    since: Annotated[Time | None, "Null where hours say from when on"]
    until: Annotated[Time | None, "Null for now"]
    limit: int


class SearchFiltersApplied(FiltersApplied):
    """The same of a search."""

    query: str


class _Page(TypedDict):
    executions: list[Execution]
    next_cursor: NotRequired[Annotated[str, "For the next page; not there on the last one"]]


class ExecutionList(_Page):
    """One page, newest first."""

    total_count: Annotated[Count, ALL_MATCHES]
    filters_applied: FiltersApplied


class SearchResult(_Page):
    """One page of a search, newest first."""

    total_count: Annotated[Count, SOME_MATCHES]
    filters_applied: SearchFiltersApplied


class ExecutionLog(TypedDict):
    """What one execution did."""

    id: str
    agent_name: str
    status: ExecutionStatus
    transcript: Transcript


class ExecutionDetail(TypedDict):
    """One execution."""

    id: str
    agent_name: str
    status: ExecutionStatus
    message: str
    response: Annotated[Any, "Any JSON value; an agent's is its text. Null until it ends"]
    error: Annotated[str | None, "Null when it did not fail"]
    started_at: Time
    completed_at: EndedAt
    duration_seconds: Duration
    cost_usd: Cost
    context_used: Tokens
    context_max: Tokens
    tool_calls: list[str]
    transcript: NotRequired[Transcript]
    """Only there when asked for."""
    dry_run: NotRequired[DryRun]


class ExecutionResult(TypedDict):
    """The answer for one execution."""

    execution: ExecutionDetail


class RecentFailure(TypedDict):
    """One of the newest failures; an agent's alike ones are one."""

    id: Annotated[str, "Of the newest"]
    agent_name: str
    message: str
    error: Annotated[str | None, "Why"]
    failed_at: Time
    times: Annotated[Count, "How often the agent failed like this, but for numbers and ids"]
    first_failed_at: Annotated[Time, "Of the oldest of these"]


class _Counts(TypedDict):
    total_executions: Count
    successful: Count
    failed: Count
    running: Count
    success_rate: Rate
    total_cost_usd: float


class Summary(_Counts):
    """What one agent did."""

    avg_duration_seconds: Annotated[float | None, "Null when nothing has ended [s]"]
    last_execution_at: Annotated[Time | None, "Null when there was none"]
    last_execution_status: ExecutionStatus | None
    is_busy: bool
    queue_length: Count


class AgentSummary(TypedDict):
    """The answer for one agent."""

    agent_name: str
    summary: Summary
    recent_failures: list[RecentFailure]


class FleetTotals(_Counts):
    """What all agents did."""

    total_agents: Count
    agents_with_activity: Count


class AgentLine(TypedDict):
    """One agent, or one client, among others."""

    agent_name: str
    executions: Count
    success_rate: Rate
    cost_usd: float
    status: Literal["idle", "running"]


class FleetSummary(TypedDict):
    """The answer for all agents."""

    fleet_summary: FleetTotals
    by_agent: list[AgentLine]
    by_client: list[AgentLine]
    """Under the names that clients give themselves, which prove nothing."""
    recent_failures: list[RecentFailure]
