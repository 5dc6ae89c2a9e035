"""What executions add up to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from pml_hookspecs import AgentActivity, Total, split_tool_id

from .matching import GOOD, OPEN

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Grouping

MICROS = 1_000_000
"""Costs are added up in millionths of a dollar, so that sums are exact."""


def activity(records: Iterable[ExecutionRecord]) -> list[AgentActivity]:
    """One row per agent, most executions first, ties by agent."""
    rows = [
        AgentActivity(agent, **_sums(those), last_started_at=max(record.started_at for record in those))
        for agent, those in _grouped(records, "agent").items()
    ]
    return sorted(rows, key=lambda row: (-row.executions, row.agent))


def totals(records: Iterable[ExecutionRecord], by: Grouping) -> list[Total]:
    """One row per group, dearest first, then most executions, then by group; days in their order."""
    rows = [
        Total(
            group=group,
            **_sums(those),
            tokens_in=sum(record.tokens_in or 0 for record in those),
            tokens_out=sum(record.tokens_out or 0 for record in those),
        )
        for group, those in _grouped(records, by).items()
    ]
    return sorted(rows, key=lambda row: row.group if by == "day" else (-row.cost_usd, -row.executions, row.group))


def group_of(record: ExecutionRecord, by: Grouping) -> str:
    """Where ``record`` is counted."""
    if by == "agent":
        return record.agent
    if by == "key":
        return record.access_key
    if by == "day":
        return record.started_at.astimezone(UTC).date().isoformat()
    if record.kind != "tool":
        return ""
    return record.target if by == "tool" else split_tool_id(record.target)[0]


def _grouped(records: Iterable[ExecutionRecord], by: Grouping) -> dict[str, list[ExecutionRecord]]:
    groups: dict[str, list[ExecutionRecord]] = defaultdict(list)
    for record in records:
        groups[group_of(record, by)].append(record)
    return groups


def _sums(records: Sequence[ExecutionRecord]) -> dict[str, Any]:
    good = sum(record.status in GOOD for record in records)
    running = sum(record.status in OPEN for record in records)
    times = [record.duration_ms for record in records if record.duration_ms is not None]
    return {
        "executions": len(records),
        "succeeded": good,
        "failed": len(records) - good - running,
        "running": running,
        "cost_usd": sum(round((record.cost_usd or 0) * MICROS) for record in records) / MICROS,
        "mean_duration_ms": round(sum(times) / len(times)) if times else None,
    }
