"""Executions, spans and the catalog, looked up. Runs in the readers' threads."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Page

from .conditions import (
    Condition,
    asked_for,
    check_query,
    leaving_out,
    read_cursor,
    scope_of,
    write_cursor,
)
from .pages import page_without, takes_one_way
from .rows import (
    ID,
    READ,
    SPAN_COLUMNS,
    STARTED_AT,
    STATUS_COLUMNS,
    TOOL_COLUMNS,
    Row,
    read_execution,
    read_span,
    read_status,
    read_tool,
    said_by,
)
from .searches import find_by_text
from .sums import activity, counting, finest, parts_of, totals
from .texts import blob, name, restored, wanted_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

    from pml_hookspecs import (
        CatalogEntry,
        Ended,
        ExecutionId,
        ExecutionQuery,
        ExecutionRecord,
        Scope,
        ServerStatus,
    )

    from .connection import ServerConnection

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

one_statement = True
"""See :class:`pml_stores.pending_overlay.Statements`, all of which is here."""

PLACE = itemgetter(STARTED_AT, ID)
"""The columns of a row of :data:`READ` that pages are sorted by."""


def rows_of(connection: Connection[Any], sql: str, values: Sequence[Any] = ()) -> list[Row]:
    """All rows, in binary form: JSON comes as it is stored."""
    return connection.execute(sql, values, binary=True).fetchall()


def get(connection: Connection[Any], id_: ExecutionId, scope: Scope, *, transcript: bool) -> ExecutionRecord | None:
    """See :meth:`pml_hookspecs.Executions.get`."""
    seen = scope_of(scope)
    said, joined = (
        ("t.deflated", "LEFT JOIN execution_transcript AS t ON t.execution = e.id")
        if transcript
        else ("NULL::bytea", "")
    )
    rows = rows_of(
        connection,
        f"SELECT {READ}, {said} FROM execution AS e {joined} WHERE e.id = %s AND {seen.sql}",
        (name(id_), *seen.values),
    )
    return read_execution(rows[0][:-1], rows[0][-1]) if rows else None


def says(record: ExecutionRecord, text: str) -> bool:
    """See :meth:`pml_stores.pending_overlay.Statements.says`."""
    if record.nested:
        return False
    there = set(said_by(record))
    return all(any(word.startswith(wanted) for word in there) for wanted in wanted_of(text))


def find(
    connection: ServerConnection, query: ExecutionQuery, without: Sequence[ExecutionId] = ()
) -> Page[ExecutionRecord]:
    """See :meth:`pml_hookspecs.Executions.find`, and :meth:`pml_stores.pending_overlay.Statements.find`."""
    if wanted_of(query.text):
        rows, total = find_by_text(connection, query, without)
        return _page_of(rows, query.limit, total)
    # All in one statement, as a server may be far away.
    gone, parts = leaving_out(without), parts_of(query, asked_for(query, {}), finest(query), without)
    counted, place = counting(query, parts), page_without(query, without)
    # Without a page there is one row, with the total alone.
    sql = (
        f"{gone.sql}SELECT {READ}, counted.total FROM ({counted.sql}) AS counted (total) "
        f"LEFT JOIN (({place.sql}) AS page JOIN execution AS e USING (id)) ON true"
    )
    values = (*gone.values, *counted.values, *place.values)
    if takes_one_way(query, summed=parts.summed):
        rows = connection.execute_as_planned(sql, values).fetchall()
    else:
        rows = rows_of(connection, sql, values)
    (total,) = {row[-1] for row in rows}
    newest = sorted((row[:-1] for row in rows if row[ID] is not None), key=PLACE, reverse=True)
    return _page_of(newest, query.limit, total)


def _page_of(rows: Sequence[Row], limit: int, total: int) -> Page[ExecutionRecord]:
    more, rows = len(rows) > limit, rows[:limit]
    cursor = write_cursor((rows[-1][STARTED_AT], restored(rows[-1][ID]))) if more else None
    return Page([read_execution(row) for row in rows], cursor, total)


def spans(connection: Connection[Any], execution: ExecutionId, scope: Scope) -> list[Ended]:
    """See :meth:`pml_hookspecs.Traces.of`. System scope also sees spans whose execution was never recorded."""
    condition = Condition("span.execution = %s", (name(execution),))
    if scope.principals is not None:
        seen = scope_of(scope)
        condition &= Condition(
            f"EXISTS (SELECT FROM execution AS e WHERE e.id = span.execution AND {seen.sql})", seen.values
        )
    rows = rows_of(
        connection,
        f"SELECT {', '.join(SPAN_COLUMNS)} FROM span WHERE {condition.sql} ORDER BY start_ns, span_id",
        condition.values,
    )
    return [read_span(row) for row in rows]


def tools(connection: Connection[Any], server: str, fingerprint: str) -> list[CatalogEntry]:
    """See :meth:`pml_hookspecs.CatalogCache.entries`."""
    rows = rows_of(
        connection,
        f"SELECT {', '.join(TOOL_COLUMNS)} FROM catalog_tool WHERE server = %s AND fingerprint = %s ORDER BY id",
        (blob(server), blob(fingerprint)),
    )
    return [read_tool(row) for row in rows]


def statuses(connection: Connection[Any]) -> list[ServerStatus]:
    """See :meth:`pml_hookspecs.CatalogCache.statuses`."""
    rows = rows_of(connection, f"SELECT {', '.join(STATUS_COLUMNS)} FROM server_status ORDER BY name")
    return [read_status(row) for row in rows]


def size_bytes(connection: Connection[Any]) -> int:
    """What all tables take on the server's disk, indexes included."""
    row = connection.execute(
        "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8 FROM pg_class "
        "WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND relkind = 'r'"
    ).fetchone()
    return int(row[0]) if row else 0
