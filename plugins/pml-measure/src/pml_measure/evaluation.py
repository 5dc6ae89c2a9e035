"""``pml eval``: how well search and exposure modes find the tools that queries need."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, Session

from . import configured, queries, scores
from .counting import counter
from .modes import CONFIGURED, Sizes, Variant, variants
from .output import number, print_json, print_table, say, share
from .tokens import tools_of

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Services

    from .queries import Queries, Query

SEARCH = "search"
"""The row of what ``search_tools`` finds, whatever the mode."""
DEPTH = 10
METRICS = ("recall@1", "recall@5", "recall@10", "hit@1", "ndcg@10", "listed")
BELOW = 1
"""Exit status when a floor is not held."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of the search or of one mode."""

    name: str
    values: Mapping[str, float]
    """By name of :data:`METRICS`, in the mean; ``listed``: share of the tools needed that the client sees at all."""
    tokens: float
    """In the client's context, in the mean."""
    p50_ms: float
    p95_ms: float

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.name,
            **self.values,
            "tokens": self.tokens,
            "p50_ms": round(self.p50_ms, 3),
            "p95_ms": round(self.p95_ms, 3),
        }


@dataclass(frozen=True, slots=True)
class Floor:
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
    modes = variants(await configured.read(arguments), services)
    floors = [floor(text, modes) for text in arguments.floor]
    asked = await queries.gather(services, file=arguments.queries, source=arguments.source, limit=arguments.limit)
    sizes = Sizes(services, counter(arguments.tokenizer))
    rows = await evaluate(modes, services, sizes, asked.items)
    missed = [one for one in floors if _value(rows, one) < one.least]
    if arguments.json:
        print_json(_document(rows, asked, missed))
    else:
        _show(rows, asked, missed)
    return BELOW if missed else 0


def floor(text: str, modes: Sequence[Variant]) -> Floor:
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
    return Floor(row, metric, least)


async def evaluate(modes: Sequence[Variant], services: Services, sizes: Sizes, asked: Sequence[Query]) -> list[Row]:
    """One row for the search, then one for each mode with the query as the client's hint."""
    await services.catalog.search(asked[0].text, limit=DEPTH)  # builds the index, which no query is to wait for
    return [await _search(services, sizes, asked), *[await _mode(mode, services, sizes, asked) for mode in modes]]


async def _search(services: Services, sizes: Sizes, asked: Sequence[Query]) -> Row:
    session = Session(key="measure\n")
    ranked, times = [], []
    for query in asked:
        began = time.perf_counter()
        hits = await services.catalog.search(query.text, limit=DEPTH)
        times.append(time.perf_counter() - began)
        found = [entry for hit in hits if (entry := services.catalog.get(hit.id)) is not None]
        ranked.append([entry.id for entry in found if services.catalog.allows(entry, session)])
    meta = sizes.all([entry for entry in services.catalog if entry.meta])
    return _row(SEARCH, ranked, asked, [meta], times)


async def _mode(mode: Variant, services: Services, sizes: Sizes, asked: Sequence[Query]) -> Row:
    ranked, tokens, times = [], [], []
    for query in asked:
        began = time.perf_counter()
        listed = await mode.listed(services, mode.intent or query.text)
        times.append(time.perf_counter() - began)
        ranked.append([entry.id for entry in listed if not entry.own])
        tokens.append(sizes.all(listed))
    return _row(mode.name, ranked, asked, tokens, times)


def _row(
    name: str, ranked: Sequence[Sequence[str]], asked: Sequence[Query], tokens: Sequence[int], times_s: Sequence[float]
) -> Row:
    pairs = list(zip(ranked, asked, strict=True))
    values = {
        "recall@1": fmean(scores.recall(found, query, 1) for found, query in pairs),
        "recall@5": fmean(scores.recall(found, query, 5) for found, query in pairs),
        "recall@10": fmean(scores.recall(found, query, DEPTH) for found, query in pairs),
        "hit@1": fmean(scores.hit(found, query) for found, query in pairs),
        "ndcg@10": fmean(scores.ndcg(found, query, DEPTH) for found, query in pairs),
        "listed": fmean(scores.recall(found, query) for found, query in pairs),
    }
    times_ms = [1000 * seconds for seconds in times_s]
    return Row(name, values, fmean(tokens), scores.quantile(times_ms, 0.5), scores.quantile(times_ms, 0.95))


def _value(rows: Sequence[Row], one: Floor) -> float:
    return next(row.values[one.metric] for row in rows if row.name == one.row)


def _document(rows: Sequence[Row], asked: Queries, missed: Sequence[Floor]) -> dict[str, Any]:
    return {
        "queries": {"source": asked.source, "count": len(asked.items)},
        "rows": [row.as_json() for row in rows],
        "floors_missed": [
            {"row": one.row, "metric": one.metric, "least": one.least, "value": _value(rows, one)} for one in missed
        ],
    }


def _show(rows: Sequence[Row], asked: Queries, missed: Sequence[Floor]) -> None:
    say(asked.about)
    say()
    table = [
        (
            row.name,
            *(share(row.values[metric]) for metric in METRICS),
            number(row.tokens),
            f"{row.p50_ms:.2f}",
            f"{row.p95_ms:.2f}",
        )
        for row in rows
    ]
    header = ("ROW", *(metric.upper() for metric in METRICS), "TOKENS", "P50 MS", "P95 MS")
    print_table(header, table)
    say()
    say(f"{SEARCH}: what search_tools finds, in any mode. Modes: what the client sees with the query as its hint;")
    say(f"full_proxy lists in no order of relevance. {CONFIGURED!r} uses the configured intent if there is one.")
    for one in missed:
        say(f"BELOW: {one.row} {one.metric} is {_value(rows, one):.3f}, the floor is {one.least:g}.")
