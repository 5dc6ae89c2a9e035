"""Executions, spans and the catalog, looked up. Runs in the readers' threads."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_hookspecs import Page

from .conditions import (
    ALL,
    Condition,
    asked_for,
    check_query,
    read_cursor,
    scope_of,
    when,
    within,
    write_cursor,
)
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
)
from .sums import activity, count, days_of, totals
from .texts import blob, name, restored

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

__all__ = ["activity", "check_query", "find", "get", "known", "read_cursor", "totals", "write_cursor"]

FREQUENT = 2000
"""More hits of a search than this are not sorted to find the last ones."""


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


def known(connection: Connection[Any], ids: Sequence[ExecutionId]) -> dict[str, ExecutionRecord]:
    """See :meth:`pml_stores.unwritten.Finder.known`."""
    given = {name(id_): id_ for id_ in ids}
    rows = rows_of(connection, f"SELECT {READ} FROM execution AS e WHERE e.id = ANY(%s)", (list(given),))
    return {given[row[ID]]: read_execution(row) for row in rows}


def find(connection: Connection[Any], query: ExecutionQuery) -> Page[ExecutionRecord]:
    """See :meth:`pml_hookspecs.Executions.find`."""
    asked = asked_for(query, days_of(connection, query))
    total = count(connection, query, asked)
    if not total:
        return Page([], None, 0)
    asked &= within(*when(query))
    if query.text and total > FREQUENT:
        # Those found first come soon, going back in time; all of them would have to be sorted.
        connection.execute("SET LOCAL enable_bitmapscan = off")
    after = ALL if query.cursor is None else Condition("(started_at, id) < (%s, %s)", read_cursor(query.cursor))
    # Which come first is found in an index; only those are read.
    rows = rows_of(
        connection,
        f"SELECT {READ} FROM (SELECT started_at, id FROM execution WHERE {asked.sql} AND {after.sql} "
        "ORDER BY started_at DESC, id DESC LIMIT %s) AS page JOIN execution AS e USING (id) "
        "ORDER BY page.started_at DESC, page.id DESC",
        (*asked.values, *after.values, query.limit + 1),
    )
    more = len(rows) > query.limit
    rows = rows[: query.limit]
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
