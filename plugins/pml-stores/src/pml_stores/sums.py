"""What executions add up to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_hookspecs import Total, split_tool_id

from .matching import GOOD, OPEN
from .values import MICROS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pml_hookspecs import ExecutionRecord, Grouping

HOUR, DAY = 3_600_000_000, 86_400_000_000
"""Microseconds."""


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

    def __add__(self, other: Sum) -> Sum:
        """Both together, but for when the last one began."""
        names = ("succeeded", "failed", "running", "cost_micros", "tokens_in", "tokens_out", "duration_ms", "timed")
        return Sum(*(getattr(self, name) + getattr(other, name) for name in names))

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

    def to_total(self) -> dict[str, Any]:
        """What a :class:`Total` says of each group."""
        return {
            "executions": self.executions,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "running": self.running,
            "cost_usd": self.cost_micros / MICROS,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "mean_duration_ms": round(self.duration_ms / self.timed) if self.timed else None,
        }


def add_up(records: Iterable[ExecutionRecord], by: Grouping) -> dict[str, Sum]:
    """Sums by group."""
    found: dict[str, Sum] = {}
    for record in records:
        found.setdefault(group_of(record, by), Sum()).add(record)
    return found


def activity(sums: Mapping[str, Sum]) -> list[Total]:
    """One row per agent, most executions first, ties by agent."""
    rows = [Total(group=agent, **s.to_total(), last_started_at=s.last_started_at) for agent, s in sums.items()]
    return sorted(rows, key=lambda row: (-row.executions, row.group))


def totals(sums: Mapping[str, Sum], by: Grouping) -> list[Total]:
    """One row per group, dearest first, then most executions, then by group; days in their order."""
    rows = [Total(group=group, **s.to_total()) for group, s in sums.items()]
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


Piece: TypeAlias = tuple[int, int | None, int | None]
"""``(grain, from, to)`` in microseconds, from inclusive, to exclusive; grain 0 is single executions."""


def pieces(since: int | None, until: int | None, grains: Sequence[int] = (DAY, HOUR)) -> Iterator[Piece]:
    """What makes up ``since`` to ``until``: whole days, whole hours before and after them, and the rest by the row."""
    if since is not None and until is not None and since >= until:
        return
    if not grains:
        yield 0, since, until
        return
    grain, *finer = grains
    first, last = since and -(-since // grain) * grain, until and until // grain * grain
    if first is not None and last is not None and first >= last:
        yield from pieces(since, until, finer)
        return
    yield grain, first, last
    # Without a bound there is nothing left over on that side.
    if since is not None:
        yield from pieces(since, first, finer)
    if until is not None:
        yield from pieces(last, until, finer)
