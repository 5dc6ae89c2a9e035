"""``pml metrics``: how tools were reached and what answers cost, from the executions that the store keeps."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, Status, encode

from . import configured
from .counting import Counter, counter
from .modes import Sizes, variants
from .output import number, print_json, print_table, say, share
from .queries import MOST_RECORDS, SEARCH_TOOL, records
from .tokens import current, measure

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import ExecutionRecord, Services

LONGEST_LOOK_BACK_DAYS = 3650
WAYS = ("direct", "workflow", "code", "search")
"""How tools are reached: called by the client (listed or not, and through call_tool), inside a workflow or code, or
looked for."""


@dataclass
class Usage:
    """What happened in one span of time, or by one agent."""

    ways: Counts[str] = field(default_factory=Counts)
    failed: int = 0
    answer_tokens: int = 0

    @property
    def calls(self) -> int:
        """Calls of tools."""
        return sum(count for way, count in self.ways.items() if way != "search")

    @property
    def planned(self) -> float | None:
        """Share of the calls that came from workflows or code, which is where full_proxy → meta_only leads to."""
        return (self.ways["workflow"] + self.ways["code"]) / self.calls if self.calls else None

    def add(self, way: str, record: ExecutionRecord, count: Counter) -> None:
        """One execution more."""
        self.ways[way] += 1
        self.failed += record.status not in (Status.OK, "running", "pending")
        if record.parent is None and record.response is not None:
            self.answer_tokens += count.count(encode(record.response).decode(errors="replace"))

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            **{way: self.ways[way] for way in WAYS},
            "calls": self.calls,
            "planned_share": self.planned,
            "failed": self.failed,
            "answer_tokens": self.answer_tokens,
        }


@dataclass
class Report:
    """Everything that is told."""

    total: Usage = field(default_factory=Usage)
    weeks: dict[str, Usage] = field(default_factory=dict)
    """By ISO week, such as ``2026-W47``, the earliest first."""
    agents: dict[str, Usage] = field(default_factory=dict)
    tools: Counts[str] = field(default_factory=Counts)
    cut: bool = False
    """Whether there is more than was looked at."""


async def run(arguments: argparse.Namespace, services: Services) -> int:
    """Print the tables; the exit status.

    Raises:
        InvalidArguments: An option does not fit.
    """
    if not 0 < arguments.days <= LONGEST_LOOK_BACK_DAYS:
        raise InvalidArguments(f"--days {arguments.days}: give 1 to {LONGEST_LOOK_BACK_DAYS}.")
    count = counter(arguments.tokenizer)
    since = datetime.now(UTC) - timedelta(days=arguments.days)
    found = [record async for record in records(services, since)]
    report = summary(found, count)
    costs = await measure(variants(await configured.read(arguments), services), services, Sizes(services, count))
    if arguments.json:
        print_json(
            {
                "days": arguments.days,
                "tokenizer": count.as_json(),
                "mode": {**current(costs).as_json()},
                "modes": [cost.as_json() for cost in costs],
                "total": report.total.as_json(),
                "weeks": {week: usage.as_json() for week, usage in report.weeks.items()},
                "agents": {agent: usage.as_json() for agent, usage in report.agents.items()},
                "tools": dict(report.tools.most_common()),
                "complete": not report.cut,
            }
        )
        return 0
    mode = current(costs)
    say(f"Mode now: {mode.variant.mode}, {number(mode.typical)} tokens in each client's context.")
    _show(report, arguments.days)
    say(count.about)
    return 0


def summary(found: list[ExecutionRecord], count: Counter) -> Report:
    """The report on these executions, newest first."""
    report = Report(cut=len(found) >= MOST_RECORDS)
    kinds = {record.id: record.kind for record in found}
    for record in reversed(found):
        if (way := _way(record, kinds)) is None:
            continue
        year, week, _ = record.started_at.isocalendar()
        report.total.add(way, record, count)
        report.weeks.setdefault(f"{year}-W{week:02}", Usage()).add(way, record, count)
        report.agents.setdefault(record.agent or "-", Usage()).add(way, record, count)
        if way != "search":
            report.tools[record.target] += 1
    return report


def _way(record: ExecutionRecord, kinds: dict[Any, str]) -> str | None:
    """How a tool was reached; None for what is no use of a server's tool."""
    if record.target == SEARCH_TOOL:
        return "search"
    if record.kind != "tool" or record.target.startswith("pml:"):
        return None
    above = kinds.get(record.parent, "tool") if record.parent is not None else "tool"
    return {"workflow": "workflow", "code": "code", "capability": "code"}.get(above, "direct")


def _show(report: Report, days: int) -> None:
    if not report.total.ways:
        say(f"No tool was called or searched for in the last {days} days.")
        return
    header = ("CALLS", "DIRECT", "WORKFLOW", "CODE", "SEARCH", "PLANNED", "FAILED", "ANSWER TOKENS")
    say()
    print_table(("WEEK", *header), _rows({**report.weeks, "all": report.total}.items()))
    say()
    print_table(("AGENT", *header), _rows(report.agents.items()))
    say()
    print_table(("TOOL", "CALLS"), [(tool, number(calls)) for tool, calls in report.tools.most_common(10)])
    say()
    if report.cut:
        say(f"Only the latest {number(MOST_RECORDS)} executions are counted.")


def _rows(items: Iterable[tuple[str, Usage]]) -> list[tuple[str, ...]]:
    return [
        (
            name,
            number(usage.calls),
            *(number(usage.ways[way]) for way in WAYS),
            share(usage.planned),
            number(usage.failed),
            number(usage.answer_tokens),
        )
        for name, usage in items
    ]
