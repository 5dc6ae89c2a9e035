"""What executions add up to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import AgentActivity, ExecutionRecord, Total, split_tool_id

if TYPE_CHECKING:
    from pml_hookspecs.store import Grouping

RUNNING, GOOD = ("pending", "running"), ("ok", "simulated")


def activity(records: Iterable[ExecutionRecord]) -> Sequence[AgentActivity]:
    """One row per agent, most executions first."""
    groups = _grouped(records, lambda record: record.agent)
    last = {agent: max(record.started_at for record in mine) for agent, mine in groups.items()}
    rows = [AgentActivity(agent, **_sums(mine), last_started_at=last[agent]) for agent, mine in groups.items()]
    return sorted(rows, key=lambda row: (-row.executions, row.agent))


def totals(records: Iterable[ExecutionRecord], by: Grouping) -> Sequence[Total]:
    """One row per group, dearest first; days in their order."""
    groups = _grouped(records, lambda record: _group_of(record, by))
    rows = [Total(group=group, **_sums(mine), **_tokens(mine)) for group, mine in groups.items()]
    rows.sort(key=lambda row: row.group)
    return rows if by == "day" else sorted(rows, key=lambda row: (-row.cost_usd, -row.executions))


def _grouped(
    records: Iterable[ExecutionRecord], group_of: Callable[[ExecutionRecord], str]
) -> dict[str, list[ExecutionRecord]]:
    groups = defaultdict(list)
    for record in records:
        groups[group_of(record)].append(record)
    return groups


def _group_of(record: ExecutionRecord, by: Grouping) -> str:
    if by == "day":
        return record.started_at.date().isoformat()
    if by in ("agent", "key"):
        return record.agent if by == "agent" else record.access_key
    tool = record.target if record.kind == "tool" else ""
    return tool if by == "tool" else split_tool_id(tool)[0]


def _sums(records: Sequence[ExecutionRecord]) -> dict[str, Any]:
    good, running = (sum(record.status in those for record in records) for those in (GOOD, RUNNING))
    times = [record.duration_ms for record in records if record.duration_ms is not None]
    return {
        "executions": len(records),
        "succeeded": good,
        "failed": len(records) - good - running,
        "running": running,
        "cost_usd": round(sum(record.cost_usd or 0.0 for record in records), 6),
        "mean_duration_ms": round(sum(times) / len(times)) if times else None,
    }


def _tokens(records: Sequence[ExecutionRecord]) -> dict[str, int]:
    return {name: sum(getattr(record, name) or 0 for record in records) for name in ("tokens_in", "tokens_out")}
