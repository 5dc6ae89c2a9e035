"""How tools were reached, by which mode, and what answers cost, from the executions in the store."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Status
from pml_kit.mcp.tokens import text_of_result

from .adoption import Adoption, ordered, week_of
from .counting import Counter
from .output import number, share
from .queries import MOST_RECORDS, SEARCH_TOOL

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord

WAYS = ("direct", "workflow", "code", "search")
"""How tools are reached: called by the client (listed or not, and through call_tool), inside a workflow or code, or
looked for."""


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


USAGE = ("CALLS", "DIRECT", "WORKFLOW", "CODE", "SEARCH", "PLANNED", "FAILED", "ANSWER TOKENS")
"""Titles of what :func:`usage_rows` makes, after that of the names."""


def usage_rows(items: Iterable[tuple[str, Usage]]) -> list[tuple[str, ...]]:
    """One row for each name, for people."""
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


def in_order(modes: dict[str, Usage]) -> list[tuple[str, Usage]]:
    """The order from full_proxy to meta_only, then other modes by name."""
    return [(mode, modes[mode]) for mode in ordered(modes)]
