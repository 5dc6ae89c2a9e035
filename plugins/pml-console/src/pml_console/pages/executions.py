"""History: lists of what ran, one execution, and what happened since yesterday."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pml_console.history import plain

from .plan_graph import graph_of
from .timeline import bars_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit

NOT_FOUND = 404
NO_SUCH = "There is no such execution, or it is not yours to read. History is kept for as long as [history] says."
PERIODS = {"24": "24 hours", "48": "2 days", "168": "7 days"}
FILTERS = ("query", "agent_name", "status", "triggered_by", "hours", "cursor")
LIMIT = 50
STATUSES = ("success", "failed", "running", "pending")
TRIGGERS = ("mcp", "agent", "schedule", "manual")


async def history(visit: Visit) -> Response:
    """Executions by what the reader asks for."""
    given = {name: value for name in FILTERS if (value := visit.request.query_params.get(name, "").strip())}
    arguments: dict[str, Any] = {**given, "limit": LIMIT, "hours": _hours(given.get("hours"))}
    tool = "search_executions" if "query" in given else "list_recent_executions"
    found = await visit.history.call(tool, arguments)
    kept = {name: value for name, value in given.items() if name != "cursor"}
    more = found.get("next_cursor")
    return visit.page(
        "history.html",
        found=found,
        given={name: given.get(name, "") for name in FILTERS},
        periods=PERIODS,
        statuses=STATUSES,
        triggers=TRIGGERS,
        next_page=f"?{urlencode({**kept, 'cursor': more})}" if more else "",
    )


def _hours(given: str | None) -> int:
    return int(given) if given in PERIODS else 24


async def execution(visit: Visit) -> Response:
    """One execution: its plan as a graph, what ran inside as bars, what was asked and answered."""
    record = await visit.history.record(visit.request.path_params["id"])
    if record is None:
        return visit.page("problem.html", NOT_FOUND, problem=NO_SUCH)
    inside = await visit.history.inside(record.id)
    response = plain(record.response)
    return visit.page(
        "execution.html",
        record=record,
        request=plain(record.request),
        response=response,
        graph=graph_of(record.request, response),
        bars=bars_of(record, inside, datetime.now(UTC)),
        running=record.duration_ms is None,
    )


async def report(visit: Visit) -> Response:
    """What happened in the last day: by agent, with failures grouped, and what it cost."""
    given = visit.request.query_params.get("hours", "")
    hours = _hours(given)
    summary: Mapping[str, Any] = await visit.history.call("get_agent_activity_summary", {"hours": hours})
    return visit.page("report.html", summary=summary, hours=str(hours), periods=PERIODS)
