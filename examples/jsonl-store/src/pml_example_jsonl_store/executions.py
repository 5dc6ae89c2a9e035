"""Executions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from pml_hookspecs import ExecutionRecord, Page

from . import totals
from .paging import page_of
from .queries import family, matches, sees
from .records import from_plain, to_plain

if TYPE_CHECKING:
    from pml_hookspecs import AgentActivity, ExecutionId, ExecutionQuery, Scope, Total
    from pml_hookspecs.store import Grouping

    from .journal import Journal
    from .traces import JsonlTraces

LARGEST_PAGE = 100


class JsonlExecutions:
    """Implements :class:`pml_hookspecs.Executions`."""

    def __init__(self, journal: Journal, traces: JsonlTraces) -> None:
        self._journal, self._traces = journal, traces
        self.known: dict[str, ExecutionRecord] = {}
        journal.live.part("execution", lambda key, value: self.known.update({key: from_plain(value)}))

    def record(self, record: ExecutionRecord) -> None:
        self._journal.write_soon("execution", record.id, to_plain(record))

    async def put(self, record: ExecutionRecord) -> None:
        self._journal.write("execution", record.id, to_plain(record))

    async def get(self, id: ExecutionId, scope: Scope, *, transcript: bool = False) -> ExecutionRecord | None:
        found = self.known.get(id)
        if found is None or not sees(scope, found):
            return None
        return found if transcript else replace(found, transcript=None)

    def _matching(self, query: ExecutionQuery) -> Iterator[ExecutionRecord]:
        return (replace(record, transcript=None) for record in self.known.values() if matches(record, query))

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        found = ((record.started_at, record.id, record) for record in self._matching(query))
        return page_of(found, query.limit, LARGEST_PAGE, query.cursor)

    async def activity(self, query: ExecutionQuery) -> Sequence[AgentActivity]:
        return totals.activity(self._matching(query))

    async def totals(self, query: ExecutionQuery, by: Grouping) -> Sequence[Total]:
        return totals.totals(self._matching(query), by)

    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete what ended long ago with what ran inside, and write the file anew."""
        inside: dict[str | None, list[ExecutionRecord]] = {}
        for record in self.known.values():
            inside.setdefault(record.parent, []).append(record)
        size, gone = self._journal.live.size_bytes, 0
        for top in sorted(inside.get(None, []), key=lambda record: (record.started_at, record.id)):
            old = before is not None and top.started_at < before
            if not old and (keep_bytes is None or size <= keep_bytes):
                continue
            mine = family(top, inside)
            if not any(record.status in totals.RUNNING for record in mine):
                size, gone = size - sum(map(self._forget, mine)), gone + 1
        if gone:
            self._journal.rewrite()
        return gone

    def _forget(self, record: ExecutionRecord) -> int:
        """Drop it; how many bytes that frees."""
        del self.known[record.id]
        return self._journal.live.forget("execution", record.id) + self._traces.forget(record.id)
