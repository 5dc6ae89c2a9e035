"""Deletes what is old, a little at a time. Runs in the writer's thread."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from . import execution_rows, sums, text
from .conditions import IS_OPEN

if TYPE_CHECKING:
    import sqlite3

FAMILIES = 50
"""Most executions without a parent deleted in one transaction."""
MEMBERS = 300
"""No more families are added to a transaction that deletes so many executions."""
PAGES = 500
"""Most free pages given back, and pages of the index of text merged, in one transaction."""
CAUTION = 0.8
"""Part of what is too much that is deleted before it is seen how much that was."""
MERGE = f"INSERT INTO {text.TABLE} ({text.TABLE}, rank) VALUES ('merge', ?)"
SPANS = 2000
"""Most spans looked at in one transaction."""
UNRECORDED_S = 3600
"""So young a span may be of an execution that is not recorded yet [s]: it is not deleted for its size."""
LEAST_CHANGES = 2
"""With fewer, SQLite had nothing to merge: the command itself counts as one."""
FOREVER = (1 << 63) - 1

_NEXT = f"""
SELECT place, id, started_at FROM execution INDEXED BY execution_by_time
WHERE (started_at, place) > (?, ?) AND started_at >= ? AND started_at < ? AND nested = 0 AND parent IS NULL
AND NOT {IS_OPEN}
ORDER BY started_at, place LIMIT {FAMILIES}
"""
_FAMILY = f"""
WITH RECURSIVE family (id, place) AS (
    SELECT id, place FROM execution WHERE id = ?
    UNION
    SELECT child.id, child.place FROM execution AS child INDEXED BY execution_by_parent
    JOIN family ON child.parent = family.id
)
SELECT f.id, f.place, e.{IS_OPEN} FROM family AS f CROSS JOIN execution AS e ON e.place = f.place
"""
_ORPHANS = f"""
SELECT e.place, e.id FROM execution AS e INDEXED BY execution_by_time
WHERE e.started_at < ? AND e.parent IS NOT NULL AND NOT {IS_OPEN}
AND NOT EXISTS (SELECT 1 FROM execution AS p WHERE p.id = e.parent) LIMIT {MEMBERS}
"""

_SPANS = """
SELECT s.rowid, s.start_ns < ?, NOT EXISTS (SELECT 1 FROM execution AS e WHERE e.id = s.execution)
FROM span AS s WHERE s.rowid > ? ORDER BY s.rowid LIMIT ?
"""


def used_bytes(connection: sqlite3.Connection) -> int:
    """What is stored, free pages not counted."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * size)


class Pruning:
    """Deletes what started earlier than a time, or the oldest until a size is reached. Each step is a transaction.

    An execution goes with all that ran inside, and only when all of that has ended.

    The index of text does not get smaller by what is deleted from it, but when its pieces are merged, which is much
    work. So, where a size is to be reached, executions are deleted until it should be, by what each takes; then the
    index is merged, and it is seen whether there is more to delete.
    """

    def __init__(self, *, before: int | None = None, keep_bytes: int | None = None) -> None:
        """``before`` in microseconds since 1970 UTC."""
        self._before = FOREVER if before is None else before
        self._keep_bytes = keep_bytes
        self._last = (-FOREVER, -FOREVER)
        self._step = self._families if keep_bytes is None else self._measure
        self._last_span = 0
        self._enough_bytes = 0
        self._each_bytes = 0.0
        self.gone = 0
        """Executions without a parent deleted so far."""
        self.done = False

    def step(self, connection: sqlite3.Connection) -> None:
        """Do some of the work."""
        there = (self._step, self._last, self._last_span, self._enough_bytes, self.gone, self.done)
        try:
            self._step(connection)
        except BaseException:
            # The transaction is undone; it may be tried again.
            self._step, self._last, self._last_span, self._enough_bytes, self.gone, self.done = there
            raise

    def _measure(self, connection: sqlite3.Connection) -> None:
        used = used_bytes(connection)
        keep = self._keep_bytes or 0
        (rows,) = connection.execute(
            f"SELECT coalesce(sum(executions), 0) FROM {sums.COARSE.table} WHERE grain = {sums.HOUR}"
        ).fetchone()
        if used <= keep or not rows:
            self._step = self._give_back if used <= keep else self._spans
            return
        self._each_bytes = used / rows
        self._enough_bytes = int((used - keep) * CAUTION)
        self._step = self._families

    def _families(self, connection: sqlite3.Connection) -> None:
        started_at, _ = self._last
        heads = connection.execute(_NEXT, [*self._last, started_at, self._before]).fetchall()
        members: dict[str, int] = {}
        for place, id_, started_at in heads:
            self._last = (started_at, place)
            family = connection.execute(_FAMILY, [id_]).fetchall()
            if any(is_open for _, _, is_open in family):
                # Something inside still runs. It is not come back to before the next time.
                continue
            members.update((member, at) for member, at, _ in family)
            self.gone += 1
            if self._is_much(len(members)):
                break
        _delete(connection, members)
        if not heads:
            self._step = self._orphans
        elif self._keep_bytes is not None:
            self._enough_bytes -= int(len(members) * self._each_bytes)
            if self._enough_bytes <= 0:
                self._step = self._spans_as_old

    def _is_much(self, members: int) -> bool:
        if self._keep_bytes is not None and members * self._each_bytes >= self._enough_bytes:
            return True
        return members >= MEMBERS

    def _orphans(self, connection: sqlite3.Connection) -> None:
        """What ran inside something that was never recorded."""
        orphans = connection.execute(_ORPHANS, [self._before]).fetchall()
        _delete(connection, {id_: place for place, id_ in orphans})
        if not orphans:
            self._step = self._spans

    def _spans_as_old(self, connection: sqlite3.Connection) -> None:
        """Spans of nothing that is recorded, as old as the executions that are gone."""
        if self._is_through(connection, self._last[0]):
            self._step = self._begin_merging

    def _spans(self, connection: sqlite3.Connection) -> None:
        """The same, as old as may be."""
        by_age = self._keep_bytes is None
        if self._is_through(connection, self._before if by_age else int((time.time() - UNRECORDED_S) * 1_000_000)):
            self._step = self._give_back if by_age else self._begin_last_merging

    def _is_through(self, connection: sqlite3.Connection, before: int) -> bool:
        """Delete some spans that began before a time [µs]; whether there were no more.

        Spans are written in the order of their ends, more or less: where many are young, so are all behind them.
        """
        before_ns = min(before, FOREVER // 1000) * 1000
        found = connection.execute(_SPANS, [before_ns, self._last_span, SPANS]).fetchall()
        gone = [row for row, is_old, is_alone in found if is_old and is_alone]
        connection.execute("DELETE FROM span WHERE rowid IN (SELECT value FROM json_each(?))", [json.dumps(gone)])
        if len(found) == SPANS and any(is_old for _, is_old, _ in found):
            self._last_span = found[-1][0]
            return False
        self._last_span = 0
        return True

    def _begin_merging(self, connection: sqlite3.Connection) -> None:
        connection.execute(MERGE, [-PAGES])
        self._step = self._merge

    def _merge(self, connection: sqlite3.Connection) -> None:
        if _merged(connection):
            self._step = self._measure

    def _begin_last_merging(self, connection: sqlite3.Connection) -> None:
        connection.execute(MERGE, [-PAGES])
        self._step = self._last_merge

    def _last_merge(self, connection: sqlite3.Connection) -> None:
        if _merged(connection):
            self._step = self._give_back

    def _give_back(self, connection: sqlite3.Connection) -> None:
        """Make the file smaller, where it was made so that it can be."""
        (before,) = connection.execute("PRAGMA freelist_count").fetchone()
        if self.gone and before:
            for _ in range(min(PAGES, before)):
                # One page at a time: `sqlite3` takes the first step of this and no other.
                connection.execute("PRAGMA incremental_vacuum(1)")
            (after,) = connection.execute("PRAGMA freelist_count").fetchone()
            if after < before:
                return
        sums.tidy(connection)
        self.done = True


def _merged(connection: sqlite3.Connection) -> bool:
    """Merge some of the index of text; whether there was nothing to merge."""
    before = connection.total_changes
    connection.execute(MERGE, [PAGES])
    return connection.total_changes - before < LEAST_CHANGES


def _delete(connection: sqlite3.Connection, members: dict[str, int]) -> None:
    if not members:
        return
    connection.execute(
        "DELETE FROM span WHERE execution IN (SELECT value FROM json_each(?))", [json.dumps(list(members))]
    )
    execution_rows.delete(connection, list(members.values()))
