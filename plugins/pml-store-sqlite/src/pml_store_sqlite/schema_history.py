"""The fourth step of the schema: history that is searched, added up and deleted again.

Executions get a place: a number that grows with their start, so that those of a time lie side by side, and the search
for text goes through a span of time and through nothing else.
"""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import json
import zlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from . import sums, text
from .row_values import insert

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

TIES = 256
"""Places of one microsecond."""
SPILLED = 1 << 62
"""Places from here on tell no time: of executions whose microsecond had no place left, or is too far away."""
FARTHEST = SPILLED // TIES - 1
"""Microseconds before and after 1970 that there are places for."""

_TABLE = """
CREATE TABLE execution_new (
    place INTEGER PRIMARY KEY NOT NULL,
    id TEXT NOT NULL UNIQUE,
    parent TEXT,
    nested INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    server TEXT NOT NULL,
    principal TEXT NOT NULL,
    agent TEXT NOT NULL,
    as_agent INTEGER NOT NULL,
    triggered_by TEXT NOT NULL,
    intent TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    duration_ms INTEGER,
    dry_run INTEGER NOT NULL,
    cost_micros INTEGER,
    tokens_in INTEGER,
    tokens_out INTEGER,
    context_used INTEGER,
    context_max INTEGER,
    endpoint TEXT NOT NULL,
    mode TEXT NOT NULL,
    access_key TEXT NOT NULL,
    schedule TEXT NOT NULL,
    bodies INTEGER NOT NULL,
    request BLOB,
    response BLOB,
    failure BLOB,
    tool_calls BLOB
)
"""

_MOVE = f"""
INSERT INTO execution_new
SELECT
    CASE WHEN tie < {TIES} AND abs(started_at) <= {FARTHEST} THEN started_at * {TIES} + tie ELSE {SPILLED} + number END,
    id, parent, nested, kind, target,
    CASE WHEN kind = 'tool' AND instr(target, ':') THEN substr(target, 1, instr(target, ':') - 1) ELSE '' END,
    principal, agent, 0, triggered_by, intent, status, started_at, duration_ms, dry_run, cost_micros,
    NULL, NULL, NULL, NULL, endpoint, mode, '', '', bodies, request, response, failure, tool_calls
FROM (
    SELECT *, rowid AS number, row_number() OVER (PARTITION BY started_at ORDER BY id) - 1 AS tie FROM execution
)
"""

_OF_AGENT = "agent, started_at, principal, as_agent, status, nested, dry_run, triggered_by"
_ASKED = "principal, agent, as_agent, status, nested, dry_run, triggered_by"

_OPEN = "status IN ('pending', 'running')"
_FAILED = "status NOT IN ('ok', 'pending', 'running', 'simulated')"


def _index(name: str, columns: str, condition: str = "") -> str:
    return f"CREATE INDEX execution_{name} ON execution ({columns}) {condition and f'WHERE {condition}'}"


_INDEXES = (
    # What a list may be narrowed by is in the index, so that only what is given out is read from the rows.
    _index("by_time", f"started_at, {_ASKED}"),
    _index("by_principal", f"principal, started_at, {_ASKED.partition(', ')[2]}"),
    _index("by_agent", _OF_AGENT),
    _index("by_server", f"server, started_at, target, {_ASKED}", "kind = 'tool'"),
    # What agents did themselves, which others than their principals may see: with those of the other index, somebody
    # who may see an agent that others use would have all of theirs gone through.
    _index("by_own_agent", _OF_AGENT, "as_agent = 1"),
    # Few rows are in these; the lists of states are spelled as the queries spell them, or they would not be used.
    _index("open", f"started_at, {_ASKED}", _OPEN),
    _index("failed", f"started_at, {_ASKED}", _FAILED),
    _index("by_parent", "parent, started_at", "parent IS NOT NULL"),
)


def _fill(connection: sqlite3.Connection) -> None:
    for table in sums.TABLES:
        for grain in (sums.HOUR, sums.DAY):
            connection.execute(table.add(grain, "1"))
    insert(connection, text.TABLE, ("rowid", "said"), _texts(connection))


def _texts(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    rows = connection.execute(
        "SELECT place, id, intent, target, bodies, request, response, failure FROM execution WHERE nested = 0"
    )
    for place, id_, intent, target, bodies, request, response, failure in rows:
        asked = _body(connection, id_, "request") if bodies & 1 else request or b""
        answered = _body(connection, id_, "response") if bodies & 2 else response or b""
        why = None if failure is None else SimpleNamespace(message=json.loads(failure)["message"])
        record: Any = SimpleNamespace(intent=intent, target=target, failure=why)
        if said := text.said(record, asked, answered):
            yield place, said


def _body(connection: sqlite3.Connection, execution: str, part: str) -> bytes:
    found = connection.execute(
        "SELECT deflated FROM execution_body WHERE execution = ? AND part = ?", (execution, part)
    ).fetchone()
    return zlib.decompress(found[0])


HISTORY: tuple[str | Callable[[sqlite3.Connection], None], ...] = (
    _TABLE,
    _MOVE,
    "DROP TABLE execution",
    "ALTER TABLE execution_new RENAME TO execution",
    *_INDEXES,
    *(table.create() for table in sums.TABLES),
    # Of texts and what waits for the index: it is made by the step that marks words by whose they are.
    f"CREATE TABLE {text.TABLE} (said TEXT NOT NULL)",
    f"CREATE TABLE {text.WAITING} (place INTEGER PRIMARY KEY NOT NULL, said TEXT NOT NULL)",
    _fill,
)
"""Statements, and what SQL alone cannot do."""
