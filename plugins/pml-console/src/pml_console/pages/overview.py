"""Now: what runs, how the servers are, and what the last day was like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_console.gateways import others_of
from pml_console.history import RefusedError

from .approvals import requests_of
from .clients import clients_of, ways_in_of
from .servers import may_operate, next_attempts_of, notice_of, servers_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.gateways import GatewayState
    from pml_console.visit import Visit

HOURS, MOST_RUNNING, MOST_RECENT, MOST_LISTED = 24, 20, 20, 100
RUNNING_HOURS = 168
RUNNING = frozenset({"running"})


async def now(visit: Visit) -> Response:
    """The first page."""
    return visit.page("now.html", notice=notice_of(visit), **await state_of(visit))


async def state_of(visit: Visit) -> Mapping[str, Any]:
    """What the first page shows, and goes on showing."""
    running = await visit.history.call(
        "list_recent_executions", {"status": "running", "hours": RUNNING_HOURS, "limit": MOST_RUNNING}
    )
    # Among what is newest there may be all that runs, which is not listed twice.
    limit = min(MOST_RECENT + running["total_count"], MOST_LISTED)
    recent = await visit.history.call("list_recent_executions", {"hours": HOURS, "limit": limit})
    others = await _others(visit)
    ended = [one for one in recent["executions"] if one["status"] != "running"]
    return {
        "running": running["executions"],
        "running_total": running["total_count"],
        "recent": ended[:MOST_RECENT],
        "recent_total": recent["total_count"],
        "servers": servers_of(visit),
        "next_attempts": next_attempts_of(visit),
        "others": others,
        "ways_in": await ways_in_of(visit, others),
        "operates": may_operate(visit),
        "waiting": await _waiting(visit),
        "hours": HOURS,
    }


async def mark_of(visit: Visit) -> object:
    """Differs whenever :func:`state_of` says something new, and costs a fraction of it.

    But for what one of two executions does while another does the opposite, and what only time makes different.
    """
    begun = await visit.history.mark(HOURS)
    running = await visit.history.mark(RUNNING_HOURS, statuses=RUNNING)
    others = tuple((one.name, one.servers, one.clients) for one in await _others(visit))
    servers, attempts = tuple(servers_of(visit)), tuple(next_attempts_of(visit).items())
    return (
        begun,
        running,
        servers,
        attempts,
        tuple(clients_of(visit)),
        may_operate(visit),
        others,
        await _waiting(visit),
    )


async def _others(visit: Visit) -> Sequence[GatewayState]:
    """The other gateways on this store, for whoever sees everything."""
    return await others_of(visit.site.services, visit.site.leases) if visit.sees_everything else ()


async def _waiting(visit: Visit) -> int | None:
    """How many requests wait for an answer; None for a reader who may not answer any."""
    try:
        return len(await requests_of(visit))
    except RefusedError:
        return None
