"""Executions as rows of PostgreSQL. Runs in the writer's and the readers' threads, never on the event loop."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pml_stores.sql.execution_rows
from pml_hookspecs import encode
from pml_stores.sql.execution_rows import EncodedRow
from pml_stores.sql.query_builder import ALL, NONE, Condition, when
from pml_stores.sql.totals import TABLE as TOTALS
from pml_stores.sums import DAY
from pml_stores.values import MOST_COUNTED, documents_of, record_of, row_of
from pml_stores.words import said

from .conditions import BUILDER, clean, restored
from .texts import DAY_AND_MARK, mark_of, queries_of, query_of, words_of

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionQuery, ExecutionRecord
    from pml_stores.values import Place, Row

PLAIN_BYTES = 4096
"""JSON over this size is deflated; PostgreSQL keeps what is large apart from the rows."""
ROW_BYTES = 900
"""What an execution takes besides its texts, in the row and in the indexes [bytes]."""
COLUMNS = (
    *("id", "started_at", "duration_ms", "cost_micros", "tokens_in", "tokens_out", "context_used", "context_max"),
    *("size_bytes", "deflated", "nested", "dry_run", "as_agent", "parent", "kind", "target", "principal", "agent"),
    *("triggered_by", "status", "access_key", "schedule", "endpoint", "mode", "intent"),
    *("request", "response", "failure", "tool_calls"),
)
_INSERT = f"INSERT INTO execution ({', '.join(COLUMNS)}, words) VALUES ({', '.join('?' * len(COLUMNS))}, ?::tsvector)"
SPAN_BYTES = "400 + coalesce(length(attributes), 0) + coalesce(length(end_attributes), 0)"
"""Size of a span with its entries in the indexes."""
HERE = "_"  # stands for what is in front of words, and is in none of them


class ExecutionRows(pml_stores.sql.execution_rows.ExecutionRows):
    """The server keeps how large they are, and counts what is in its indexes."""

    builder = BUILDER
    columns = COLUMNS

    def encode(self, record: ExecutionRecord) -> EncodedRow:
        values, documents = row_of(record, BUILDER.text, clean), documents_of(record)
        words, values["deflated"], bodies = said(record, *documents), 0, []
        for bit, part, raw in zip((1, 2), ("request", "response"), documents, strict=True):
            deflate = len(raw) > PLAIN_BYTES
            values[part] = zlib.compress(raw, 1) if deflate else raw or None
            values["deflated"] |= bit * deflate
        if record.transcript is not None:
            transcript = encode(record.transcript)
            bodies.append(("transcript", len(transcript), zlib.compress(transcript, 1)))
        values["words"] = words_of(values, words)
        stored = [values[part] for part in ("intent", "request", "response", "failure", "tool_calls")]
        stored += [deflated for _, _, deflated in bodies]
        # A word stands in the row, in the index and in what it points to.
        values["size_bytes"] = ROW_BYTES + 3 * len(values["words"] or "") + sum(len(part or "") for part in stored)
        return EncodedRow(values["id"], values, words, bodies)

    def insert(self, connection: Any, rows: Sequence[EncodedRow]) -> None:
        BUILDER.execute_many(connection, _INSERT, [[row.values[name] for name in (*COLUMNS, "words")] for row in rows])
        transcripts = [(row.id, size, deflated) for row in rows for _, size, deflated in row.bodies]
        into = "INSERT INTO transcript (execution, size_bytes, deflated) VALUES (?, ?, ?)"
        BUILDER.execute_many(connection, into, transcripts)

    def record(self, connection: Any, row: Row, *, transcript: bool = False) -> ExecutionRecord:
        values, said_bytes = dict(zip(COLUMNS, row, strict=True)), None
        for bit, part in ((1, "request"), (2, "response")):
            if values["deflated"] & bit:
                values[part] = zlib.decompress(values[part])
        if transcript:
            of = "SELECT deflated FROM transcript WHERE execution = ?"
            found = BUILDER.execute(connection, of, (values["id"],)).fetchone()
            said_bytes = found and zlib.decompress(found[0])
        return record_of(values, values["request"], values["response"], said_bytes, restored)

    def text_condition(self, connection: Any, query: ExecutionQuery, wanted: Sequence[str]) -> Condition:
        """As the index of words knows them."""
        return _text_condition(wanted, _places(connection, query))

    def search(self, connection: Any, query: ExecutionQuery, wanted: Sequence[str]) -> tuple[int, list[Place]]:
        """By the index, which has no order, where fewer than are counted say it; else going back in time."""
        _plan(connection, seqscan=False, indexscan=False)  # never through executions of others, whatever it guesses
        found: list[Place] = []
        days, together = sorted(_places(connection, query).items(), reverse=True), 1
        while days and len(found) < MOST_COUNTED:
            # All that the index has of these days is collected before the first is told: of few days at first.
            these = self._asked(query) & _text_condition(wanted, dict(days[:together]))
            sql = f"SELECT started_at, id FROM execution WHERE {these.sql} LIMIT {MOST_COUNTED - len(found)}"
            found += self.execute(connection, Condition(sql, these.values)).fetchall()
            days, together = days[together:], 2 * together
        if len(found) < MOST_COUNTED:
            before = None if query.cursor is None else BUILDER.read_cursor(query.cursor)
            newest = sorted((place for place in found if before is None or place < before), reverse=True)
            page = newest[: query.limit + 1]
        else:
            _plan(connection, bitmapscan=False, indexscan=True, sort=False)  # all of them would have to be sorted
            sql = f"NOT nested AND words @@ replace(?, '{HERE}', {DAY_AND_MARK})::tsquery"
            page = self._page(connection, query, self._asked(query) & Condition(sql, (query_of(wanted, HERE),)))
        _plan(connection, bitmapscan=True, indexscan=True, sort=True, seqscan=True)
        return len(found), page

    def used_bytes(self, connection: Any) -> int:
        """What executions, their transcripts and spans take: what is stored, not what the files have grown to."""
        (stored,) = connection.execute("SELECT coalesce(sum(size_bytes), 0)::int8 FROM stored").fetchone()
        return int(stored)

    def each_bytes(self, connection: Any) -> str:
        return f"e.size_bytes + coalesce((SELECT sum({SPAN_BYTES}) FROM span AS s WHERE s.execution = e.id), 0)"


def _places(connection: Any, query: ExecutionQuery) -> dict[int, list[str]]:
    """Whose words a search goes through on each of the days since 1970: marks of those of its scope who were there."""
    since, until = when(query)
    first, last = None if since is None else since // DAY, None if until is None else -(-until // DAY)
    there = Condition(f"grain = {DAY} AND executions > 0") & BUILDER.between("bucket", first, last)
    scope, found = query.scope, dict[int, list[str]]()
    theirs = ALL if scope.principals is None else BUILDER.any_of("principal", scope.principals)
    shared = Condition("as_agent") & BUILDER.any_of("agent", scope.agents)
    for kind, these in (("principal", there & theirs), ("agent", there & shared)):
        sql = f"SELECT DISTINCT bucket, {kind} FROM {TOTALS} WHERE {these.sql} ORDER BY 1, 2"
        for day, who in BUILDER.execute(connection, sql, these.values):
            found.setdefault(day, []).append(mark_of(kind, restored(who)))
    return found


def _text_condition(wanted: Sequence[str], places: dict[int, list[str]]) -> Condition:
    queries = tuple(queries_of(wanted, places))
    these = " OR ".join(["words @@ ?::tsquery"] * len(queries))
    return Condition(f"NOT nested AND ({these})", queries) if queries else NONE


def _plan(connection: Any, **ways: bool) -> None:
    """Have the server find rows in these ways, and not in those, until the transaction ends."""
    settings = ", ".join(f"set_config('enable_{way}', '{'on' if may else 'off'}', true)" for way, may in ways.items())
    connection.execute(f"SELECT {settings}")


def size_bytes(connection: Any) -> int:
    """What all tables take on the server's disk, indexes included."""
    row = connection.execute(
        "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8 FROM pg_class "
        "WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND relkind = 'r'"
    ).fetchone()
    return int(row[0]) if row else 0
