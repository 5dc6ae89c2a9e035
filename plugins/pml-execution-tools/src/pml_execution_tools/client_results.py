"""What the history answers over HTTP, typed; times are texts in ISO 8601, UTC, with ``Z``."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

ExecutionStatus: TypeAlias = Literal["pending", "running", "success", "failed"]
TriggeredBy: TypeAlias = Literal["manual", "schedule", "agent", "mcp"]


class Execution(TypedDict):
    """One line of a list."""

    id: str
    agent_name: str
    status: ExecutionStatus
    triggered_by: TriggeredBy
    message: str
    started_at: str
    completed_at: str | None
    """None until it ends, as all that is None here."""
    duration_seconds: float | None
    cost_usd: float | None
    has_error: bool
    dry_run: NotRequired[bool]
    """Only there, and true, for rehearsals."""


class FiltersApplied(TypedDict):
    """Null is what was not filtered by."""

    query: NotRequired[str]
    """The words that a search asked for."""
    agent_name: str | None
    status: ExecutionStatus | None
    triggered_by: TriggeredBy | None
    hours: float | None
    since: str | None
    until: str | None
    limit: int


class ExecutionList(TypedDict):
    """One page, newest first."""

    executions: list[Execution]
    total_count: int
    """All matches, those on other pages included."""
    filters_applied: FiltersApplied
    next_cursor: NotRequired[str]
    """Not there on the last page."""


class ExecutionDetail(TypedDict):
    """One execution."""

    id: str
    agent_name: str
    status: ExecutionStatus
    message: str
    response: Any
    """The text of an agent, or the result of a tool; None until it ends."""
    error: str | None
    started_at: str
    completed_at: str | None
    duration_seconds: float | None
    cost_usd: float | None
    context_used: int | None
    context_max: int | None
    tool_calls: list[str]
    transcript: NotRequired[list[dict[str, Any]]]
    """Only there when asked for."""
    dry_run: NotRequired[bool]
    """Only there, and true, for rehearsals."""


class ExecutionResult(TypedDict):
    """The answer for one execution."""

    execution: ExecutionDetail


class RecentFailure(TypedDict):
    """One of the newest failures; an agent's alike ones are one."""

    id: str
    agent_name: str
    message: str
    error: str | None
    failed_at: str
    times: int
    first_failed_at: str


class Summary(TypedDict):
    """What one agent did."""

    total_executions: int
    successful: int
    failed: int
    running: int
    success_rate: float | None
    """Share of successes among those that ended [%]; None when none has ended."""
    total_cost_usd: float
    avg_duration_seconds: float | None
    last_execution_at: str | None
    last_execution_status: ExecutionStatus | None
    is_busy: bool
    queue_length: int


class AgentSummary(TypedDict):
    """The answer for one agent."""

    agent_name: str
    summary: Summary
    recent_failures: list[RecentFailure]


class FleetTotals(TypedDict):
    """What all agents did."""

    total_agents: int
    agents_with_activity: int
    total_executions: int
    successful: int
    failed: int
    running: int
    success_rate: float | None
    total_cost_usd: float


class AgentLine(TypedDict):
    """One agent, or one client, among others."""

    agent_name: str
    executions: int
    success_rate: float | None
    cost_usd: float
    status: Literal["idle", "running"]


class FleetSummary(TypedDict):
    """The answer for all agents."""

    fleet_summary: FleetTotals
    by_agent: list[AgentLine]
    by_client: list[AgentLine]
    """Under the names that clients give themselves, which prove nothing."""
    recent_failures: list[RecentFailure]
