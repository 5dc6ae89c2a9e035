"""From the numbers of all rounds to medians, ratios and whether the targets are met."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Round = Mapping[str, Mapping[str, float]]
"""Numbers of one round by subject and measure. What failed or cannot be measured is not there."""
OURS, FLOOR = "pml", "direct"


@dataclass(frozen=True)
class Target:
    """What the ratio of PML's number to another subject's has to be."""

    to: str
    limit: float
    at_least: bool = False

    def met(self, ratio: float) -> bool:
        """Whether ``ratio`` is good enough."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def __str__(self) -> str:
        return f"{OURS} / {self.to} {'≥' if self.at_least else '≤'} {self.limit:.3g}"


@dataclass(frozen=True)
class Measure:
    """One row."""

    key: str
    title: str
    """With the unit in brackets."""
    target: Target | None = None


MEASURES = (
    Measure("echo_us", "echo, one after the other: p50 [µs]"),
    Measure("echo_added_us", "echo, one after the other: added to direct [µs]", Target("relay", 2.0)),
    Measure("echo_cpu_us", "echo, one after the other: CPU of the gateway [µs]"),
    Measure("pending_us", "echo while a call of 2 s is open: p50 [µs]"),
    Measure("flight_per_s", "echo, 64 in flight, 4 servers: calls per second", Target("fastmcp", 20.0, at_least=True)),
    Measure("flight_cpu_us", "echo, 64 in flight, 4 servers: CPU of the gateway [µs]"),
    Measure("sleeps", "64 sleeps of 50 ms at once: total / 50 ms"),
    Measure("blob_1_ms", "a result of 1 MB [ms]"),
    Measure("blob_10_ms", "a result of 10 MB [ms]"),
    Measure("list_ms", "tools/list of 700 tools, 7 servers [ms]", Target("relay", 4.0)),
    Measure("start_ms", "start to first tools/list, 4 servers [ms]", Target("relay", 3.0)),
    Measure("start_again_ms", "the same, not the first start [ms]"),
    Measure("memory_mb", "resident memory after 80 calls [MB]", Target("fastmcp", 2 / 3)),
    Measure("memory_after_mb", "resident memory after everything [MB]"),
)


def derived(row: Round) -> dict[str, dict[str, float]]:
    """``row`` with what follows from comparing subjects within it."""
    floor = row.get(FLOOR, {}).get("echo_us")
    full = {name: dict(numbers) for name, numbers in row.items()}
    for name, numbers in full.items():
        if floor is not None and name != FLOOR and "echo_us" in numbers:
            numbers["echo_added_us"] = numbers["echo_us"] - floor
    return full


@dataclass(frozen=True)
class Spread:
    """A number over all rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """None when there are no values."""
        known = sorted(values)
        return cls(statistics.median(known), known[0], known[-1]) if known else None

    def __str__(self) -> str:
        return shown(self.median) + ("" if self.low == self.high else f" ({shown(self.low)}..{shown(self.high)})")


def shown(value: float) -> str:
    """Three digits, and all of those before the point."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def numbers(rounds: Sequence[Round], subject: str, key: str) -> Spread | None:
    """One measure of one subject."""
    return Spread.of(row[subject][key] for row in rounds if key in row.get(subject, {}))


def ratio(rounds: Sequence[Round], to: str, key: str) -> Spread | None:
    """PML's number divided by another's, round by round, so that what slows down a whole round does not count.

    A round in which the other's is not positive, which only noise can make an added latency, has no ratio.
    """
    rows = [row for row in rounds if key in row.get(OURS, {}) and row.get(to, {}).get(key, 0) > 0]
    return Spread.of(row[OURS][key] / row[to][key] for row in rows)


def _verdict(rounds: Sequence[Round], measure: Measure) -> str:
    if measure.target is None:
        return ""
    found = ratio(rounds, measure.target.to, measure.key)
    if found is None:
        return f"{measure.target}: not measured"
    return f"{measure.target}: {'met' if measure.target.met(found.median) else 'MISSED'}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(found: Spread | None) -> str:
    return "-" if found is None else str(found)


def render(rounds: Sequence[Round], subjects: Sequence[str]) -> str:
    """All measures as a table in Markdown: medians (lowest..highest round), PML's ratios, and the targets."""
    others = [name for name in subjects if name != OURS] if OURS in subjects else []
    head = ["", *subjects, *(f"{OURS} / {name}" for name in others), *(["target"] if others else [])]
    lines = [_line(head), _line("---" for _ in head)]
    for measure in MEASURES:
        cells = [measure.title, *(_cell(numbers(rounds, name, measure.key)) for name in subjects)]
        cells += [_cell(ratio(rounds, name, measure.key)) for name in others]
        lines.append(_line([*cells, *([_verdict(rounds, measure)] if others else [])]))
    return "\n".join(lines)
