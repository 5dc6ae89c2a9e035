"""The questions, as SQL. Scope is part of every one of them."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import binascii
import json
from typing import TYPE_CHECKING, Any

from pml_hookspecs import AgentActivity, Ended, ExecutionRecord, Page, Status

from .rows import (
    EXECUTION_COLUMNS,
    SPAN_COLUMNS,
    STATUS_COLUMNS,
    TOOL_COLUMNS,
    Row,
    clean,
    micros,
    moment,
    read_executions,
    read_span,
    read_status,
    read_tool,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from pml_hookspecs import CatalogEntry, ExecutionId, ExecutionQuery, Scope, ServerStatus

    Condition = tuple[str, list[Any]]

MAX_LIMIT = 100
CURSOR_MARK = "pml-sqlite-1"


OPEN = ("pending", "running")
SUCCEEDED = tuple(sorted(status.value for status in Status if status.good))


def _literals(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


IS_OPEN = f"status IN ({_literals(OPEN)})"
IS_SUCCEEDED = f"status IN ({_literals(SUCCEEDED)})"
IS_FAILED = f"status NOT IN ({_literals({*OPEN, *SUCCEEDED})})"
COLUMNS = ", ".join(EXECUTION_COLUMNS)


def _any_of(column: str, values: Iterable[str]) -> Condition:
    wanted = sorted({clean(value) for value in values})
    if not wanted:
        return "0", []
    if len(wanted) == 1:
        return f"{column} = ?", wanted
    # One parameter however many values there are: SQLite limits their number.
    return f"{column} IN (SELECT value FROM json_each(?))", [json.dumps(wanted)]


def _scope(scope: Scope) -> Condition:
    return ("1", []) if scope.principals is None else _any_of("principal", scope.principals)


def _conditions(query: ExecutionQuery) -> Condition:
    found = [_scope(query.scope)]
    if query.since is not None:
        try:
            found.append(("started_at >= ?", [micros(query.since)]))
        except TypeError:
            raise ValueError("`since` has no time zone; give a UTC time") from None
    if query.agent is not None:
        found.append(("agent = ?", [clean(query.agent)]))
    if query.statuses is not None:
        found.append(_status(query.statuses))
    if query.trigger is not None:
        found.append(("triggered_by = ?", [clean(query.trigger)]))
    if query.parent is not None:
        found.append(("parent = ?", [clean(query.parent)]))
    if query.top_level:
        found.append(("nested = 0", []))
    if not query.include_dry_runs:
        found.append(("dry_run = 0", []))
    return " AND ".join(sql for sql, _ in found), [value for _, values in found for value in values]


def _status(statuses: Iterable[str]) -> Condition:
    wanted = set(statuses)
    condition, values = _any_of("status", wanted)
    # What follows anyway is said in the words of the two partial indexes, so that SQLite can use them.
    if wanted <= set(OPEN):
        condition = f"{IS_OPEN} AND {condition}"
    elif not wanted & {*OPEN, *SUCCEEDED}:
        condition = f"{IS_FAILED} AND {condition}"
    return condition, values


def write_cursor(row: Row) -> str:
    """The place right after ``row``, as text that means nothing to a client."""
    place = json.dumps([CURSOR_MARK, row[EXECUTION_COLUMNS.index("started_at")], row[0]]).encode()
    return binascii.b2a_base64(place, newline=False).decode().translate({43: "-", 47: "_", 61: None})


def read_cursor(cursor: str) -> tuple[int, str]:
    """``(started_at, id)`` of the last row seen.

    Raises:
        ValueError: Not written by :func:`write_cursor`.
    """
    try:
        text = cursor.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"))
        mark, started_at, id_ = json.loads(binascii.a2b_base64(text + b"=" * (-len(text) % 4)))
        if mark != CURSOR_MARK or type(started_at) is not int or type(id_) is not str:
            raise ValueError(mark)
    except (ValueError, TypeError):
        raise ValueError("`cursor` is not one that this store gave; leave it out to start at the newest") from None
    return started_at, id_


def get(connection: sqlite3.Connection, id_: ExecutionId, scope: Scope) -> ExecutionRecord | None:
    """See :meth:`pml_hookspecs.Executions.get`."""
    condition, values = _scope(scope)
    row = connection.execute(f"SELECT {COLUMNS} FROM execution WHERE id = ? AND {condition}", [clean(id_), *values])
    records = read_executions(connection, row.fetchall())
    return records[0] if records else None


def find(connection: sqlite3.Connection, query: ExecutionQuery) -> Page[ExecutionRecord]:
    """See :meth:`pml_hookspecs.Executions.find`."""
    condition, values = _conditions(query)
    after, place = ("1", []) if query.cursor is None else _after(query.cursor)
    (total,) = connection.execute(f"SELECT count(*) FROM execution WHERE {condition}", values).fetchone()
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM execution WHERE {condition} AND {after} ORDER BY started_at DESC, id DESC LIMIT ?",
        [*values, *place, query.limit + 1],
    ).fetchall()
    more = len(rows) > query.limit
    rows = rows[: query.limit]
    return Page(read_executions(connection, rows), write_cursor(rows[-1]) if more else None, total)


def _after(cursor: str) -> Condition:
    started_at, id_ = read_cursor(cursor)
    return "started_at <= ? AND (started_at, id) < (?, ?)", [started_at, started_at, id_]


def check_query(query: ExecutionQuery) -> None:
    """Find what is wrong with ``query`` before any thread is asked.

    Raises:
        ValueError: As :meth:`pml_hookspecs.Executions.find` says.
    """
    if not 1 <= query.limit <= MAX_LIMIT:
        raise ValueError(f"`limit` must be 1 to {MAX_LIMIT}, not {query.limit}")
    if query.cursor is not None:
        read_cursor(query.cursor)


def activity(connection: sqlite3.Connection, query: ExecutionQuery) -> list[AgentActivity]:
    """See :meth:`pml_hookspecs.Executions.activity`."""
    condition, values = _conditions(query)
    # `+`: SQLite would walk the whole index by agent to save itself a sort, however short the time asked for.
    rows = connection.execute(
        "SELECT agent, count(*) AS executions, "
        f"sum({IS_SUCCEEDED}), sum({IS_FAILED}), sum({IS_OPEN}), "
        "total(cost_micros), avg(duration_ms), max(started_at) "
        f"FROM execution WHERE {condition} GROUP BY +agent ORDER BY executions DESC, agent",
        values,
    )
    return [
        AgentActivity(
            agent=agent,
            executions=executions,
            succeeded=succeeded,
            failed=failed,
            running=running,
            cost_usd=cost_micros / 1_000_000,
            mean_duration_ms=None if mean is None else round(mean),
            last_started_at=moment(last),
        )
        for agent, executions, succeeded, failed, running, cost_micros, mean, last in rows
    ]


def spans(connection: sqlite3.Connection, execution: ExecutionId, scope: Scope) -> list[Ended]:
    """See :meth:`pml_hookspecs.Traces.of`. System scope also sees spans whose execution was never recorded."""
    values: list[Any] = [clean(execution)]
    condition = "execution = ?"
    if scope.principals is not None:
        seen, principals = _scope(scope)
        condition += f" AND EXISTS (SELECT 1 FROM execution AS e WHERE e.id = span.execution AND {seen})"
        values += principals
    rows = connection.execute(
        f"SELECT {', '.join(SPAN_COLUMNS)} FROM span WHERE {condition} ORDER BY start_ns, span_id", values
    )
    return [read_span(row) for row in rows]


def tools(connection: sqlite3.Connection, server: str, fingerprint: str) -> list[CatalogEntry]:
    """See :meth:`pml_hookspecs.CatalogCache.entries`."""
    rows = connection.execute(
        f"SELECT {', '.join(TOOL_COLUMNS)} FROM catalog_tool WHERE server = ? AND fingerprint = ? ORDER BY id",
        [server, fingerprint],
    )
    return [read_tool(row) for row in rows]


def statuses(connection: sqlite3.Connection) -> list[ServerStatus]:
    """See :meth:`pml_hookspecs.CatalogCache.statuses`."""
    return [
        read_status(row)
        for row in connection.execute(f"SELECT {', '.join(STATUS_COLUMNS)} FROM server_status ORDER BY name")
    ]
