"""Pages of executions: those of a time, and those with words."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

import binascii
import json
from typing import TYPE_CHECKING

from pml_hookspecs import ExecutionRecord, Page

from . import conditions, execution_rows, searches, summaries
from . import text as texts
from .execution_rows import COLUMNS, FOREVER, ID, STARTED_AT
from .row_values import Row, clean, moment
from .summaries import activity, totals

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from pml_hookspecs import ExecutionId, ExecutionQuery, Scope
    from pml_stores.pending_overlay import Place

    from .conditions import Conditions

__all__ = [
    "activity",
    "check_query",
    "find",
    "get",
    "one_statement",
    "read_cursor",
    "says",
    "totals",
    "write_cursor",
]

one_statement = False
"""See :class:`pml_stores.pending_overlay.Statements`, all of which is here."""

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
    """See :meth:`pml_hookspecs.Executions.find`, and :meth:`pml_stores.pending_overlay.Statements.find`."""
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
    total, these = searches.hits(connection, found, at, query.limit)
    condition = f"{found.of_rows()} AND {found.others} AND {_after(query.cursor, found)}"
    page = (
        f"SELECT {ALL} FROM execution {BY_PLACE} "
        f"WHERE place IN (SELECT value FROM json_each({found.value(json.dumps(these))})) "
        f"AND {condition} {NEWEST_FIRST} {found.value(query.limit + 1)}"
    )
    return total, connection.execute(page, found.values).fetchall()


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


def says(record: ExecutionRecord, text: str) -> bool:
    """See :meth:`pml_stores.pending_overlay.Statements.says`."""
    return not record.nested and texts.says(execution_rows.said_by(record), texts.words(text))


def check_query(query: ExecutionQuery) -> None:
    """Find what is wrong with ``query`` before any thread is asked.

    Raises:
        ValueError: As :meth:`pml_hookspecs.Executions.find` says.
    """
    if not 1 <= query.limit <= MAX_LIMIT:
        raise ValueError(f"`limit` must be 1 to {MAX_LIMIT}, not {query.limit}")
    if query.cursor is not None:
        read_cursor(query.cursor)
