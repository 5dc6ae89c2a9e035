"""What the page shows, from sums that the store keeps and from a bounded number of the newest executions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_console.reports.report import totals_of
from pml_hookspecs import GATEWAY_SERVER, ExecutionQuery, Scope, replace
from pml_kit.pages import every_execution

from .list_tokens import tokens_by_day
from .relations import relations_of

if TYPE_CHECKING:
    from pml_hookspecs import Executions, Services, Session, Total

    from .list_tokens import TokenSizes

MOST_SERVERS = 10
"""Servers whose times are looked at, those with most calls."""
MOST_CALLS = 100
"""Newest calls of each of them that are."""
MOST_PLANS = 500
"""Newest executions that are looked through for tools that were used together."""
PAGE = 100


async def figures_of(
    services: Services, session: Session, days: int, sizes: TokenSizes, *, counted: Scope, read: Scope
) -> dict[str, Any]:  # fmt: skip
    """Sums of the last ``days`` for whoever may know of executions in ``counted``, and read those in ``read``.

    Returns:
        ``tokens`` as :func:`list_tokens.tokens_by_day` has them; ``servers``, those with most calls first;
        ``relations`` as :func:`relations.relations_of` has them.
    """
    executions = services.store.executions
    query = ExecutionQuery(scope=counted, since=midnight(days), include_dry_runs=False, limit=PAGE)
    plans = every_execution(executions, replace(query, scope=read, top_level=True), most=MOST_PLANS)
    return {
        "tokens": await tokens_by_day(services, session, query, sizes),
        "servers": await _servers(executions, query),
        "relations": relations_of([record.tool_calls async for record in plans]),
    }


def midnight(days: int) -> datetime:
    """When the first of the last ``days`` began, of which today is one [UTC, as the days of stores are]."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=days - 1)


async def _servers(executions: Executions, query: ExecutionQuery) -> list[dict[str, Any]]:
    totals = [one for one in await totals_of(executions, query, "server") if one[0].group != GATEWAY_SERVER]
    totals.sort(key=lambda one: (-one[0].executions, one[0].group))
    times = {total.group: await _times_ms(executions, query, total.group) for total, _ in totals[:MOST_SERVERS]}
    return [_server(total, waiting, times.get(total.group, ())) for total, waiting in totals]


async def _times_ms(executions: Executions, query: ExecutionQuery, server: str) -> list[int]:
    calls = every_execution(executions, replace(query, target=f"{server}:*"), most=MOST_CALLS)
    return sorted([call.duration_ms async for call in calls if call.duration_ms is not None])


def _server(total: Total, waiting: int, times_ms: Sequence[int]) -> dict[str, Any]:
    failed = total.failed - waiting
    ended = total.succeeded + failed
    return {
        "name": total.group,
        "calls": total.executions,
        "failed": failed,
        "failed_percent": round(100 * failed / ended, 1) if ended else None,
        "mean_ms": total.mean_duration_ms,
        "p50_ms": percentile(times_ms, 50),
        "p95_ms": percentile(times_ms, 95),
        "timed": len(times_ms),
    }


def percentile(values: Sequence[int], percent: float) -> int | None:
    """The least of sorted ``values`` that so many percent of them are not above; None of none."""
    return values[max(0, math.ceil(len(values) * percent / 100) - 1)] if values else None
