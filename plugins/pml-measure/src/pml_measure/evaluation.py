"""How well search and exposure modes find the tools that queries need."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Match, RunOptions, Session, ToolCall, ToolId
from pml_kit.mcp.tokens import text_of_result
from pml_kit.offers import VIEWS, required

from . import scores
from .modes import Sizes, Variant
from .output import number, print_table, share, working
from .queries import SEARCH_TOOL

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .queries import Query

SEARCH = "search"
"""The row of what ``search_tools`` finds, whatever the mode."""
DEPTH = 10
MOST_ASKED = 50
"""Searches that are made to measure their answers: each is an execution."""
AGENT = "pml eval"
METRICS = ("recall@1", "recall@5", "recall@10", "hit@1", "ndcg@10", "listed")


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of the search or of one mode."""

    name: str
    values: Mapping[str, float]
    """By name of :data:`METRICS`, in the mean; ``listed``: share of the tools needed that the client sees at all."""
    tokens: float
    """Mean number of tokens of the list in the client's context."""
    answer_tokens: float | None
    """Mean number of tokens of an answer of ``search_tools``; None where nothing is asked."""
    task_tokens: float | None
    """Of the list, and of a search where not all is listed that a query needs, in the mean over the queries; None where
    that cannot be told."""
    task_requests: float
    """Searches and calls of the tools that a query needs, in the mean."""
    p50_ms: float
    p95_ms: float
    found: Sequence[Sequence[Match]] = ()
    """What the search found for each query."""

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
    meta = sizes.all(await required(services, VIEWS).listed("meta_only"))
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


async def answer_tokens(services: Services, sizes: Sizes, texts: Sequence[str]) -> float | None:
    """Tokens of an answer in the mean over a sample of queries; None when ``search_tools`` is not there.

    The searches are rehearsals by a principal of their own: they are in nobody's history, and nothing is learned from
    them.
    """
    if services.catalog.get(ToolId(SEARCH_TOOL)) is None:
        return None
    options = RunOptions(dry_run=True, trigger="manual", agent=AGENT)
    session, counted = Session(key=AGENT, principal=AGENT), []
    for text in texts[:MOST_ASKED]:
        task = ToolCall(id="search", tool=ToolId(SEARCH_TOOL), arguments={"query": text})
        outcome = await services.run(task, session, options)
        if outcome.status.good:
            counted.append(sizes.text(text_of_result(outcome.output)))
    return fmean(counted) if counted else None


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
