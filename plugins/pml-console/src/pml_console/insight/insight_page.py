"""Insight: tokens saved, times and errors by server, and tools that are used together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit

PERIODS = {"7": "7 days", "14": "14 days", "30": "30 days"}


async def insight(visit: Visit) -> Response:
    """Sums of the last days, each with its numbers as a table."""
    given = visit.request.query_params.get("days", "")
    days = given if given in PERIODS else "7"
    figures = await visit.history.figures(int(days), visit.site.sizes)
    most = max((one[side] for one in figures["tokens"]["days"] for side in ("direct", "put")), default=0)
    slowest = max((one["p95_ms"] or 0 for one in figures["servers"]), default=0)
    return visit.page(
        "insight.html", **figures, days=days, periods=PERIODS, most_tokens=max(1, most), slowest_ms=max(1, slowest)
    )
