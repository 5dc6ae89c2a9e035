"""The schema, as the numbered steps that lead to it. Steps are only ever added.

Times of executions are microseconds since 1970 UTC, costs are millionths of a dollar, JSON is UTF-8 text in a BLOB so
that bytes need not be decoded on their way in. Only what SQLite 3.35 knows is used, with FTS5 and JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from . import sums, text
from .schema_history import HISTORY

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

_FIRST = (
    """
    CREATE TABLE execution (
        id TEXT PRIMARY KEY NOT NULL,
        parent TEXT,
        nested INTEGER NOT NULL,
        kind TEXT NOT NULL,
        target TEXT NOT NULL,
        principal TEXT NOT NULL,
        agent TEXT NOT NULL,
        triggered_by TEXT NOT NULL,
        intent TEXT NOT NULL,
        status TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        duration_ms INTEGER,
        dry_run INTEGER NOT NULL,
        cost_micros INTEGER,
        bodies INTEGER NOT NULL,
        request BLOB,
        response BLOB,
        failure BLOB,
        tool_calls BLOB
    )
    """,
    # These two cover counts and summaries: neither touches the rows, which carry JSON. None leads with the principal,
    # because most gateways have one.
    """
    CREATE INDEX execution_by_time ON execution (
        started_at, principal, agent, status, nested, dry_run, triggered_by, cost_micros, duration_ms
    )
    """,
    """
    CREATE INDEX execution_by_agent ON execution (
        agent, started_at, principal, status, nested, dry_run, triggered_by, cost_micros, duration_ms
    )
    """,
    # Few rows are in these two; the lists of states are spelled as the queries spell them, or they would not be used.
    """
    CREATE INDEX execution_open ON execution (started_at, principal, agent, status, nested, dry_run, triggered_by)
    WHERE status IN ('pending', 'running')
    """,
    """
    CREATE INDEX execution_failed ON execution (started_at, principal, agent, status, nested, dry_run, triggered_by)
    WHERE status NOT IN ('ok', 'pending', 'running', 'simulated')
    """,
    "CREATE INDEX execution_by_parent ON execution (parent, started_at) WHERE parent IS NOT NULL",
    """
    CREATE TABLE execution_body (
        execution TEXT NOT NULL,
        part TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        deflated BLOB NOT NULL,
        PRIMARY KEY (execution, part)
    )
    """,
    """
    CREATE TRIGGER execution_replaced BEFORE UPDATE ON execution WHEN old.bodies <> 0
    BEGIN DELETE FROM execution_body WHERE execution = old.id; END
    """,
    """
    CREATE TABLE span (
        trace_id TEXT NOT NULL,
        span_id TEXT NOT NULL,
        parent_id TEXT,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        execution TEXT,
        start_ns INTEGER NOT NULL,
        end_ns INTEGER NOT NULL,
        status TEXT NOT NULL,
        attributes BLOB,
        end_attributes BLOB
    )
    """,
    "CREATE UNIQUE INDEX span_by_id ON span (trace_id, span_id)",
    "CREATE INDEX span_by_execution ON span (execution, start_ns) WHERE execution IS NOT NULL",
    """
    CREATE TABLE catalog_tool (
        server TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        id TEXT NOT NULL,
        definition BLOB NOT NULL,
        tokens INTEGER NOT NULL,
        digest TEXT NOT NULL,
        meta INTEGER NOT NULL,
        PRIMARY KEY (server, id)
    )
    """,
    """
    CREATE TABLE server_status (
        name TEXT PRIMARY KEY NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        tools INTEGER NOT NULL,
        restarts INTEGER NOT NULL
    )
    """,
)

_SECRETS = (
    """
    CREATE TABLE secret (
        owner BLOB NOT NULL,
        name BLOB NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (owner, name)
    ) WITHOUT ROWID
    """,
)

_DOCUMENTS = (
    # Texts are BLOBs, as with secrets: any text comes back as it was, and sorts by code point.
    """
    CREATE TABLE document (
        collection BLOB NOT NULL,
        key BLOB NOT NULL,
        version INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL,
        expires_at INTEGER,
        marks BLOB NOT NULL,
        value BLOB NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX document_by_key ON document (collection, key)",
    # Covers counts and the places of a page; only what is given out is read from the rows, which carry JSON.
    "CREATE INDEX document_by_change ON document (collection, changed_at DESC, key, expires_at)",
    "CREATE INDEX document_expiring ON document (expires_at) WHERE expires_at IS NOT NULL",
    # Has the order of a page as well, so that those with a mark are not sorted to find the last ones.
    """
    CREATE TABLE document_mark (
        collection BLOB NOT NULL,
        name BLOB NOT NULL,
        text BLOB NOT NULL,
        changed_at INTEGER NOT NULL,
        key BLOB NOT NULL,
        expires_at INTEGER,
        PRIMARY KEY (collection, name, text, changed_at DESC, key)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX document_mark_by_key ON document_mark (collection, key, name, text)",
    """
    CREATE TRIGGER document_deleted AFTER DELETE ON document
    BEGIN DELETE FROM document_mark WHERE collection = old.collection AND key = old.key; END
    """,
    "ALTER TABLE execution ADD COLUMN endpoint TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE execution ADD COLUMN mode TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE server_status ADD COLUMN description TEXT NOT NULL DEFAULT ''",
)


SUMS_BEFORE = {"execution_count": sums.COARSE, "execution_sum": sums.BY_AGENT, "execution_tool_sum": sums.BY_EVERYTHING}
"""Names that tables had as long as days had all of their hours."""


def _name_anew(connection: sqlite3.Connection) -> None:
    """A gateway of the version before, still running, would count what it writes twice. So it finds no table."""
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    for name, table in SUMS_BEFORE.items():
        if name in there:
            connection.execute(f"ALTER TABLE {name} RENAME TO {table.table}")


def _leave_the_hour_out(connection: sqlite3.Connection) -> None:
    """Days have had hours that are not over until now."""
    last, hours = sums.last_over(), sums.DAY // sums.HOUR
    day = last // hours
    for table in sums.TABLES:
        connection.execute(
            f"DELETE FROM {table.table} WHERE grain = {sums.DAY} AND bucket >= ?",  # noqa: S608 - a name of ours
            (day,),
        )
    sums.add_hours(connection, day * hours - 1, last)
    connection.execute("INSERT INTO summed VALUES (?)", (last,))


_HOURS = ("CREATE TABLE summed (hour INTEGER NOT NULL)", _name_anew, _leave_the_hour_out)


Step: TypeAlias = "str | Callable[[sqlite3.Connection], None]"


def _take_all(connection: sqlite3.Connection) -> None:
    text.take(connection, "IS NOT NULL")


_WORDS_BY_OWNER: tuple[Step, ...] = (
    text.CREATE_SAID,
    f"INSERT INTO {text.SAID} SELECT rowid, said FROM {text.TABLE} UNION ALL SELECT place, said FROM {text.WAITING}",  # noqa: S608 - names of ours
    f"DROP TABLE {text.TABLE}",
    f"DROP TABLE {text.WAITING}",
    text.CREATE_WAITING,
    text.CREATE,
    *text.SET_UP,
    _take_all,
)

MIGRATIONS: tuple[tuple[Step, ...], ...] = (_FIRST, _SECRETS, _DOCUMENTS, HISTORY, _HOURS, _WORDS_BY_OWNER)
"""Statements of each step, and what takes more than statements; a file of schema ``n`` has had the first ``n``."""
