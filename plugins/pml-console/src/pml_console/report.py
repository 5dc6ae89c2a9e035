"""What happened in a span of time, as one document: for a page to mail, or for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionQuery, Scope, Status, replace

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Executions, Grouping

FAILED = frozenset(str(status) for status in Status if not status.good and status is not Status.INPUT_REQUIRED)
MOST_FAILURES = 500
"""Failures that are looked through, the newest."""
PAGE = 100
CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
"""What differs between failures that are alike."""


async def report_of(executions: Executions, since: datetime, until: datetime) -> dict[str, Any]:
    """Runs and cost by agent, person and tool, and failures that are alike as one.

    Returns:
        ``{"since", "until", "runs", "succeeded", "failed", "running", "cost_usd", "agents", "people", "tools",
        "failures"}``; groups are lists, the most expensive first and then those with most runs.
    """
    query = ExecutionQuery(scope=Scope(principals=None), since=since, until=until, top_level=True)
    people = await _groups(executions, query, "principal")
    return {
        "since": since.isoformat(),
        "until": until.isoformat(),
        **{name: sum(group[name] for group in people) for name in ("runs", "succeeded", "failed", "running")},
        "cost_usd": round(sum(group["cost_usd"] for group in people), 6),
        "agents": await _groups(executions, query, "agent"),
        "people": people,
        "tools": await _groups(executions, replace(query, top_level=False), "tool"),
        "failures": await _failures(executions, query),
    }


async def _groups(executions: Executions, query: ExecutionQuery, by: Grouping) -> list[dict[str, Any]]:
    groups = [
        {
            "name": total.group,
            "runs": total.executions,
            "succeeded": total.succeeded,
            "failed": total.failed,
            "running": total.running,
            "cost_usd": round(total.cost_usd, 6),
        }
        for total in await executions.totals(query, by)
        if total.group
    ]
    return sorted(groups, key=lambda group: (-group["cost_usd"], -group["runs"], group["name"]))


async def _failures(executions: Executions, query: ExecutionQuery) -> list[dict[str, Any]]:
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    query, seen = replace(query, statuses=FAILED, limit=PAGE), 0
    while seen < MOST_FAILURES:
        page = await executions.find(query)
        for record in page.items:
            alike = found.setdefault(_likeness(record), {**_failure(record), "times": 0})
            alike["times"] += 1
            alike["first_at"] = record.started_at.isoformat()
        seen += len(page.items)
        if page.cursor is None:
            break
        query = replace(query, cursor=page.cursor)
    return sorted(found.values(), key=lambda failure: (-failure["times"], failure["last_at"]))


def _failure(record: ExecutionRecord) -> Mapping[str, Any]:
    return {
        "id": record.id,
        "who": record.agent or record.principal,
        "what": record.intent or record.target or record.kind,
        "why": record.failure.message if record.failure is not None else str(record.status),
        "last_at": record.started_at.isoformat(),
    }


def _likeness(record: ExecutionRecord) -> tuple[str, ...]:
    failure = _failure(record)
    return (failure["who"], CHANGING.sub("…", failure["what"]), CHANGING.sub("…", failure["why"]))
