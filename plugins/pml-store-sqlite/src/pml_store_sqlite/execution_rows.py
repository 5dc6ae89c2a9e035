"""Executions as rows of SQLite. Runs in the writer's and the readers' threads, never on the event loop."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pml_stores.sql.execution_rows
from pml_hookspecs import encode, split_tool_id
from pml_stores.sql.execution_rows import EncodedRow
from pml_stores.sql.query_builder import Condition, when
from pml_stores.sql.totals import TABLE as TOTALS
from pml_stores.sums import DAY
from pml_stores.values import MOST_COUNTED, documents_of, record_of, row_of
from pml_stores.words import said

from . import text
from .conditions import BUILDER

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionQuery, ExecutionRecord
    from pml_stores.values import Place, Row

TIES = 256
"""Places of one microsecond."""
SPILLED = 1 << 62
"""Places from here on tell no time: of executions whose microsecond had no place left, or is too far away."""
FARTHEST = SPILLED // TIES - 1
"""Microseconds before and after 1970 that there are places for."""
FOREVER = (1 << 63) - 1
MOST_READ = 2000
"""Executions that are looked through for words that begin with those of a page."""
INLINE_BYTES = 4096
"""JSON over this size lives in ``execution_body``, deflated."""
PARTS: Mapping[str, int] = {"request": 1, "response": 2, "transcript": 4}
"""Bits of ``execution.bodies``."""
PAGES = 500
"""Most free pages given back, and pages of the index of words merged, in one transaction."""
LEAST_CHANGES = 2
"""With fewer, SQLite had nothing to merge: the command itself counts as one."""

COLUMNS = (
    *("id", "place", "parent", "nested", "kind", "target", "server", "principal", "agent", "as_agent"),
    *("triggered_by", "intent", "status", "started_at", "duration_ms", "dry_run", "cost_micros"),
    *("tokens_in", "tokens_out", "context_used", "context_max", "endpoint", "mode", "access_key", "schedule"),
    *("bodies", "request", "response", "failure", "tool_calls"),
)
_INSERT = f"INSERT INTO execution ({', '.join(COLUMNS)}) VALUES ({', '.join(f':{name}' for name in COLUMNS)})"


class ExecutionRows(pml_stores.sql.execution_rows.ExecutionRows):
    """Each has a place, a number that grows with its start: so words are looked for in a span of time."""

    builder = BUILDER
    columns = COLUMNS
    by_time = "INDEXED BY execution_by_time"

    def encode(self, record: ExecutionRecord) -> EncodedRow:
        values = row_of(record, BUILDER.text, BUILDER.text)
        values["server"] = split_tool_id(values["target"])[0] if record.kind == "tool" else ""
        asked, answered = documents_of(record)
        transcript = b"" if record.transcript is None else encode(record.transcript)
        values |= {"bodies": 0, "request": asked or None, "response": answered or None}
        bodies = []
        for part, raw, most in (
            ("request", asked, INLINE_BYTES), ("response", answered, INLINE_BYTES), ("transcript", transcript, 0)
        ):  # fmt: skip
            if len(raw) > most:
                bodies.append((part, len(raw), zlib.compress(raw, 1)))
                values["bodies"] |= PARTS[part]
                values[part] = None
        return EncodedRow(values["id"], values, said(record, asked, answered), bodies)

    def insert(self, connection: Any, rows: Sequence[EncodedRow]) -> None:
        for row in rows:
            row.values["place"] = _place(connection, row.values["started_at"])
            connection.execute(_INSERT, row.values)
        words = [(row.values["place"], text.entry(row.values, row.words)) for row in rows if row.words]
        connection.executemany(f"INSERT INTO {text.TABLE} (rowid, words) VALUES (?, ?)", words)
        bodies = [(row.id, *body) for row in rows for body in row.bodies]
        connection.executemany("INSERT INTO execution_body VALUES (?, ?, ?, ?)", bodies)

    def record(self, connection: Any, row: Row, *, transcript: bool = False) -> ExecutionRecord:
        values = dict(zip(COLUMNS, row, strict=True))
        for part, bit in PARTS.items():
            if values["bodies"] & bit and (part != "transcript" or transcript):
                body = "SELECT deflated FROM execution_body WHERE execution = ? AND part = ?"
                values[part] = zlib.decompress(*connection.execute(body, (values["id"], part)).fetchone())
        return record_of(values, values["request"], values["response"], values.get("transcript"))

    def forget(self, connection: Any, these: Condition) -> None:
        for table, key, which in (("execution_body", "execution", "id"), (text.TABLE, "rowid", "place")):
            found = f"SELECT {which} FROM execution WHERE {these.sql}"
            connection.execute(f"DELETE FROM {table} WHERE {key} IN ({found})", these.values)

    def text_condition(self, connection: Any, query: ExecutionQuery, wanted: Sequence[str]) -> Condition:
        found = text.match(connection, query.scope, wanted)
        near = Condition("rowid >= ? AND rowid < ?", _span(query))
        sql = f"SELECT rowid FROM {text.TABLE} WHERE {found.sql}"
        return Condition(
            f"place IN ({sql} AND {near.sql} UNION ALL {sql} AND rowid >= {SPILLED})",
            found.values + near.values + found.values,
        )

    def search(self, connection: Any, query: ExecutionQuery, wanted: Sequence[str]) -> tuple[int, list[Place]]:
        start, end = _span(query)
        before = (FOREVER, "") if query.cursor is None else BUILDER.read_cursor(query.cursor)
        # Of a microsecond the places are in no order: those of the last one seen may still be to come.
        last = max(start, min(end, (before[0] + 1) * TIES))
        found, total = self._frequent(connection, query, wanted, start, last, before), MOST_COUNTED
        if found is None:
            found = self._hits(connection, query, wanted, start, end)
            total = len(found)
            if total >= MOST_COUNTED and last < end:
                found = self._hits(connection, query, wanted, start, last)
        return total, sorted((place for place in found if place < before), reverse=True)[: query.limit + 1]

    def _hits(
        self, connection: Any, query: ExecutionQuery, wanted: Sequence[str], start: int, end: int, *,
        whole: bool = False,
    ) -> list[Place]:  # fmt: skip
        """The newest of them, as many as are counted: with all of a microsecond, of which a page has some."""
        rowid = f"{text.TABLE}.rowid"
        these = text.match(connection, query.scope, wanted, whole=whole) & self._asked(query)
        sql = (
            # In this order, which is that of the places: so it can end with the last one that is wanted.
            f"SELECT started_at, id FROM {text.TABLE} CROSS JOIN execution ON place = {rowid} "
            f"WHERE {these.sql} AND {rowid} >= ? AND {rowid} < ? ORDER BY {rowid} DESC LIMIT ?"
        )
        found = connection.execute(sql, (*these.values, start, end, MOST_COUNTED)).fetchall()
        if not whole and _has_spilled(connection):
            found += connection.execute(sql, (*these.values, SPILLED, FOREVER, -1)).fetchall()
        return list(found)

    def _frequent(
        self, connection: Any, query: ExecutionQuery, wanted: Sequence[str], start: int, end: int, before: Place
    ) -> list[Place] | None:
        """Those of the page where more than are counted say the very words; None where they do not, or seldom.

        Of longer words that begin so, the index would collect all that there ever were.
        """
        if all(len(word) <= text.INDEXED_BEGINNINGS for word in wanted) or _has_spilled(connection):
            return None
        exact = self._hits(connection, query, wanted, start, end, whole=True)
        page = sorted((place for place in exact if place < before), reverse=True)[: query.limit + 1]
        if len(exact) < MOST_COUNTED or len(page) <= query.limit:
            return None
        these = self._asked(query) & Condition("place >= ? AND place < ?", (page[-1][0] * TIES, end))
        rows = connection.execute(
            f"SELECT started_at, id, words FROM execution CROSS JOIN {text.TABLE} ON {text.TABLE}.rowid = place "
            f"WHERE {these.sql} LIMIT {MOST_READ + 1}",
            these.values,
        ).fetchall()
        found = [(at, id_) for at, id_, words in rows if text.has_text(words, wanted)]
        return found if len(rows) <= MOST_READ else None

    def used_bytes(self, connection: Any) -> int:
        """What is stored, free pages not counted."""
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def each_bytes(self, connection: Any) -> str:
        of_days = f"SELECT coalesce(sum(executions), 0) FROM {TOTALS} WHERE grain = {DAY}"
        (number,) = connection.execute(of_days).fetchone()
        return str(self.used_bytes(connection) / max(1, number))

    def compact(self, connection: Any) -> bool:
        """Merge pieces of the index of words, which does not get smaller by what is deleted from it."""
        before = connection.total_changes
        connection.execute(f"INSERT INTO {text.TABLE} ({text.TABLE}, rank) VALUES ('merge', ?)", (-PAGES,))
        return bool(connection.total_changes - before >= LEAST_CHANGES)

    def give_back(self, connection: Any) -> bool:
        """Make the file smaller, where it was made so that it can be."""
        (before,) = connection.execute("PRAGMA freelist_count").fetchone()
        for _ in range(min(PAGES, before)):
            # One page at a time: `sqlite3` takes the first step of this and no other.
            connection.execute("PRAGMA incremental_vacuum(1)")
        (after,) = connection.execute("PRAGMA freelist_count").fetchone()
        return bool(after < before)


def _has_spilled(connection: Any) -> bool:
    return connection.execute(f"SELECT 1 FROM execution WHERE place >= {SPILLED} LIMIT 1").fetchone() is not None


def _span(query: ExecutionQuery) -> tuple[int, int]:
    """The places of the time that is asked for."""
    start, end = ((None if at is None else max(-FARTHEST - 1, min(at, FARTHEST + 1)) * TIES) for at in when(query))
    return -SPILLED if start is None else start, SPILLED if end is None else min(end, SPILLED)


def _place(connection: Any, started_at: int) -> int:
    """A free place for this time."""
    first = started_at * TIES if -FARTHEST <= started_at <= FARTHEST else SPILLED
    end = first + TIES if first < SPILLED else FOREVER
    last = "SELECT max(place) FROM execution WHERE place >= ? AND place < ?"
    (found,) = connection.execute(last, (first, end)).fetchone()
    place = first if found is None else int(found) + 1
    return place if place < end else _place(connection, FARTHEST + 1)
