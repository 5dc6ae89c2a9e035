"""What happened in a span of time, as one document: for a page, for mail, or for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionQuery, Scope, Status, replace
from pml_kit.pages import every_execution

from .changes import approvals_of, news_of

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Executions, Grouping, Store, Total

WAITS = frozenset({str(Status.INPUT_REQUIRED)})
"""Statuses of what has not ended, but waits for somebody's answer."""
COUNTS = ("runs", "succeeded", "failed", "running", "waiting")
FAILED = frozenset(str(status) for status in Status if not status.good and status is not Status.INPUT_REQUIRED)
MOST_FAILURES = 500
"""Failures that are looked through, the newest."""
PAGE = 100
CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
"""What differs between failures that are alike."""


EVERYTHING = Scope(principals=None)


@dataclass(frozen=True, slots=True)
class Reader:
    """For whom a report is."""

    counted: Scope = EVERYTHING
    """Executions that count."""
    read: Scope = EVERYTHING
    """Executions of which it tells why they failed."""
    principal: str | None = None
    """Whose approvals it tells, asked for or given; None for everybody's."""
    tools: frozenset[str] | None = None
    """Tools whose changes it tells; None for all, and of new servers as well."""


EVERYBODY = Reader()
"""Whoever can read the store."""


async def report_of(store: Store, since: datetime, until: datetime, reader: Reader = EVERYBODY) -> dict[str, Any]:
    """Runs and cost by agent, person and tool, failures that are alike as one, what was approved and what was new.

    Returns:
        ``{"since", "until", "runs", "succeeded", "failed", "running", "waiting", "cost_usd", "agents", "people",
        "tools", "failures", "approvals", "news"}``; groups are lists, the most expensive first and then those with most
        runs; approvals and news are as :func:`changes.approvals_of` and :func:`changes.news_of` have them.
    """
    executions = store.executions
    query = ExecutionQuery(scope=reader.counted, since=since, until=until, top_level=True)
    people = await _groups(executions, query, "principal")
    return {
        "since": since.isoformat(),
        "until": until.isoformat(),
        **{name: sum(group[name] for group in people) for name in COUNTS},
        "cost_usd": round(sum(group["cost_usd"] for group in people), 6),
        "agents": await _groups(executions, query, "agent"),
        "people": people,
        "tools": await _groups(executions, replace(query, top_level=False), "tool"),
        "failures": await failures_of(executions, replace(query, scope=reader.read)),
        "approvals": await approvals_of(store.documents, since, until, reader.principal),
        "news": await news_of(store.documents, since, until, reader.tools),
    }


async def totals_of(executions: Executions, query: ExecutionQuery, by: Grouping) -> list[tuple[Total, int]]:
    """Sums of the groups that have a name, and how many of those that a sum counts as failed wait for somebody."""
    waits = await executions.totals(replace(query, statuses=WAITS), by)
    waiting = {total.group: total.executions for total in waits}
    return [(total, waiting.get(total.group, 0)) for total in await executions.totals(query, by) if total.group]


async def _groups(executions: Executions, query: ExecutionQuery, by: Grouping) -> list[dict[str, Any]]:
    groups = [
        {
            "name": total.group,
            "runs": total.executions,
            "succeeded": total.succeeded,
            "failed": total.failed - waiting,
            "running": total.running,
            "waiting": waiting,
            "cost_usd": round(total.cost_usd, 6),
        }
        for total, waiting in await totals_of(executions, query, by)
    ]
    return sorted(groups, key=lambda group: (-group["cost_usd"], -group["runs"], group["name"]))


async def failures_of(executions: Executions, query: ExecutionQuery) -> list[dict[str, Any]]:
    """Failures of what ``query`` asks for, those that differ in numbers and ids only as one, the most frequent first.

    Of the newest :data:`MOST_FAILURES`. Each is ``{"id", "who", "what", "why", "last_at", "first_at", "times"}``; all
    but the last two are those of the newest that is alike.
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    failed = replace(query, statuses=FAILED, limit=PAGE)
    async for record in every_execution(executions, failed, most=MOST_FAILURES):
        alike = found.setdefault(_likeness(record), {**_failure(record), "times": 0})
        alike["times"] += 1
        alike["first_at"] = record.started_at.isoformat()
    return sorted(found.values(), key=lambda failure: -failure["times"])


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
