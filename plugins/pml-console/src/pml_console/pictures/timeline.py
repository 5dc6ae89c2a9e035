"""What ran inside an execution as bars over its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord

LEAST_PERCENT = 0.4
"""Narrowest bar, so that it is seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One execution: where it begins and how long it is, in percent of the whole."""

    id: str
    label: str
    status: str
    start: float
    length: float
    duration_ms: int | None


def bars_of(whole: ExecutionRecord, inside: Sequence[ExecutionRecord], now: datetime) -> list[Bar]:
    """A bar for each of ``inside``, in order; of what has not ended it goes on until ``now``."""
    whole_s, bars = span_s(whole, inside, now), []
    for record in inside:
        start = 100 * (record.started_at - whole.started_at).total_seconds() / whole_s
        length = 100 * (_end(record, now) - record.started_at).total_seconds() / whole_s
        start = min(max(start, 0.0), 100 - LEAST_PERCENT)
        length = min(max(length, LEAST_PERCENT), 100 - start)
        bars.append(Bar(record.id, record.target or record.kind, str(record.status), start, length, record.duration_ms))
    return bars


def span_s(whole: ExecutionRecord, inside: Sequence[ExecutionRecord], now: datetime) -> float:
    """How long it took with all of ``inside``, until ``now`` what has not ended; never nothing [s]."""
    end = max([_end(record, now) for record in (whole, *inside)])
    return max((end - whole.started_at).total_seconds(), 0.001)


def _end(record: ExecutionRecord, now: datetime) -> datetime:
    return now if record.duration_ms is None else record.started_at + timedelta(milliseconds=record.duration_ms)
