"""History: what ran, as a list or by why it failed, narrowed by what a reader asks for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit

PERIODS = {"24": "24 hours", "48": "2 days", "168": "7 days"}
FILTERS = ("query", "agent_name", "person", "tool", "status", "triggered_by", "hours")
"""Those that the history's tools have, but times and the page."""
TIMES = ("since", "until")
GIVEN = (*FILTERS, *TIMES, "view", "cursor")
LIMIT = 50
STATUSES = ("success", "failed", "running", "pending")
TRIGGERS = ("mcp", "agent", "schedule", "manual")
CAUSES = "causes"


async def history(visit: Visit) -> Response:
    """Executions by what the reader asks for, or their failures, alike ones as one."""
    given = {name: value for name in GIVEN if (value := visit.request.query_params.get(name, "").strip())}
    given |= {name: in_utc(given[name]) for name in TIMES if name in given}
    by_cause = given.get("view") == CAUSES
    kept = {name: value for name, value in given.items() if name not in ("cursor", "view")}
    found: Mapping[str, Any] = {"executions": (), "total_count": 0}
    causes: list[dict[str, Any]] = []
    if by_cause:
        causes = await visit.history.failures(_arguments(given))
    else:
        tool = "search_executions" if "query" in given else "list_recent_executions"
        found = await visit.history.call(tool, {**_arguments(given), "limit": LIMIT})
    more = found.get("next_cursor")
    return visit.page(
        "history.html",
        found=found,
        causes=causes,
        by_cause=by_cause,
        given={name: given.get(name, "") for name in GIVEN},
        periods=PERIODS,
        statuses=STATUSES,
        triggers=TRIGGERS,
        as_list=f"?{urlencode(kept)}",
        as_causes=f"?{urlencode({**kept, 'view': CAUSES})}",
        next_page=f"?{urlencode({**kept, 'cursor': more})}" if more else "",
    )


def _arguments(given: Mapping[str, str]) -> dict[str, Any]:
    asked = {name: given[name] for name in (*FILTERS, *TIMES, "cursor") if name in given}
    return {**asked, "hours": hours_of(given.get("hours"))}


def in_utc(text: str) -> str:
    """A time in UTC, which one without a zone is in: a script sends them with it. What is none stays as it is."""
    try:
        at = datetime.fromisoformat(text)
        if "T" not in text:
            return text
        at = at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return at.isoformat().replace("+00:00", "Z")


def hours_of(given: str | None) -> int:
    """The period that was chosen [h]; a day for any other."""
    return int(given) if given in PERIODS else 24
