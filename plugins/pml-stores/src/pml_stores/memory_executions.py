"""Executions and their spans in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Ended, ExecutionRecord, Page, encode, replace

from . import sums
from .changes import Key, MemoryTable
from .matching import OPEN, in_scope, matches
from .values import check_limit, micros, read_cursor, write_cursor

if TYPE_CHECKING:
    from datetime import datetime

    from pml_hookspecs import ExecutionId, ExecutionQuery, Grouping, Scope, Total

    from .changes import Changes
    from .values import Place

LARGEST_PAGE = 100
CURSOR_MARK = "pml-memory-1"
RECORD_BYTES, SPAN_BYTES = 300, 300
"""What an execution takes without request, response and transcript, and what a span takes, about."""


class MemoryExecutions(MemoryTable[ExecutionRecord]):
    """Implements :class:`pml_hookspecs.Executions`."""

    def __init__(self, changes: Changes, most: int | None) -> None:
        """Over ``most``, what was recorded first is forgotten."""
        super().__init__()
        self._changes, self._most = changes, most
        self.records = self.values
        """By id."""
        self.traces = MemoryTraces(changes, most, self.values)

    def apply(self, key: Key, value: ExecutionRecord | None) -> None:
        """Take note that ``key`` is an execution, or none any more."""
        super().apply(key, value)
        if value is None:
            self.traces.forget(str(key))
        while self._most is not None and self.count > self._most:
            self.apply(next(iter(self.values)), None)

    def record(self, record: ExecutionRecord) -> None:
        """Insert or replace by id."""
        self._changes.change_soon("execution", record.id, record)

    async def put(self, record: ExecutionRecord) -> None:
        """Insert or replace by id."""
        self._changes.change(("execution", record.id, record))

    async def get(self, id: ExecutionId, scope: Scope, *, transcript: bool = False) -> ExecutionRecord | None:
        """None when unknown or out of scope."""
        record = self.values.get(id)
        if record is None or not in_scope(record, scope):
            return None
        return record if transcript else _listed(record)

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        """Newest first. ValueError for a wrong limit or a cursor of another store."""
        check_limit(query.limit, LARGEST_PAGE)
        before = None if query.cursor is None else read_cursor(CURSOR_MARK, query.cursor)
        found = sorted(self._matching(query), key=_place, reverse=True)
        rest = found if before is None else [record for record in found if _place(record) < before]
        items = [_listed(record) for record in rest[: query.limit]]
        return Page(
            items, write_cursor(CURSOR_MARK, _place(items[-1])) if len(rest) > query.limit else None, len(found)
        )

    async def activity(self, query: ExecutionQuery) -> Sequence[Total]:
        """One row per agent."""
        return sums.activity(sums.add_up(self._matching(query), "agent"))

    async def totals(self, query: ExecutionQuery, by: Grouping) -> Sequence[Total]:
        """One row per group."""
        return sums.totals(sums.add_up(self._matching(query), by), by)

    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete what ended, oldest first, with what ran inside."""
        children: dict[str | None, list[ExecutionRecord]] = {}
        for record in self.values.values():
            children.setdefault(record.parent, []).append(record)
        sizes = {} if keep_bytes is None else {id: self._size_bytes(record) for id, record in self.values.items()}
        size, gone, pruned = sum(sizes.values()), list[str](), 0
        for record in sorted((r for r in children.get(None, ()) if r.status not in OPEN), key=_place):
            old = before is not None and record.started_at < before
            if not old and (keep_bytes is None or size <= keep_bytes):
                break
            family = _family(record, children)
            if not any(member.status in OPEN for member in family):
                gone += [member.id for member in family]
                size -= sum(sizes.get(member.id, 0) for member in family)
                pruned += 1
        self._changes.change(*(("execution", id, None) for id in gone))
        return pruned

    def _matching(self, query: ExecutionQuery) -> Iterator[ExecutionRecord]:
        return (record for record in self.values.values() if matches(record, query))

    def _size_bytes(self, record: ExecutionRecord) -> int:
        bodies = (part for part in (record.request, record.response, record.transcript) if part is not None)
        spans = len(self.traces.keys_of(record.id))
        return RECORD_BYTES + SPAN_BYTES * spans + sum(len(encode(body)) for body in bodies)


class MemoryTraces(MemoryTable[Ended]):
    """Implements :class:`pml_hookspecs.Traces`."""

    def __init__(self, changes: Changes, most: int | None, records: Mapping[Key, ExecutionRecord]) -> None:
        """Of the executions in ``records``. Over ``most``, what was added first is forgotten."""
        super().__init__()
        self._changes, self._most, self._records = changes, most, records
        self._of: dict[str | None, dict[Key, None]] = {}

    def apply(self, key: Key, value: Ended | None) -> None:
        """Take note that ``key`` is a span, or none any more."""
        known = self.values.pop(key, None)
        if known is not None:
            self._of[known.span.execution].pop(key)
            if not self._of[known.span.execution]:
                del self._of[known.span.execution]
        if value is not None:
            self.values[key] = value
            self._of.setdefault(value.span.execution, {})[key] = None
        while self._most is not None and self.count > self._most:
            self.apply(next(iter(self.values)), None)

    def keys_of(self, execution: str) -> Mapping[Key, Any]:
        """Keys of the spans of an execution."""
        return self._of.get(execution, {})

    def forget(self, execution: str) -> None:
        """Drop its spans."""
        for key in list(self.keys_of(execution)):
            self.apply(key, None)

    async def append(self, spans: Sequence[Ended]) -> None:
        """Add those that are not there yet."""
        new: dict[Key, Ended] = {}
        for ended in spans:
            key = (ended.span.trace_id, ended.span.span_id)
            if key not in self.values:
                new.setdefault(key, ended)
        self._changes.change(*(("span", key, ended) for key, ended in new.items()))

    async def of(self, execution: ExecutionId, scope: Scope) -> Sequence[Ended]:
        """Spans of one execution in start order."""
        record = self._records.get(execution)
        if record is None or not in_scope(record, scope):
            return []
        return sorted((self.values[key] for key in self.keys_of(execution)), key=lambda ended: ended.span.start_ns)


def _place(record: ExecutionRecord) -> Place:
    return micros(record.started_at), record.id


def _family(top: ExecutionRecord, children: Mapping[str | None, list[ExecutionRecord]]) -> list[ExecutionRecord]:
    """It, and all that ran inside."""
    found = [top]
    for member in found:
        found += children.get(member.id, ())
    return found


def _listed(record: ExecutionRecord) -> ExecutionRecord:
    return record if record.transcript is None else replace(record, transcript=None)
