"""Pages of executions: those of a time, and those with words."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

import binascii
import json
from typing import TYPE_CHECKING

from pml_hookspecs import ExecutionRecord, Page
from pml_stores.paging import MOST_COUNTED

from . import conditions, execution_rows, summaries, text
from .execution_rows import COLUMNS, FOREVER, ID, STARTED_AT
from .row_values import Row, clean, moment
from .schema_history import FARTHEST, SPILLED, TIES
from .summaries import activity, totals

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from pml_hookspecs import ExecutionId, ExecutionQuery, Scope
    from pml_stores.unwritten import Place

    from .conditions import Conditions

__all__ = [
    "activity",
    "check_query",
    "find",
    "get",
    "one_statement",
    "read_cursor",
    "totals",
    "write_cursor",
]

one_statement = False
"""See :class:`pml_stores.unwritten.Statements`, all of which is here."""

MAX_LIMIT = 100
CURSOR_MARK = "pml-sqlite-1"
ALL = ", ".join(COLUMNS)
BY_PLACE = "NOT INDEXED"
"""Has SQLite look up the places that it is given, and not go through an index that has the order of the page."""
NEWEST_FIRST = "ORDER BY started_at DESC, id DESC LIMIT"


def get(
    connection: sqlite3.Connection, id_: ExecutionId, scope: Scope, *, transcript: bool = False
) -> ExecutionRecord | None:
    """See :meth:`pml_hookspecs.Executions.get`."""
    found = conditions.Conditions()
    condition = f"id = {found.value(clean(id_))} AND {conditions.scope(found, scope)}"
    rows = connection.execute(f"SELECT {ALL} FROM execution WHERE {condition}", found.values).fetchall()
    parts = execution_rows.REQUEST | execution_rows.RESPONSE | (execution_rows.TRANSCRIPT if transcript else 0)
    records = execution_rows.read(connection, rows, parts)
    return records[0] if records else None


def find(
    connection: sqlite3.Connection, query: ExecutionQuery, without: Sequence[ExecutionId] = ()
) -> Page[ExecutionRecord]:
    """See :meth:`pml_hookspecs.Executions.find`, and :meth:`pml_stores.unwritten.Statements.find`."""
    found = summaries.asked(connection, query, without)
    if found.nothing:
        return Page([], None, 0)
    total, rows = _find_by_text(connection, query, found) if found.words else _find_by_time(connection, query, found)
    more = len(rows) > query.limit
    rows = rows[: query.limit]
    cursor = write_cursor((rows[-1][STARTED_AT], rows[-1][ID])) if more else None
    return Page(execution_rows.read(connection, rows), cursor, total)


def _find_by_time(connection: sqlite3.Connection, query: ExecutionQuery, found: Conditions) -> tuple[int, list[Row]]:
    total = summaries.count(connection, found)
    condition = f"{found.of_rows()} AND {found.others} AND {_after(query.cursor, found)}"
    limit = found.value(query.limit + 1)
    if not found.lanes:
        page = f"SELECT {ALL} FROM execution INDEXED BY {found.index} WHERE {condition} {NEWEST_FIRST} {limit}"
    else:
        # Each in its own order, so that those of somebody who seldom does anything are not looked for among all.
        lanes = " UNION ".join(
            f"SELECT * FROM (SELECT place, started_at, id FROM execution {lane} AND {condition} {NEWEST_FIRST} {limit})"
            for lane in found.lanes
        )
        places = f"SELECT place FROM ({lanes}) {NEWEST_FIRST} {limit}"
        page = f"SELECT {ALL} FROM execution {BY_PLACE} WHERE place IN ({places}) {NEWEST_FIRST} {limit}"
    return total, connection.execute(page, found.values).fetchall()


def _find_by_text(connection: sqlite3.Connection, query: ExecutionQuery, found: Conditions) -> tuple[int, list[Row]]:
    at = FOREVER if query.cursor is None else read_cursor(query.cursor)[0]
    # What the index does not know must be looked up of each.
    looked_up = bool(found.rows) or len(found.shared) > MOST_OF_TEXT or found.whose is None
    telling, others = summaries.found_by_text(found, looked_up=looked_up)
    total, these = _newest(connection, query, found, telling, at)
    if connection.execute("SELECT 1 FROM execution WHERE place >= ? LIMIT 1", [SPILLED]).fetchone():
        more, those = _hits(connection, query, found, others, at)
        total, these = total + more, these + those
    condition = f"{found.of_rows()} AND {_after(query.cursor, found)}"
    page = (
        f"SELECT {ALL} FROM execution {BY_PLACE} "
        f"WHERE place IN (SELECT value FROM json_each({found.value(json.dumps(these))})) "
        f"AND {condition} {NEWEST_FIRST} {found.value(query.limit + 1)}"
    )
    return min(total, MOST_COUNTED), connection.execute(page, found.values).fetchall()


def _newest(
    connection: sqlite3.Connection, query: ExecutionQuery, found: Conditions, places: str, at: int
) -> tuple[int, list[int]]:
    """How many, and places among which are those of the page, where these tell the time of what is found."""

    def newest(before: int, most: int) -> list[int]:
        last = f"{text.TABLE}.rowid < {found.value(before)} ORDER BY {text.TABLE}.rowid DESC"
        rows = connection.execute(f"{places} AND {last} LIMIT {found.value(most)}", found.values)
        return [place for (place,) in rows]

    # Of a microsecond the places are in no order: those of the last one seen may still be to come, and with the last
    # one of the page come all of its time.
    end, most = min(at + 1, FARTHEST + 1) * TIES, query.limit + 1 + 2 * TIES
    there = newest(SPILLED, max(MOST_COUNTED, most))
    these = [place for place in there if place < end]
    if len(these) < most and len(there) >= MOST_COUNTED:
        these = newest(end, most)
    seen = sum(place // TIES == at for place in these[:TIES])
    kept = these[: seen + query.limit + 1]
    return len(there), kept + [place for place in these[len(kept) :] if place // TIES == kept[-1] // TIES]


def _hits(
    connection: sqlite3.Connection, query: ExecutionQuery, found: Conditions, places: str, at: int
) -> tuple[int, list[int]]:
    """The same where each is looked up."""
    last, length = found.value(at), found.value(query.limit + 1)
    total, these = connection.execute(
        f"WITH hit (place, at) AS (SELECT place, started_at FROM execution {BY_PLACE} "
        f"WHERE place IN ({places}) AND {found.of_rows()}), "
        f"page (at) AS (SELECT at FROM hit WHERE at <= {last} ORDER BY at DESC "
        f"LIMIT {length} + (SELECT count(*) FROM hit WHERE at = {last})) "
        "SELECT (SELECT count(*) FROM hit), (SELECT json_group_array(place) FROM hit "
        f"WHERE at <= {last} AND at >= (SELECT min(at) FROM page))",
        found.values,
    ).fetchone()
    return int(total), json.loads(these)


MOST_OF_TEXT = 2
"""Conditions that text always has: its scope, and that nothing inside another execution is found by it."""


def _after(cursor: str | None, found: Conditions) -> str:
    if cursor is None:
        return "1"
    started_at, id_ = read_cursor(cursor)
    at, last = found.value(started_at), found.value(id_)
    return f"started_at <= {at} AND (started_at, id) < ({at}, {last})"


def write_cursor(place: Place) -> str:
    """The place right after that, as text that means nothing to a client."""
    text = json.dumps([CURSOR_MARK, *place]).encode()
    return binascii.b2a_base64(text, newline=False).decode().translate({43: "-", 47: "_", 61: None})


def read_cursor(cursor: str) -> Place:
    """Of the last row seen.

    Raises:
        ValueError: Not written by :func:`write_cursor`.
    """
    try:
        raw = cursor.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"))
        mark, started_at, id_ = json.loads(binascii.a2b_base64(raw + b"=" * (-len(raw) % 4)))
        if mark != CURSOR_MARK or type(started_at) is not int or type(id_) is not str:
            raise ValueError(mark)
        moment(started_at)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise ValueError("`cursor` is not one that this store gave; leave it out to start at the newest") from None
    return started_at, id_


def check_query(query: ExecutionQuery) -> None:
    """Find what is wrong with ``query`` before any thread is asked.

    Raises:
        ValueError: As :meth:`pml_hookspecs.Executions.find` says.
    """
    if not 1 <= query.limit <= MAX_LIMIT:
        raise ValueError(f"`limit` must be 1 to {MAX_LIMIT}, not {query.limit}")
    if query.cursor is not None:
        read_cursor(query.cursor)
