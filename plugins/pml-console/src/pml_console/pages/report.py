"""Last night: what happened in a span of time, as ``pml report`` tells it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from .history import PERIODS, hours_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit


async def report(visit: Visit) -> Response:
    """Runs and their cost, failures that are alike as one, what was approved and what was new."""
    hours, now = hours_of(visit.request.query_params.get("hours", "")), datetime.now(UTC)
    told = await visit.history.report(now - timedelta(hours=hours), now)
    return visit.page("report.html", report=told, hours=str(hours), periods=PERIODS)
