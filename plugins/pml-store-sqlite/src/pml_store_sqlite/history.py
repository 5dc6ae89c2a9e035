"""Pages of executions: those of a time, and those with words."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

import binascii
import json
from typing import TYPE_CHECKING

from pml_hookspecs import ExecutionRecord, Page

from . import conditions, execution_rows, summaries
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
    telling, others = summaries.found_by_text(found)
    # What the index does not know must be looked up of each.
    if found.rows or len(found.shared) > MOST_OF_TEXT or found.whose is None:
        total, these = _hits(connection, query, found, f"{telling} UNION ALL {others}", at)
    else:
        total, these = _hits_of_index(connection, query, found, telling, at)
        if connection.execute("SELECT 1 FROM execution WHERE place >= ? LIMIT 1", [SPILLED]).fetchone():
            more, those = _hits(connection, query, found, others, at)
            total, these = total + more, these + those
    condition = f"{found.of_rows()} AND {_after(query.cursor, found)}"
    page = (
        f"SELECT {ALL} FROM execution {BY_PLACE} "
        f"WHERE place IN (SELECT value FROM json_each({found.value(json.dumps(these))})) "
        f"AND {condition} {NEWEST_FIRST} {found.value(query.limit + 1)}"
    )
    return total, connection.execute(page, found.values).fetchall()


def _hits_of_index(
    connection: sqlite3.Connection, query: ExecutionQuery, found: Conditions, places: str, at: int
) -> tuple[int, list[int]]:
    """How many, and places among which are those of the page, where these tell the time of what is found."""
    # Of a microsecond the places are in no order: as many more are taken as it has at both ends of the page.
    last, most = min(at + 1, FARTHEST + 1) * TIES, query.limit + 1 + 2 * TIES
    before = found.value(last)
    # Each search for a beginning of words goes through all that was ever found by them, so there is one, if it can be.
    near = found.value(_near(connection, last))
    total, listed = connection.execute(
        places.replace(
            "rowid", f"count(*), group_concat(CASE WHEN rowid >= {near} AND rowid < {before} THEN rowid END)", 1
        ),
        found.values,
    ).fetchone()
    these = [int(place) for place in listed.split(",")] if listed else []
    if len(these) < min(most, total):
        page = f"{places} AND rowid < {before} ORDER BY rowid DESC LIMIT {found.value(most)}"
        these = [place for (place,) in connection.execute(page, found.values)]
    return int(total), these


def _near(connection: sqlite3.Connection, before: int) -> int:
    """The place from which on there are :data:`NEAR` executions; the first of all when there are fewer."""
    there = connection.execute(
        "SELECT started_at FROM execution INDEXED BY execution_by_time WHERE started_at < ? "
        f"ORDER BY started_at DESC LIMIT 1 OFFSET {NEAR}",
        [before // TIES],
    ).fetchone()
    return -FOREVER if there is None else max(there[0], -FARTHEST) * TIES


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


NEAR = 8000
"""A page with a word that one in fifteen of those says that can be found is among so many executions."""
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
