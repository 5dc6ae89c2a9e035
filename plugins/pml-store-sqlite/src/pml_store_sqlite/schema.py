"""The schema: as it is, how a file of an earlier version gets there, and later steps, which are only ever added.

Times of executions are microseconds since 1970 UTC, costs are millionths of a dollar, JSON is UTF-8 text in a BLOB so
that bytes need not be decoded on their way in. Only what SQLite 3.35 knows is used, with FTS5 and JSON.
"""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import json
import zlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pml_stores.sql import totals
from pml_stores.sql.query_builder import ALL
from pml_stores.words import said

from . import text
from .execution_rows import FARTHEST, SPILLED, TIES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

BASE = 7
"""Version of a file that has :data:`SCHEMA` and none of :data:`STEPS`."""
PLACES, WAYS = 4, 3
"""First versions in which executions had places, and in which they had endpoint and mode."""
STEPS: tuple[tuple[str, ...], ...] = ()
"""Statements that lead to later versions; a file of version ``BASE + n`` has had the first ``n``."""

_EXECUTION = """
CREATE TABLE execution (
    place INTEGER PRIMARY KEY NOT NULL, id TEXT NOT NULL UNIQUE, parent TEXT, nested INTEGER NOT NULL,
    kind TEXT NOT NULL, target TEXT NOT NULL, server TEXT NOT NULL, principal TEXT NOT NULL, agent TEXT NOT NULL,
    as_agent INTEGER NOT NULL, triggered_by TEXT NOT NULL, intent TEXT NOT NULL, status TEXT NOT NULL,
    started_at INTEGER NOT NULL, duration_ms INTEGER, dry_run INTEGER NOT NULL, cost_micros INTEGER,
    tokens_in INTEGER, tokens_out INTEGER, context_used INTEGER, context_max INTEGER, endpoint TEXT NOT NULL,
    mode TEXT NOT NULL, access_key TEXT NOT NULL, schedule TEXT NOT NULL, bodies INTEGER NOT NULL, request BLOB,
    response BLOB, failure BLOB, tool_calls BLOB
)
"""
_ASKED = "principal, agent, as_agent, status, nested, dry_run, triggered_by"


def _index(name: str, columns: str, condition: str = "") -> str:
    where = condition and f"WHERE {condition}"
    return f"CREATE INDEX IF NOT EXISTS execution_{name} ON execution ({columns}) {where}"


_INDEXES = (
    # What a list may be narrowed by is in the index, so that only what is given out is read from the rows.
    _index("by_time", f"started_at, {_ASKED}"),
    _index("by_principal", f"principal, started_at, {_ASKED.partition(', ')[2]}"),
    _index("by_agent", "agent, started_at, principal, as_agent, status, nested, dry_run, triggered_by"),
    _index("by_server", f"server, started_at, target, {_ASKED}", "kind = 'tool'"),
    # Few rows are in these; the lists of states are spelled as the queries spell them, or they would not be used.
    _index("open", f"started_at, {_ASKED}", "status IN ('pending', 'running')"),
    _index("failed", f"started_at, {_ASKED}", "status NOT IN ('ok', 'pending', 'running', 'simulated')"),
    _index("by_parent", "parent, started_at", "parent IS NOT NULL"),
)
_OTHERS = (
    """
    CREATE TABLE IF NOT EXISTS execution_body (
        execution TEXT NOT NULL, part TEXT NOT NULL, size_bytes INTEGER NOT NULL, deflated BLOB NOT NULL,
        PRIMARY KEY (execution, part)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS span (
        trace_id TEXT NOT NULL, span_id TEXT NOT NULL, parent_id TEXT, name TEXT NOT NULL, kind TEXT NOT NULL,
        execution TEXT, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, status TEXT NOT NULL, attributes BLOB,
        end_attributes BLOB
    )
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS span_by_id ON span (trace_id, span_id)",
    "CREATE INDEX IF NOT EXISTS span_by_execution ON span (execution, start_ns) WHERE execution IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS span_by_time ON span (start_ns)",
    """
    CREATE TABLE IF NOT EXISTS catalog_tool (
        server TEXT NOT NULL, fingerprint TEXT NOT NULL, id TEXT NOT NULL, definition BLOB NOT NULL,
        tokens INTEGER NOT NULL, digest TEXT NOT NULL, meta INTEGER NOT NULL, PRIMARY KEY (server, id)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS server_status (
        name TEXT PRIMARY KEY NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, tools INTEGER NOT NULL,
        restarts INTEGER NOT NULL, description TEXT NOT NULL DEFAULT ''
    )
    """,
    # Texts are BLOBs, as with documents: any text comes back as it was, and sorts by code point.
    """
    CREATE TABLE IF NOT EXISTS secret (
        owner BLOB NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (owner, name)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS document (
        collection BLOB NOT NULL, key BLOB NOT NULL, version INTEGER NOT NULL, created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL, expires_at INTEGER, marks BLOB NOT NULL, value BLOB NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS document_by_key ON document (collection, key)",
    # Covers counts and the places of a page; only what is given out is read from the rows, which carry JSON.
    "CREATE INDEX IF NOT EXISTS document_by_change ON document (collection, changed_at DESC, key, expires_at)",
    "CREATE INDEX IF NOT EXISTS document_expiring ON document (expires_at) WHERE expires_at IS NOT NULL",
    # Has the order of a page as well, so that those with a mark are not sorted to find the last ones.
    """
    CREATE TABLE IF NOT EXISTS document_mark (
        collection BLOB NOT NULL, name BLOB NOT NULL, text BLOB NOT NULL, changed_at INTEGER NOT NULL,
        key BLOB NOT NULL, expires_at INTEGER, PRIMARY KEY (collection, name, text, changed_at DESC, key)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS document_mark_by_key ON document_mark (collection, key, name, text)",
    """
    CREATE TRIGGER IF NOT EXISTS document_deleted AFTER DELETE ON document
    BEGIN DELETE FROM document_mark WHERE collection = old.collection AND key = old.key; END
    """,
)
_REPLACED = (
    *("execution_text", "execution_said", "execution_unsearched", "summed", "execution_count", "execution_sum"),
    *("execution_tool_sum", "sum_by_principal", "sum_by_agent", "sum_by_tool"),
)
"""Tables of earlier versions, whose gateways find them gone: what these would still record waits, and they say why."""


def bring_up(connection: sqlite3.Connection, version: int) -> None:
    """Make the schema of version :data:`BASE`, of a file that is empty or of an earlier version."""
    if version:
        for table in _REPLACED:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute("DROP INDEX IF EXISTS execution_by_own_agent")
    if 0 < version < WAYS:
        connection.execute("ALTER TABLE server_status ADD COLUMN description TEXT NOT NULL DEFAULT ''")
    if version < PLACES:
        _make_executions(connection, version)
    for statement in (*_INDEXES, *_OTHERS):
        connection.execute(statement)
    connection.execute(totals.create("TEXT", "INTEGER") + " WITHOUT ROWID")
    connection.execute(text.CREATE)
    connection.execute(totals.add(ALL).sql)
    connection.executemany(f"INSERT INTO {text.TABLE} (rowid, words) VALUES (?, ?)", _words(connection))


def _make_executions(connection: sqlite3.Connection, version: int) -> None:
    if version:
        connection.execute("ALTER TABLE execution RENAME TO execution_before")
    connection.execute(_EXECUTION)
    if version:
        ways = "endpoint, mode" if version == WAYS else "'', ''"
        connection.execute(f"""
            INSERT INTO execution SELECT
                CASE WHEN tie < {TIES} AND abs(started_at) <= {FARTHEST} THEN started_at * {TIES} + tie
                    ELSE {SPILLED} + number END,
                id, parent, nested, kind, target,
                CASE WHEN kind = 'tool' AND instr(target, ':') THEN substr(target, 1, instr(target, ':') - 1)
                    ELSE '' END,
                principal, agent, 0, triggered_by, intent, status, started_at, duration_ms, dry_run, cost_micros,
                NULL, NULL, NULL, NULL, {ways}, '', '', bodies, request, response, failure, tool_calls
            FROM (
                SELECT *, rowid AS number, row_number() OVER (PARTITION BY started_at ORDER BY id) - 1 AS tie
                FROM execution_before
            )
        """)
        connection.execute("DROP TABLE execution_before")


def _words(connection: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """What the index has of each execution that is there."""
    columns = "place, id, principal, agent, as_agent, intent, target, bodies, request, response, failure"
    for row in connection.execute(f"SELECT {columns} FROM execution WHERE nested = 0"):
        values = dict(zip(columns.split(", "), row, strict=True))
        failure = values["failure"] and SimpleNamespace(message=json.loads(values["failure"])["message"])
        record: Any = SimpleNamespace(**{**values, "nested": False, "failure": failure})
        asked, answered = (_body(connection, values, part, bit) for part, bit in (("request", 1), ("response", 2)))
        if words := said(record, asked, answered):
            yield values["place"], text.entry(values, words)


def _body(connection: sqlite3.Connection, values: dict[str, Any], part: str, bit: int) -> bytes:
    if not values["bodies"] & bit:
        return values[part] or b""
    of = (values["id"], part)
    found = connection.execute("SELECT deflated FROM execution_body WHERE execution = ? AND part = ?", of)
    return zlib.decompress(found.fetchone()[0])
