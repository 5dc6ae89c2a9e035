"""Now: what runs, how the servers are, and what the last day was like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_console.history import RefusedError

from .approvals import requests_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit

HOURS, MOST_RUNNING, MOST_RECENT = 24, 50, 20


async def now(visit: Visit) -> Response:
    """The first page."""
    return visit.page("now.html", **await state_of(visit))


async def state_of(visit: Visit) -> Mapping[str, Any]:
    """What the first page shows, and goes on showing."""
    running = await visit.history.call(
        "list_recent_executions", {"status": "running", "hours": 168, "limit": MOST_RUNNING}
    )
    recent = await visit.history.call("list_recent_executions", {"hours": HOURS, "limit": MOST_RECENT})
    servers = visit.site.services.catalog.servers(visit.session)
    return {
        "running": running["executions"],
        "running_total": running["total_count"],
        "recent": [one for one in recent["executions"] if one["status"] != "running"],
        "servers": sorted(servers, key=lambda server: (server.state == "up", server.name)),
        "waiting": await _waiting(visit),
        "hours": HOURS,
    }


async def _waiting(visit: Visit) -> int | None:
    """How many requests wait for an answer; None for a reader who may not answer any."""
    try:
        return len(await requests_of(visit))
    except RefusedError:
        return None
