"""Turns records into rows and back. Runs in the writer's and the readers' threads, never on the event loop."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_hookspecs import (
    CatalogEntry,
    Ended,
    ExecutionId,
    ExecutionRecord,
    Failure,
    RawObject,
    ServerStatus,
    Span,
    Status,
    ToolId,
    encode,
)

if TYPE_CHECKING:
    import sqlite3

    from pml_hookspecs import Json

Row: TypeAlias = tuple[Any, ...]

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
STATUSES: Mapping[str, Status] = {status.value: status for status in Status}

INLINE_BYTES = 4096
"""JSON over this size lives in ``execution_body``, deflated."""

CHUNK_VALUES = 999
"""Values per statement; SQLite takes no more before 3.32. The interpreter is free for the event loop while a statement
runs, and is taken back after it: few large statements take it seldom, and making the rows of one holds it for about a
tenth of a millisecond."""

NOTHING = ""
"""Stands for NULL in rows, see :func:`insert`."""

EXECUTION_COLUMNS = (
    "id",
    "parent",
    "nested",
    "kind",
    "target",
    "principal",
    "agent",
    "triggered_by",
    "intent",
    "status",
    "started_at",
    "duration_ms",
    "dry_run",
    "cost_micros",
    "bodies",
    "request",
    "response",
    "failure",
    "tool_calls",
    "endpoint",
    "mode",
)
EXECUTION_UPSERT = "ON CONFLICT (id) DO UPDATE SET " + ", ".join(f"{c} = excluded.{c}" for c in EXECUTION_COLUMNS[1:])
BODY_COLUMNS = ("execution", "part", "size_bytes", "deflated")
BODIES = EXECUTION_COLUMNS.index("bodies")
BODY_PARTS: Mapping[int, str] = {1: "request", 2: "response"}
"""Bits of ``execution.bodies``."""

SPAN_COLUMNS = (
    "trace_id",
    "span_id",
    "parent_id",
    "name",
    "kind",
    "execution",
    "start_ns",
    "end_ns",
    "status",
    "attributes",
    "end_attributes",
)
TOOL_COLUMNS = ("server", "fingerprint", "id", "definition", "tokens", "digest", "meta")
STATUS_COLUMNS = ("name", "state", "reason", "tools", "restarts", "description")


NULLABLE = frozenset(
    (
        *("parent", "duration_ms", "cost_micros", "request", "response", "failure", "tool_calls"),
        *("parent_id", "execution", "attributes", "end_attributes"),
    )
)
"""Columns whose values may be :data:`NOTHING`."""


@cache
def _insert(table: str, columns: tuple[str, ...], rows: int, conflict: str) -> str:
    row = f"({', '.join(f'nullif(?, {NOTHING!r})' if c in NULLABLE else '?' for c in columns)})"
    # The names are this module's own; every value is a parameter.
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * rows)} {conflict}"  # noqa: S608


def insert(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...], rows: Iterable[Row], conflict: str = ""
) -> None:
    """Insert ``rows``, some at a time; they are made as they are needed.

    ``sqlite3`` takes a slow way round for None, for ``bytes`` and for every subclass of ``str`` and ``int``: each time
    it looks for an adapter, in vain. So rows have :data:`NOTHING` and ``bytearray`` instead.
    """
    values: list[Any] = []
    count, most = 0, CHUNK_VALUES // len(columns)
    for row in rows:
        values += row
        count += 1
        if count == most:
            connection.execute(_insert(table, columns, count, conflict), values)
            values, count = [], 0
    if count:
        connection.execute(_insert(table, columns, count, conflict), values)


def clean(text: str) -> str:
    """``text`` as SQLite can hold it: lone surrogates, which have no UTF-8 form, are written out as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def micros(moment: datetime) -> int:
    """Microseconds since 1970 UTC.

    Raises:
        TypeError: ``moment`` has no time zone.
    """
    since = moment - BEGINNING
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment(micros: int) -> datetime:
    """The inverse of :func:`micros`."""
    return BEGINNING + micros * MICROSECOND


def write_executions(connection: sqlite3.Connection, records: Iterable[ExecutionRecord]) -> None:
    """Insert or replace ``records``, whose ids differ."""
    bodies: list[Row] = []
    insert(connection, "execution", EXECUTION_COLUMNS, (_row(r, bodies) for r in records), EXECUTION_UPSERT)
    insert(connection, "execution_body", BODY_COLUMNS, bodies)


def _row(record: ExecutionRecord, bodies: list[Row]) -> Row:
    request, response = record.request, record.response
    in_bodies = 0
    # A RawObject is not asked whether it is empty: that would decode it.
    asked = b"" if type(request) is dict and not request else encode(request)
    if len(asked) > INLINE_BYTES:
        bodies.append(_body_row(record.id, "request", asked))
        asked, in_bodies = b"", 1
    answered = b"" if response is None else encode(response)
    if len(answered) > INLINE_BYTES:
        bodies.append(_body_row(record.id, "response", answered))
        answered, in_bodies = b"", in_bodies | 2
    parent, duration, cost, failure = record.parent, record.duration_ms, record.cost_usd, record.failure
    return (
        record.id,
        parent or NOTHING,
        1 if parent else 0,
        record.kind,
        clean(record.target),
        clean(record.principal),
        clean(record.agent),
        record.trigger,
        clean(record.intent),
        str(record.status),
        micros(record.started_at),
        NOTHING if duration is None else round(duration),
        1 if record.dry_run else 0,
        NOTHING if cost is None else round(cost * 1_000_000),
        in_bodies,
        bytearray(asked) or NOTHING,
        bytearray(answered) or NOTHING,
        NOTHING if failure is None else bytearray(_failure_json(failure)),
        bytearray(encode(record.tool_calls)) if record.tool_calls else NOTHING,
        clean(record.endpoint),
        clean(record.mode),
    )


def _body_row(execution: str, part: str, raw: bytes) -> Row:
    return execution, part, len(raw), zlib.compress(raw, 1)


def _failure_json(failure: Failure) -> bytes:
    return encode(
        {
            "code": failure.code,
            "message": failure.message,
            "retryable": failure.retryable,
            "details": failure.details,
        }
    )


def _json(raw: bytes | None) -> Json:
    if raw is None:
        return None
    if raw[:1] == b"{":
        return RawObject(raw)
    value: Json = json.loads(raw)
    return value


def _object(raw: bytes | None) -> Mapping[str, Any]:
    return {} if raw is None else RawObject(raw)


def read_executions(connection: sqlite3.Connection, rows: Sequence[Row]) -> list[ExecutionRecord]:
    """Records of ``rows``, which have :data:`EXECUTION_COLUMNS`; their bodies are fetched."""
    bodies = {
        (row[0], part): _body(connection, row[0], part)
        for row in rows
        for bit, part in BODY_PARTS.items()
        if row[BODIES] & bit
    }
    return [_record(row, bodies) for row in rows]


def _body(connection: sqlite3.Connection, execution: str, part: str) -> bytes:
    found = connection.execute(
        "SELECT deflated FROM execution_body WHERE execution = ? AND part = ?", (execution, part)
    ).fetchone()
    return zlib.decompress(found[0])


def _record(row: Row, bodies: Mapping[tuple[str, str], bytes]) -> ExecutionRecord:
    (id_, parent, _, kind, target, principal, agent, trigger, intent, status, started_at, duration_ms, dry_run) = row[
        :13
    ]
    cost_micros, _, request, response, failure, tool_calls, endpoint, mode = row[13:]
    why = None if failure is None else json.loads(failure)
    return ExecutionRecord(
        id=ExecutionId(id_),
        parent=None if parent is None else ExecutionId(parent),
        kind=kind,
        target=target,
        principal=principal,
        agent=agent,
        trigger=trigger,
        intent=intent,
        status=STATUSES.get(status, status),
        started_at=moment(started_at),
        duration_ms=duration_ms,
        dry_run=bool(dry_run),
        request=_object(bodies.get((id_, "request"), request)),
        response=_json(bodies.get((id_, "response"), response)),
        failure=None if why is None else Failure(why["code"], why["message"], why["retryable"], why["details"]),
        cost_usd=None if cost_micros is None else cost_micros / 1_000_000,
        tool_calls=() if tool_calls is None else tuple(json.loads(tool_calls)),
        endpoint=endpoint,
        mode=mode,
    )


def write_spans(connection: sqlite3.Connection, spans: Iterable[Ended]) -> None:
    """Insert ``spans``; those that are there already stay as they are."""
    texts: dict[tuple[Any, ...], bytearray] = {}
    rows = (_span_row(ended, texts) for ended in spans)
    insert(connection, "span", SPAN_COLUMNS, rows, "ON CONFLICT (trace_id, span_id) DO NOTHING")


def _attributes(attributes: Mapping[str, Json], texts: dict[tuple[Any, ...], bytearray]) -> bytearray | str:
    """``attributes`` as they are stored. ``texts`` has those written already: of many spans most are the same."""
    if not attributes:
        return NOTHING
    # Not of other values: 1 and true are equal, and lists cannot be looked up.
    if set(map(type, attributes.values())) != {str}:
        return bytearray(encode(attributes))
    members = tuple(attributes.items())
    if (text := texts.get(members)) is None:
        text = texts[members] = bytearray(encode(attributes))
    return text


def _span_row(ended: Ended, texts: dict[tuple[Any, ...], bytearray]) -> Row:
    span = ended.span
    return (
        span.trace_id,
        span.span_id,
        span.parent_id or NOTHING,
        clean(span.name),
        span.kind,
        span.execution or NOTHING,
        span.start_ns,
        ended.end_ns,
        str(ended.status),
        _attributes(span.attributes, texts),
        _attributes(ended.attributes, texts),
    )


def read_span(row: Row) -> Ended:
    """The span of a row of :data:`SPAN_COLUMNS`."""
    trace_id, span_id, parent_id, name, kind, execution, start_ns, end_ns, status, attributes, end_attributes = row
    span = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=name,
        kind=kind,
        execution=None if execution is None else ExecutionId(execution),
        start_ns=start_ns,
        attributes=_object(attributes),
    )
    return Ended(span=span, end_ns=end_ns, status=Status(status), attributes=_object(end_attributes))


def write_tools(connection: sqlite3.Connection, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
    """Make ``entries`` all that ``server`` has."""
    # By id: a server that lists a name twice means the last one, like a JSON object with a member twice.
    named = {clean(e.id): e for e in entries}
    rows = ((server, fingerprint, i, encode(e.definition), e.tokens, e.digest, int(e.meta)) for i, e in named.items())
    connection.execute("DELETE FROM catalog_tool WHERE server = ?", (server,))
    insert(connection, "catalog_tool", TOOL_COLUMNS, rows)


def read_tool(row: Row) -> CatalogEntry:
    """The entry of a row of :data:`TOOL_COLUMNS`; its definition is decoded on first use."""
    server, _, id_, definition, tokens, digest, meta = row
    return CatalogEntry(ToolId(id_), server, RawObject(definition), tokens, digest, bool(meta))


def write_status(connection: sqlite3.Connection, status: ServerStatus) -> None:
    """Insert or replace by name."""
    reason, description = clean(status.reason), clean(status.description)
    row = (status.name, status.state, reason, status.tools, status.restarts, description)
    connection.execute("DELETE FROM server_status WHERE name = ?", (status.name,))
    insert(connection, "server_status", STATUS_COLUMNS, [row])


def read_status(row: Row) -> ServerStatus:
    """The status of a row of :data:`STATUS_COLUMNS`."""
    name, state, reason, tools, restarts, description = row
    return ServerStatus(name=name, state=state, reason=reason, tools=tools, restarts=restarts, description=description)
