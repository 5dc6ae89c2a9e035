"""From what every task took to tables."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from .replay import PLACES, WAYS, Cost, Row
from .suite import ROOT, Suite

DOCS = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- trajectories -->", "<!-- /trajectories -->"
SEVERAL = 2
"""Calls of a task that tables are about; a single call needs no plan."""
TITLES = {
    "direct": "direct calls",
    "call": "a search, and `call_tool` for each",
    "plan": "a search, and a plan",
    "select": "a search, and a plan with `select`",
    "code": "a search, and code",
    "stages": "a search, and a plan before each look at results",
}
GOALS = {("alone", "plan"): 0.40, ("alone", "select"): 0.20, ("beside", "plan"): 0.03, ("beside", "select"): 0.02}
"""Most that a way may take of what direct calls take, as medians."""
PARTS = ("definitions", "arguments", "results")
TRIPS = 0.60
"""Least share of round trips that a plan saves."""


def first(suite: Suite, most: int) -> Suite:
    """A suite with its first tasks."""
    return replace(suite, tasks=suite.tasks[:most])


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Something to call whenever a step is done, with its name."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield lambda name: None
        return
    with Progress(console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=steps)
        yield lambda name: bar.update(task, advance=1, description=name)


@dataclass
class Report:
    """One suite."""

    name: str
    source: str
    tokenizer: str
    rows: Sequence[Row]

    def plain(self) -> dict[str, Any]:
        rows = [row.plain() for row in self.rows]
        return {"suite": self.name, "source": self.source, "tokenizer": self.tokenizer, "tasks": rows}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Report:
        """The inverse of :meth:`plain`."""
        return cls(plain["suite"], plain["source"], plain["tokenizer"], [Row.of(row) for row in plain["tasks"]])

    def several(self) -> list[Row]:
        return [row for row in self.rows if row.calls >= SEVERAL] or list(self.rows)

    def problems(self) -> list[str]:
        """Tasks that did not end as direct calls do, and why."""
        found = []
        for row in self.rows:
            for place in PLACES:
                for way, cost in row.costs[place].items():
                    if not cost.same or cost.problem:
                        state = "" if cost.same else "end state differs; "
                        found.append(f"{self.name} {row.id}, {place}, {way}: {state}{cost.problem}")
        return found

    def median(self, place: str, way: str, of: Callable[[Cost], float]) -> float:
        return statistics.median(of(row.costs[place][way]) for row in self.several())


def line(cells: Sequence[object]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def costs(report: Report, place: str) -> str:
    """Medians of what tasks of several calls took, in each way."""
    head = [
        "",
        "definitions",
        "arguments",
        "results",
        "together",
        "of direct",
        "bytes / 4",
        "missed tools",
        "round trips",
        "ms",
        "states that differ",
        "told",
    ]
    lines = [line(head), line(["---"] + ["---:"] * (len(head) - 1))]
    rows = report.several()
    direct = report.median(place, "direct", lambda cost: cost.total)
    told = sum(row.told for row in rows)
    for way in (way for way in WAYS if way in rows[0].costs[place]):

        def middle(of: Callable[[Cost], float], way: str = way) -> float:
            return report.median(place, way, of)

        total = middle(lambda cost: cost.total)
        lines.append(
            line([
                TITLES[way],
                *(f"{middle(lambda cost, n=n: getattr(cost, n)):,.0f}" for n in PARTS),
                f"{total:,.0f}",
                f"{100 * total / direct:.1f} %",
                f"{middle(lambda cost: cost.quarters):,.0f}",
                f"+{middle(lambda cost: cost.again):,.0f}",
                f"{middle(lambda cost: cost.trips):g}",
                f"{1000 * middle(lambda cost: cost.seconds):.1f}",
                sum(not row.costs[place][way].same for row in rows),
                f"{sum(row.costs[place][way].told for row in rows)} of {told}" if told else "-",
            ])
        )  # fmt: skip
    return "\n".join(lines)


def goals(reports: Sequence[Report]) -> str:
    """What is to be reached, and what was, suite by suite."""
    lines = [line(["goal", *(report.name for report in reports)]), line(["---"] + ["---:"] * len(reports))]

    def row(title: str, of: Callable[[Report], str]) -> None:
        lines.append(line([title, *(of(report) for report in reports)]))

    for (place, way), most in GOALS.items():
        name = f"{place}: {'a plan with `select`' if way == 'select' else 'a plan'} ≤ {100 * most:.0f} % of direct"
        row(name, lambda report, place=place, way=way: _shares(report, place, way))
    row("alone: plans that cost more than their calls one by one: 0", lambda report: _dearer(report, "call"))
    row("alone: plans that cost more than direct calls: 0", lambda report: _dearer(report, "direct"))
    row("end states that differ: 0", lambda report: str(_differing(report)))
    row(f"round trips of plans: \N{MINUS SIGN}{100 * TRIPS:.0f} %", _trips)
    row("of these, without searches", lambda report: _saved(report, lambda row: row.turns))
    for place in PLACES:
        row(f"{place}: gold tools that a search finds: all", lambda report, place=place: _recall(report, place))
    return "\n".join(lines)


def _shares(report: Report, place: str, way: str) -> str:
    """With one search, and with the second ones."""
    direct = report.median(place, "direct", lambda cost: cost.total)
    one = report.median(place, way, lambda cost: cost.total) / direct
    two = report.median(place, way, lambda cost: cost.total + cost.again) / direct
    return f"{100 * one:.1f} % ({100 * two:.1f} %)"


def _dearer(report: Report, way: str) -> str:
    rows = report.several()
    more = sum(row.costs["alone"]["plan"].total > row.costs["alone"][way].total for row in rows)
    return f"{more} of {len(rows)}"


def _differing(report: Report) -> int:
    return sum(not cost.same for row in report.rows for place in PLACES for cost in row.costs[place].values())


def _trips(report: Report) -> str:
    one = _saved(report, lambda row: row.costs["alone"]["plan"].trips)
    two = _saved(report, lambda row: row.costs["alone"]["plan"].trips + row.costs["alone"]["plan"].again_trips)
    return f"{one} ({two})"


def _saved(report: Report, trips: Callable[[Row], int]) -> str:
    rows = report.several()
    change = sum(map(trips, rows)) / sum(row.calls for row in rows) - 1
    return f"{100 * change:+.0f} %".replace("-", "\N{MINUS SIGN}")


def _recall(report: Report, place: str) -> str:
    """By the user's words, and after a second search."""
    found, gold = (sum(row.recall[place][n] for row in report.rows) for n in (0, 1))
    missed = sum(len(row.recall[place][2]) for row in report.rows)
    return f"{100 * found / gold:.1f} % ({100 * (1 - missed / gold):.1f} %)"


def flows(reports: Sequence[Report]) -> str:
    """What the tasks are, and where the arguments of plans come from."""
    head = [
        "",
        "tasks",
        "of several calls",
        "calls",
        "that fail",
        "of the user's words",
        "`{{references}}`",
        "of results, as constants",
    ]
    lines = [line(head), line(["---"] + ["---:"] * (len(head) - 1))]
    for report in reports:
        rows = report.rows
        several = sum(row.calls >= SEVERAL for row in rows)
        sums = [sum(row.origins[name] for row in rows) for name in ("words", "reference", "constant")]
        calls, failing = sum(row.calls for row in rows), sum(row.failing for row in rows)
        lines.append(line([report.source, len(rows), several, calls, failing, *sums]))
    return "\n".join(lines)


def rendered(reports: Sequence[Report], others: int) -> str:
    """All tables in Markdown."""
    parts = [
        f"Tokens are those of {reports[0].tokenizer}." if reports else "",
        "### Goals",
        goals(reports),
        "### Tasks",
    ]
    parts.append(flows(reports))
    for report in reports:
        count = len(report.several())
        parts += [f"### {report.source}: {count} tasks of two or more calls, medians", "That server alone:"]
        if len({row.turns for row in report.rows}) > 1:
            parts[-1] = "Its servers alone:"
        parts += [costs(report, "alone"), f"Beside {others} tools of others:", costs(report, "beside")]
        if problems := report.problems():
            parts += ["Not as it should be:", "\n".join(f"- {problem[:600]}" for problem in problems[:10])]
    return "\n\n".join(parts)


def write(reports: Sequence[Report], others: int) -> None:
    """Put the tables into the document."""
    before, _, rest = DOCS.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCS.write_text(f"{before}{BEGIN}\n\n{rendered(reports, others)}\n\n{END}{after}", "utf-8")
