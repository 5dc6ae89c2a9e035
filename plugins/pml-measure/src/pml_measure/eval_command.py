"""``pml eval``: how well search and exposure modes find the tools that queries need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.terminal import print_json

from . import queries
from .counting import counter
from .evaluation import METRICS, SEARCH, Row, evaluate, print_rows
from .modes import CONFIGURED, Sizes, Variant, variants
from .output import say
from .tokens import tools_of

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Services

    from .queries import Queries


BELOW = 1
"""Exit status when a floor is not held."""


@dataclass(frozen=True, slots=True)
class MetricThreshold:
    """The least value of a metric that is good enough."""

    row: str
    metric: str
    least: float


async def run(arguments: argparse.Namespace, services: Services) -> int:
    """Print the table; the exit status.

    Raises:
        InvalidArguments: There is nothing to measure, or an option does not fit.
    """
    if arguments.limit < 1:
        raise InvalidArguments(f"--limit {arguments.limit}: give 1 or more.")
    tools_of(services)
    if arguments.compare_embedder:
        from .comparison import compare

        return await compare(arguments, services)
    modes = await variants(services)
    if arguments.only is not None:
        modes = _only(arguments.only, modes)
    floors = [floor(text, modes) for text in arguments.floor]
    asked = await queries.gather(services, file=arguments.queries, source=arguments.source, limit=arguments.limit)
    sizes = Sizes(services, counter(arguments.tokenizer))
    rows = await evaluate(modes, services, sizes, asked.items)
    missed = [one for one in floors if _value(rows, one) < one.least]
    if arguments.json:
        print_json(_document(rows, asked, missed, details=arguments.details))
    else:
        _show(rows, asked, missed)
    return BELOW if missed else 0


def _only(name: str, modes: Sequence[Variant]) -> list[Variant]:
    names = [SEARCH, *(mode.name for mode in modes)]
    if name not in names:
        raise InvalidArguments(f"--only {name}: there is no such row; rows: {', '.join(names)}.")
    return [mode for mode in modes if mode.name == name]


def floor(text: str, modes: Sequence[Variant]) -> MetricThreshold:
    """``recall@5=0.7``, or ``ROW.recall@5=0.7``.

    Raises:
        InvalidArguments: It is written otherwise, or names something that is not measured.
    """
    what, _, value = text.partition("=")
    row, dot, metric = what.strip().rpartition(".")
    row = row if dot else SEARCH
    try:
        least = float(value)
    except ValueError:
        least = -1.0
    names = [SEARCH, *(mode.name for mode in modes)]
    if row not in names:
        raise InvalidArguments(f"--floor {text}: there is no row {row!r}; rows: {', '.join(names)}.")
    if metric not in METRICS:
        raise InvalidArguments(f"--floor {text}: {metric!r} is not measured; metrics: {', '.join(METRICS)}.")
    if not 0 <= least <= 1:
        raise InvalidArguments(f"--floor {text}: expected METRIC=VALUE with a value from 0 to 1.")
    return MetricThreshold(row, metric, least)


def _value(rows: Sequence[Row], one: MetricThreshold) -> float:
    return next(row.values[one.metric] for row in rows if row.name == one.row)


def _document(
    rows: Sequence[Row], asked: Queries, missed: Sequence[MetricThreshold], *, details: bool
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "queries": {"source": asked.source, "count": len(asked.items)},
        "rows": [row.as_json() for row in rows],
        "floors_missed": [
            {"row": one.row, "metric": one.metric, "least": one.least, "value": _value(rows, one)} for one in missed
        ],
    }
    if details:
        told["details"] = [
            {"query": query.text, "found": [{"tool": hit.id, "score": hit.score} for hit in hits]}
            for query, hits in zip(asked.items, rows[0].found, strict=True)
        ]
    return told


def _show(rows: Sequence[Row], asked: Queries, missed: Sequence[MetricThreshold]) -> None:
    say(asked.about)
    say()
    print_rows(rows)
    say()
    say(f"{SEARCH}: what search_tools finds, in any mode. Modes: what the client sees with the query as its hint;")
    say(f"full_proxy lists in no order of relevance. {CONFIGURED!r} uses the configured intent if there is one.")
    say("Tokens: of the list, once in each conversation; answer: of what search_tools answers, each time.")
    say("Task: the list and, where it lacks a tool that is needed, a search. Requests: searches and calls of one task.")
    for one in missed:
        say(f"BELOW: {one.row} {one.metric} is {_value(rows, one):.3f}, the floor is {one.least:g}.")
