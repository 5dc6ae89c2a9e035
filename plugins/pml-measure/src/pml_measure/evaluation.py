"""``pml eval``: how well search and exposure modes find the tools that queries need."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments, Match, Session

from . import queries, scores
from .answers import answer_tokens
from .counting import counter
from .modes import CONFIGURED, Sizes, Variant, variants
from .output import number, print_json, print_table, say, share, working
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
    """Of the list in the client's context, in the mean."""
    answer_tokens: float | None
    """Of an answer of ``search_tools``, in the mean; None where nothing is asked."""
    task_tokens: float | None
    """Of the list, and of a search where not all is listed that a query needs, in the mean over the queries; None where
    that cannot be told."""
    task_requests: float
    """Searches and calls of the tools that a query needs, in the mean."""
    p50_ms: float
    p95_ms: float
    found: Sequence[Sequence[Match]] = ()
    """Of the search: what each query found."""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.name,
            **self.values,
            "tokens": self.tokens,
            "answer_tokens": self.answer_tokens,
            "task_tokens": self.task_tokens,
            "task_requests": self.task_requests,
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
    with working() as says:
        says(f"measuring {SEARCH} with {len(asked)} queries")
        found = await search(services, sizes, asked)
        rows = [found]
        for mode in modes:
            says(f"measuring {mode.name} with {len(asked)} queries")
            rows.append(await _mode(mode, services, sizes, asked, found.answer_tokens))
    return rows


async def find(services: Services, query: str) -> Sequence[Match]:
    """What a local client finds that has done nothing yet: its past would know the answers to its own queries."""
    session = Session(key=f"measure\n{query}", intent=query)
    return await services.catalog.search(query, limit=DEPTH, session=session)


async def search(services: Services, sizes: Sizes, asked: Sequence[Query]) -> Row:
    """The row of the search."""
    await find(services, asked[0].text)  # builds the index, which no query is to wait for
    found, times = [], []
    for query in asked:
        began = time.perf_counter()
        found.append(await find(services, query.text))
        times.append(time.perf_counter() - began)
    meta = sizes.all([entry for entry in services.catalog if entry.meta])
    answers = await answer_tokens(services, sizes, [query.text for query in asked])
    return _row(
        SEARCH,
        [[hit.id for hit in hits] for hits in found],
        asked,
        [meta],
        times,
        answers=answers,
        searches=answers,
        found=found,
    )


async def _mode(
    mode: Variant, services: Services, sizes: Sizes, asked: Sequence[Query], answers: float | None
) -> Row:  # fmt: skip
    """``answers`` is what an answer of ``search_tools`` takes [tokens]."""
    ranked, tokens, times = [], [], []
    for query in asked:
        began = time.perf_counter()
        listed = await mode.listed(services, mode.intent or query.text)
        times.append(time.perf_counter() - began)
        ranked.append([entry.id for entry in listed if not entry.own])
        tokens.append(sizes.all(listed))
    return _row(mode.name, ranked, asked, tokens, times, searches=answers)


def _row(
    name: str,
    ranked: Sequence[Sequence[str]],
    asked: Sequence[Query],
    tokens: Sequence[int],
    times_s: Sequence[float],
    *,
    answers: float | None = None,
    searches: float | None = None,
    found: Sequence[Sequence[Match]] = (),
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
    # What the search finds is listed nowhere: it is asked each time.
    unlisted = 1.0 if name == SEARCH else fmean(scores.recall(listed, query) < 1 for listed, query in pairs)
    unknown = unlisted > 0 and searches is None
    task_tokens = None if unknown else fmean(tokens) + unlisted * (searches or 0)
    task_requests = fmean(len(query.gold) for query in asked) + unlisted
    p50, p95 = scores.quantile(times_ms, 0.5), scores.quantile(times_ms, 0.95)
    return Row(name, values, fmean(tokens), answers, task_tokens, task_requests, p50, p95, found)


def _value(rows: Sequence[Row], one: Floor) -> float:
    return next(row.values[one.metric] for row in rows if row.name == one.row)


def _document(rows: Sequence[Row], asked: Queries, missed: Sequence[Floor], *, details: bool) -> dict[str, Any]:
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


def print_rows(rows: Sequence[Row]) -> None:
    """A table for people."""
    table = [
        (
            row.name,
            *(share(row.values[metric]) for metric in METRICS),
            number(row.tokens),
            "-" if row.answer_tokens is None else number(row.answer_tokens),
            "-" if row.task_tokens is None else number(row.task_tokens),
            f"{row.task_requests:.1f}",
            f"{row.p50_ms:.2f}",
            f"{row.p95_ms:.2f}",
        )
        for row in rows
    ]
    print_table(
        ("ROW", *(metric.upper() for metric in METRICS), "TOKENS", "ANSWER", "TASK", "REQUESTS", "P50 MS", "P95 MS"),
        table,
    )


def _show(rows: Sequence[Row], asked: Queries, missed: Sequence[Floor]) -> None:
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
