"""Deletes what is old, a little at a time: the statements of both databases. Runs in the writer's thread."""
# ruff: noqa: S608 - the SQL is put together from this library's own text; every value is a parameter

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .query_builder import IS_OPEN, Condition
from .totals import FORGET_EMPTY

if TYPE_CHECKING:
    from .execution_rows import ExecutionRows

FAMILIES = 100
"""Most executions without a parent that one step deletes, so that nobody waits long."""
SPANS = 2000
"""Most spans of nothing that is recorded that one step deletes."""
UNRECORDED_S = 3600
"""So young a span may be of an execution that is not recorded yet [s]: it is not deleted for its size."""
CAUTION = 0.8
"""Part of what is too much that is deleted before it is seen how much that was."""
LATEST = (1 << 63) - 1

_FAMILIES = """
WITH RECURSIVE needed (id, parent) AS (
    SELECT id, parent FROM execution WHERE {is_open}
    UNION
    SELECT e.id, e.parent FROM needed CROSS JOIN execution AS e WHERE e.id = needed.parent
), oldest (at, id) AS (
    SELECT started_at, id FROM execution {by_time}
    WHERE started_at < ? AND {top} AND parent IS NULL AND NOT ({is_open}) AND id NOT IN (SELECT id FROM needed)
    ORDER BY started_at, id LIMIT {families}
), family (at, top, id) AS (
    SELECT at, id, id FROM oldest
    UNION
    SELECT family.at, family.top, e.id FROM family CROSS JOIN execution AS e WHERE e.parent = family.id
)
SELECT family.at, family.top, e.id, {size} FROM family CROSS JOIN execution AS e WHERE e.id = family.id
"""
"""The oldest of those in which everything has ended, with what ran inside and how large each is."""
_ORPHANS = """
SELECT id FROM execution AS e {by_time} WHERE parent IS NOT NULL AND NOT ({is_open}) AND started_at < ?
AND NOT EXISTS (SELECT 1 FROM execution AS p WHERE p.id = e.parent) ORDER BY started_at, id LIMIT {families}
"""
_SPANS = """
DELETE FROM span WHERE (trace_id, span_id) IN (
    SELECT s.trace_id, s.span_id FROM span AS s WHERE s.start_ns < ?
    AND NOT EXISTS (SELECT 1 FROM execution AS e WHERE e.id = s.execution) LIMIT {spans}
)
"""
"""Of nothing that is recorded."""
_OLDEST = "SELECT min(started_at) FROM execution {by_time} WHERE NOT ({is_open})"


class Pruning:
    """Deletes executions that have ended, oldest first: what is too old, or what there is too much of."""

    def __init__(self, rows: ExecutionRows, *, before: int | None = None, keep_bytes: int | None = None) -> None:
        """One of the two: a time in microseconds since 1970 UTC, or how much may be stored."""
        self._rows, self._before, self._keep_bytes = rows, before, keep_bytes
        self._surplus = 0.0
        """How much to delete before it is measured again [bytes]."""
        self._ends = False

    def step(self, connection: Any) -> tuple[int, bool]:
        """Do some of the work, in a transaction; how many without a parent are gone, and whether that is all.

        If the transaction is undone, the step may be taken again.
        """
        if not self._ends:
            gone, more = self._by_age(connection) if self._before is not None else self._by_size(connection)
            if more:
                return gone, False
            self._ends = True
        if self._rows.give_back(connection):
            return 0, False
        self._execute(connection, FORGET_EMPTY)
        return 0, True

    def _by_age(self, connection: Any) -> tuple[int, bool]:
        before = self._before or 0
        if gone := self._families(connection, before):
            return gone, True
        # What ran inside something that was never recorded.
        if orphans := [id_ for (id_,) in self._execute(connection, _ORPHANS, before).fetchall()]:
            self._delete(connection, orphans)
        return 0, bool(orphans) or self._spans(connection, before)

    def _by_size(self, connection: Any) -> tuple[int, bool]:
        if self._surplus <= 0:
            if self._rows.compact(connection):
                return 0, True
            surplus = self._rows.used_bytes(connection) - (self._keep_bytes or 0)
            if surplus <= 0:
                return 0, False
            self._surplus = max(1, surplus * CAUTION)
        gone = self._families(connection, None)
        (oldest,) = self._execute(connection, _OLDEST).fetchone()
        an_hour_ago = int((time.time() - UNRECORDED_S) * 1_000_000)
        spans = self._spans(connection, an_hour_ago if oldest is None else min(oldest, an_hour_ago))
        if not gone:
            self._surplus = 0
        return gone, spans or gone > 0

    def _families(self, connection: Any, before: int | None) -> int:
        size = "0" if before is not None else self._rows.each_bytes(connection)
        rows = self._execute(connection, _FAMILIES, LATEST if before is None else before, size=size).fetchall()
        families: dict[tuple[int, str], list[tuple[str, float]]] = {}
        for at, top, id_, size_bytes in rows:
            families.setdefault((at, top), []).append((id_, float(size_bytes)))
        gone, ids, surplus = 0, list[str](), self._surplus
        for family in sorted(families):
            if before is None and surplus <= 0:
                break
            gone += 1
            ids += [id_ for id_, _ in families[family]]
            surplus -= sum(size_bytes for _, size_bytes in families[family])
        self._delete(connection, ids)
        self._surplus = surplus
        return gone

    def _delete(self, connection: Any, ids: list[str]) -> None:
        if ids:
            of_spans = self._rows.builder.among("execution", ids)
            self._rows.execute(connection, Condition(f"DELETE FROM span WHERE {of_spans.sql}", of_spans.values))
            self._rows.delete(connection, self._rows.builder.among("id", ids))

    def _spans(self, connection: Any, before: int) -> bool:
        """Delete some spans of nothing that is recorded that began before a time [µs]; whether there were any."""
        return bool(self._execute(connection, _SPANS, min(before, LATEST // 1000) * 1000).rowcount > 0)

    def _execute(self, connection: Any, sql: str, *values: Any, size: str = "") -> Any:
        top, by_time = self._rows.builder.no.format("nested"), self._rows.by_time
        made = sql.format(is_open=IS_OPEN, by_time=by_time, top=top, families=FAMILIES, spans=SPANS, size=size)
        return self._rows.execute(connection, Condition(made, values))
