"""What was done before as evidence: what people asked for and then used, and what they use together.

Of each principal only its own past counts. It is read in the background, when somebody asks, and never on the way of a
search; the same past gives the same evidence.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import permutations
from typing import TYPE_CHECKING, Any

from pml_hookspecs import GATEWAY_SERVER, ExecutionQuery, ExecutionRecord, Scope, Status

from ._numpy import Array, np
from .piece_vectors import table, tokens
from .query import QueryPart, clean

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .ranker import Ranker

MOST_RECORDS, PAGE = 2000, 100
"""How many of the last executions are looked at, and how many are read at once."""
FRESH_S = 60.0
"""How long what was read is good for [s]."""
MOST_PRINCIPALS = 32
SOON = timedelta(minutes=10)
"""A tool that runs within this time after a search counts as what was searched for, or as used together."""
MOST_ANSWERS, MOST_TOGETHER = 5, 20
"""Tools that count for one search, and for one stretch of work."""
UNLIKE, ALIKE = 0.6, 0.95
"""Cosine of two requests below which one says nothing about the other, and from which they count as the same."""
ONE_TIME = 0.6
"""What one earlier use for the same request says [0 to 1]; more of them come closer to 1."""
DOUBT = 2
"""Times a tool was used that say nothing yet about what is used with it."""
SEARCH = f"{GATEWAY_SERVER}:search_tools"
TOGETHER = 0.5
"""What co-use says at most [0 to 1]."""
MATCHING, MOST_MATCHING = 0.6, 3
"""Relevance from which co-use with a tool counts, and how many such tools are looked at."""


@dataclass(frozen=True, slots=True)
class UsageExample:
    """Somebody wanted something, and used tools for it that ended well."""

    wanted: str
    tools: tuple[str, ...]


class PrincipalHistory:
    """The searches and uses of one principal. Implements :class:`pml_search.ranker.UsageEvidence`."""

    def __init__(self, records: Iterable[ExecutionRecord]) -> None:
        """``records`` in any order."""
        ordered = sorted(records, key=lambda record: (record.started_at, record.id))
        self._lessons = list(usage_examples(ordered))
        self._vectors: Array = table().encode([tokens(lesson.wanted) for lesson in self._lessons])
        self._used: Counter[str] = Counter()
        self._together: dict[str, Counter[str]] = defaultdict(Counter)
        for tools in stretches(ordered):
            self._used.update(tools)
            for one, other in permutations(tools, 2):
                self._together[one][other] += 1

    def __bool__(self) -> bool:
        return bool(self._lessons or self._together)

    def evidence(self, ranker: Ranker, part: QueryPart, best: Sequence[tuple[int, float]]) -> dict[int, float]:
        """See :class:`pml_search.ranker.UsageEvidence`."""
        doubts: dict[str, float] = defaultdict(lambda: 1.0)
        if self._lessons:
            cosines = self._vectors @ table().encode([part.tokens])[0]
            for at in np.flatnonzero(cosines > UNLIKE).tolist():
                share = ONE_TIME * min(1.0, (float(cosines[at]) - UNLIKE) / (ALIKE - UNLIKE))
                for tool in self._lessons[at].tools:
                    doubts[tool] *= 1 - share
        matching = [(ranker.data.ids[place], score) for place, score in best[:MOST_MATCHING] if score >= MATCHING]
        for tool, score in matching:
            for other, times in self._together.get(tool, {}).items():
                doubts[other] *= 1 - TOGETHER * score * times / (self._used[tool] + DOUBT)
        return {place: 1 - doubts[tool] for place, _ in best if (tool := ranker.data.ids[place]) in doubts}


def usage_examples(records: Sequence[ExecutionRecord]) -> Iterator[UsageExample]:
    """What is learned from executions, oldest first: searches with what ran soon after, and intents."""
    asked: dict[str, tuple[ExecutionRecord, str, list[str]]] = {}
    for record in records:
        if not _good(record):
            continue
        if record.target == SEARCH and record.kind == "tool":
            yield from _answered(asked.pop(record.agent, None))
            if isinstance(query := record.request.get("query"), str) and query.strip():
                asked[record.agent] = (record, clean(query), [])
            continue
        tools = tools_of(record)
        if record.intent.strip() and tools:
            yield UsageExample(clean(record.intent), tools)
        search = asked.get(record.agent)
        if search is not None and record.started_at - search[0].started_at <= SOON:
            search[2].extend(tool for tool in tools if tool not in search[2])
    for search in asked.values():
        yield from _answered(search)


def _answered(search: tuple[ExecutionRecord, str, list[str]] | None) -> Iterator[UsageExample]:
    if search is not None and search[2]:
        yield UsageExample(search[1], tuple(search[2][:MOST_ANSWERS]))


def stretches(records: Sequence[ExecutionRecord]) -> Iterator[tuple[str, ...]]:
    """Tools that were used together: in one workflow, or one soon after the other; each once, in order of use."""
    now: dict[str, tuple[Any, list[str]]] = {}
    for record in records:
        tools = tools_of(record) if _good(record) else ()
        if not tools:
            continue
        last, some = now.get(record.agent, (record.started_at, []))
        if record.started_at - last > SOON or len(some) >= MOST_TOGETHER:
            yield tuple(some[:MOST_TOGETHER])
            some = []
        some += [tool for tool in tools if tool not in some]
        now[record.agent] = (record.started_at, some)
    for _, some in now.values():
        yield tuple(some[:MOST_TOGETHER])


def tools_of(record: ExecutionRecord) -> tuple[str, ...]:
    """Tools of servers that an execution used; not the gateway's own."""
    used = (record.target,) if record.kind == "tool" else tuple(dict.fromkeys(record.tool_calls))
    return tuple(tool for tool in used if not tool.startswith(f"{GATEWAY_SERVER}:"))


def _good(record: ExecutionRecord) -> bool:
    return record.status == Status.OK and not record.dry_run and record.parent is None


class History:
    """A cache of what each principal used, read from the store."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._pasts: OrderedDict[str, PrincipalHistory] = OrderedDict()
        self._read_at: dict[str, float] = {}

    def of(self, principal: str) -> PrincipalHistory | None:
        """What is known of ``principal``'s past at this moment; None when it is nothing. Has it read if it is old."""
        if time.monotonic() - self._read_at.get(principal, -FRESH_S) >= FRESH_S:
            self._read_at[principal] = time.monotonic()
            self._services.spawn(self._read, principal, name="read-history")
        return self._pasts.get(principal) or None

    async def _read(self, principal: str) -> None:
        try:
            records = await self._records(principal)
        except Exception as exc:
            self._services.log.warning("tools are searched without what was used before", error=str(exc))
            return
        self._pasts[principal] = await asyncio.to_thread(PrincipalHistory, records)
        self._pasts.move_to_end(principal)
        while len(self._pasts) > MOST_PRINCIPALS:
            forgotten, _ = self._pasts.popitem(last=False)
            self._read_at.pop(forgotten, None)

    async def _records(self, principal: str) -> list[ExecutionRecord]:
        found: list[ExecutionRecord] = []
        cursor = None
        while len(found) < MOST_RECORDS:
            page = await self._services.store.executions.find(
                ExecutionQuery(
                    scope=Scope(principals=frozenset({principal})),
                    statuses=frozenset({Status.OK.value}),
                    top_level=True,
                    include_dry_runs=False,
                    limit=PAGE,
                    cursor=cursor,
                )
            )
            found += page.items
            cursor = page.cursor
            if cursor is None:
                break
        return found
