"""``pml metrics``: how tools were reached, by which mode, and what answers cost, from the executions in the store."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, Status
from pml_hookspecs.tokens import text_of_result

from .adoption import Adoption, ordered, week_of
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
LAST_CHANGES = 10


@dataclass
class Usage:
    """What happened in one span of time, by one agent, or in one mode."""

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

    def add(self, way: str, record: ExecutionRecord, answer_tokens: int) -> None:
        """One execution more."""
        self.ways[way] += 1
        self.failed += record.status not in (Status.OK, Status.INPUT_REQUIRED, "running", "pending")
        self.answer_tokens += answer_tokens

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
    modes: dict[str, Usage] = field(default_factory=dict)
    """By the mode that listed the client's tools; without those of which it is not known."""
    adoption: Adoption = field(default_factory=Adoption)
    tools: Counts[str] = field(default_factory=Counts)
    cut: bool = False
    """Whether there is more than was looked at."""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "total": self.total.as_json(),
            "weeks": {week: usage.as_json() for week, usage in self.weeks.items()},
            "agents": {agent: usage.as_json() for agent, usage in self.agents.items()},
            "used_modes": {mode: usage.as_json() for mode, usage in self.modes.items()},
            "endpoints": self.adoption.as_json(),
            "tools": dict(self.tools.most_common()),
            "complete": not self.cut,
        }


async def run(arguments: argparse.Namespace, services: Services) -> int:
    """Print the tables; the exit status.

    Raises:
        InvalidArguments: An option does not fit.
    """
    if not 0 < arguments.days <= LONGEST_LOOK_BACK_DAYS:
        raise InvalidArguments(f"--days {arguments.days}: give 1 to {LONGEST_LOOK_BACK_DAYS}.")
    if arguments.watch:
        from .watch import watch

        return await watch(arguments, services)
    count = counter(arguments.tokenizer)
    since = datetime.now(UTC) - timedelta(days=arguments.days)
    found = [record async for record in records(services, since)]
    report = summary(found, lambda record: answer_tokens(record, count))
    costs = await measure(await variants(services), services, Sizes(services, count))
    mode = current(costs)
    if arguments.json:
        about = {"days": arguments.days, "tokenizer": count.as_json(), "mode": mode.as_json()}
        print_json({**about, "modes": [cost.as_json() for cost in costs], **report.as_json()})
        return 0
    say(f"Mode now: {mode.variant.mode}, {number(mode.typical)} tokens in each client's context.")
    _show(report, arguments.days)
    say(count.about)
    return 0


def summary(found: Sequence[ExecutionRecord], tokens_of: Callable[[ExecutionRecord], int]) -> Report:
    """The report on these executions, newest first; ``tokens_of`` tells what an answer cost [tokens]."""
    report = Report(cut=len(found) >= MOST_RECORDS)
    kinds = {record.id: record.kind for record in found}
    for record in reversed(found):
        if record.parent is None:
            report.adoption.add(record)
        if (way := way_of(record, kinds)) is None:
            continue
        tokens = tokens_of(record)
        groups = [(report.weeks, week_of(record.started_at)), (report.agents, record.agent or "-")]
        groups += [(report.modes, record.mode)] if record.mode else []
        report.total.add(way, record, tokens)
        for usages, name in groups:
            usages.setdefault(name, Usage()).add(way, record, tokens)
        if way != "search":
            report.tools[record.target] += 1
    return report


def answer_tokens(record: ExecutionRecord, count: Counter) -> int:
    """Of what a client was answered; what ran inside a plan answers nobody."""
    if record.parent is not None or record.response is None:
        return 0
    return count.count(text_of_result(record.response))


def way_of(record: ExecutionRecord, kinds: dict[Any, str]) -> str | None:
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
    if report.modes:
        say()
        print_table(("MODE", *header), _rows(in_order(report.modes)))
        _show_adoption(report.adoption)
    say()
    print_table(("TOOL", "CALLS"), [(tool, number(calls)) for tool, calls in report.tools.most_common(10)])
    say()
    if report.cut:
        say(f"Only the latest {number(MOST_RECORDS)} executions are counted.")


def in_order(modes: dict[str, Usage]) -> list[tuple[str, Usage]]:
    """As on the way from full_proxy to meta_only, then others by name."""
    return [(mode, modes[mode]) for mode in ordered(modes)]


def _show_adoption(adoption: Adoption) -> None:
    say()
    names = adoption.modes()
    rows = [
        (name, week, *(share(counts[mode] / counts.total()) for mode in names))
        for name, endpoint in sorted(adoption.endpoints.items())
        for week, counts in endpoint.weeks.items()
    ]
    print_table(("ENDPOINT", "WEEK", *(mode.upper() for mode in names)), rows)
    changes = adoption.changes()
    if changes:
        say()
        say(f"Changes of mode ({adoption.conversion()}):")
    for change in changes[-LAST_CHANGES:]:
        say(f"  {change.at:%Y-%m-%d %H:%M} {change.endpoint}, {change.principal}: {change.before} → {change.after}")


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
