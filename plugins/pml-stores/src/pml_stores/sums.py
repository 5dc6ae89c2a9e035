"""What executions add up to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import AgentActivity, Total, split_tool_id

from .matching import GOOD, OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pml_hookspecs import ExecutionRecord, Grouping

MICROS = 1_000_000
"""Costs are added up in millionths of a dollar, so that sums are exact."""
MOST = 10**12
"""Largest number of tokens and of milliseconds; what is more is counted as this."""
MOST_MICROS = 10**15
"""The same for costs, in millionths of a dollar."""
MOST_USD = MOST_MICROS / MICROS


def nearest(at: int, grain: int, now: int) -> int:
    """From where on sums by ``grain`` tell of what there is from ``at`` on, all three in microseconds since 1970.

    The end of the hour or the day that ``at`` is in, if less has to be added from ``at`` until then (or until now) than
    would have to be taken off again from the beginning.
    """
    begin = at // grain * grain
    end = begin + grain if at > begin else begin
    return begin if at - begin < min(end, now) - at else end


def bounded(number: float | None, least: int, most: int) -> int | None:
    """``number`` rounded, and at most so far off: what adds up stays within 63 bits, whatever somebody reports.

    None for what is no number.
    """
    # What is no number is not equal to itself.
    return None if number is None or number != number else round(min(max(number, least), most))  # noqa: PLR0124


def kept(record: ExecutionRecord) -> ExecutionRecord:
    """``record`` with the numbers that a database keeps of it."""
    numbers, cost_usd = (record.duration_ms, record.tokens_in, record.tokens_out), record.cost_usd
    fit = all(number is None or 0 <= number <= MOST for number in numbers)
    if fit and (cost_usd is None or abs(cost_usd) <= MOST_USD):
        return record
    duration_ms, tokens_in, tokens_out = (bounded(number, 0, MOST) for number in numbers)
    cost_micros = None if cost_usd is None else bounded(cost_usd * MICROS, -MOST_MICROS, MOST_MICROS)
    return replace(
        record,
        duration_ms=duration_ms,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_usd=None if cost_micros is None else cost_micros / MICROS,
    )


@dataclass(slots=True)
class Sum:
    """The sums over the executions of one group."""

    succeeded: int = 0
    failed: int = 0
    running: int = 0
    cost_micros: float = 0
    tokens_in: int = 0
    tokens_out: int = 0
    duration_ms: float = 0
    timed: int = 0
    """How many have a duration."""
    last_started_at: datetime | None = None

    @property
    def executions(self) -> int:
        """How many."""
        return self.succeeded + self.failed + self.running

    def add(self, record: ExecutionRecord) -> None:
        """Count one more."""
        if record.status in GOOD:
            self.succeeded += 1
        elif record.status in OPEN:
            self.running += 1
        else:
            self.failed += 1
        self.cost_micros += round((record.cost_usd or 0) * MICROS)
        self.tokens_in += record.tokens_in or 0
        self.tokens_out += record.tokens_out or 0
        if record.duration_ms is not None:
            self.duration_ms += record.duration_ms
            self.timed += 1
        if self.last_started_at is None or record.started_at > self.last_started_at:
            self.last_started_at = record.started_at

    def told(self) -> dict[str, Any]:
        """What :class:`AgentActivity` and :class:`Total` both say."""
        return {
            "executions": self.executions,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "running": self.running,
            "cost_usd": self.cost_micros / MICROS,
            "mean_duration_ms": round(self.duration_ms / self.timed) if self.timed else None,
        }


def add_up(records: Iterable[ExecutionRecord], by: Grouping, sums: dict[str, Sum] | None = None) -> dict[str, Sum]:
    """Sums by group; ``sums`` with the records added if given."""
    found = {} if sums is None else sums
    for record in records:
        group = group_of(record, by)
        if (there := found.get(group)) is None:
            there = found[group] = Sum()
        there.add(record)
    return found


def activity(sums: Mapping[str, Sum]) -> list[AgentActivity]:
    """One row per agent, most executions first, ties by agent."""
    rows = [AgentActivity(agent, **s.told(), last_started_at=s.last_started_at) for agent, s in sums.items()]
    return sorted(rows, key=lambda row: (-row.executions, row.agent))


def totals(sums: Mapping[str, Sum], by: Grouping) -> list[Total]:
    """One row per group, dearest first, then most executions, then by group; days in their order."""
    rows = [Total(group=group, **s.told(), tokens_in=s.tokens_in, tokens_out=s.tokens_out) for group, s in sums.items()]
    return sorted(rows, key=lambda row: row.group if by == "day" else (-row.cost_usd, -row.executions, row.group))


def group_of(record: ExecutionRecord, by: Grouping) -> str:
    """The group that ``record`` is counted in."""
    if by == "agent":
        return record.agent
    if by == "principal":
        return record.principal
    if by == "key":
        return record.access_key
    if by == "day":
        return record.started_at.astimezone(UTC).date().isoformat()
    if record.kind != "tool":
        return ""
    return record.target if by == "tool" else split_tool_id(record.target)[0]
