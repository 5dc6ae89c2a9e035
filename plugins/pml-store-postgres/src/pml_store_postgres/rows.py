"""Turns records into rows and back. Runs in the writer's and the readers' threads, never on the event loop."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
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
from pml_stores.sums import MICROS, MOST, MOST_MICROS, bounded

from .arrays import Array
from .texts import blob, clean, mark_of, name, restored, said, unblob, words_of

if TYPE_CHECKING:
    from psycopg import Connection

    from pml_hookspecs import Json

Row: TypeAlias = tuple[Any, ...]

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY = 86_400_000_000
"""Microseconds."""
STATUSES: Mapping[str, Status] = {status.value: status for status in Status}

PLAIN_BYTES = 4096
"""JSON over this size is deflated; PostgreSQL keeps what is large apart from the rows."""

ROW_BYTES = 900
"""What an execution takes besides its texts, in the row and in the indexes [bytes]."""

EXECUTION_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("started_at", "duration_ms", "cost_micros", "tokens_in", "tokens_out"), "int8"),
    **dict.fromkeys(("context_used", "context_max", "size_bytes"), "int8"),
    "deflated": "int2",
    **dict.fromkeys(("nested", "dry_run", "as_agent"), "bool"),
    **dict.fromkeys(("id", "parent", "kind", "target", "principal", "agent", "triggered_by", "status"), "text"),
    **dict.fromkeys(("access_key", "schedule", "endpoint", "mode", "intent"), "text"),
    **dict.fromkeys(("request", "response", "failure", "tool_calls"), "bytea"),
}
"""Names and types, as they stand in rows."""
READ = ", ".join(f"e.{column}" for column in EXECUTION_COLUMNS)
STARTED_AT, ID = (list(EXECUTION_COLUMNS).index(column) for column in ("started_at", "id"))
_SIZE = list(EXECUTION_COLUMNS).index("size_bytes")

_COLUMNS = ", ".join(EXECUTION_COLUMNS)
_UPDATES = ", ".join(f"{column} = excluded.{column}" for column in [*EXECUTION_COLUMNS, "words"] if column != "id")
_TYPES = (*EXECUTION_COLUMNS.values(), "text")
_WRITE = (
    "WITH forgotten AS (DELETE FROM execution_transcript WHERE execution = ANY(%b)) "  # noqa: S608
    f"INSERT INTO execution ({_COLUMNS}, words) SELECT {_COLUMNS}, words::tsvector "
    f"FROM unnest({', '.join(['%b'] * len(_TYPES))}) AS given ({_COLUMNS}, words) "
    f"ON CONFLICT (id) DO UPDATE SET {_UPDATES}"
)
STATEMENT_BYTES = 32 * 1024 * 1024
"""A statement with so much has enough; PostgreSQL takes no more than 1 GiB."""
_WRITE_TRANSCRIPT = "INSERT INTO execution_transcript (execution, size_bytes, deflated) VALUES (%s, %s, %s)"

SPAN_COLUMNS = (
    *("start_ns", "end_ns", "trace_id", "span_id", "parent_id", "execution", "name", "kind", "status"),
    *("attributes", "end_attributes"),
)
_WRITE_SPAN = (
    f"INSERT INTO span ({', '.join(SPAN_COLUMNS)}) VALUES ({', '.join(['%s'] * len(SPAN_COLUMNS))}) "  # noqa: S608
    "ON CONFLICT DO NOTHING"
)
TOOL_COLUMNS = ("server", "fingerprint", "id", "definition", "tokens", "digest", "meta")
STATUS_COLUMNS = ("name", "state", "reason", "tools", "restarts", "description")


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


class EncodedRow:
    """An execution as it is written."""

    __slots__ = ("id", "row", "transcript")

    def __init__(self, record: ExecutionRecord) -> None:
        """Encode ``record``.

        Raises:
            TypeError: It holds what is not JSON, or a time without a zone.
        """
        transcript = None if record.transcript is None else encode(record.transcript)
        self.transcript: Row | None = None
        size = 0
        if transcript is not None:
            packed = zlib.compress(transcript, 1)
            self.transcript = record.id, len(transcript), packed
            size = len(packed)
        self.id, self.row = record.id, _row(record, size)


def write_executions(connection: Connection[Any], executions: Sequence[EncodedRow]) -> None:
    """Insert or replace ``executions``, whose ids differ."""
    for some in _portions(executions):
        columns = zip(*(execution.row for execution in some), strict=True)
        arrays = [Array(type_name, column) for type_name, column in zip(_TYPES, columns, strict=True)]
        connection.execute(_WRITE, [arrays[ID], *arrays])
    if transcripts := [execution.transcript for execution in executions if execution.transcript]:
        connection.cursor().executemany(_WRITE_TRANSCRIPT, transcripts)


def _portions(executions: Sequence[EncodedRow]) -> Iterator[list[EncodedRow]]:
    some: list[EncodedRow] = []
    size = 0
    for execution in executions:
        some.append(execution)
        size += execution.row[_SIZE]
        if size >= STATEMENT_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _row(record: ExecutionRecord, size: int) -> Row:
    (asked, answered), failure = _documents(record), record.failure
    intent, nested = clean(record.intent), record.nested
    started_at = micros(record.started_at)
    words = None if nested else words_of(started_at // DAY, _texts(record), (asked, answered), _marks(record))
    asked, asked_deflated = _packed(asked)
    answered, answered_deflated = _packed(answered)
    why = None if failure is None else _failure_json(failure)
    tool_calls = encode(record.tool_calls) if record.tool_calls else None
    size += (
        ROW_BYTES + len(words or "") * 3 + len(intent) + sum(len(b) for b in (asked, answered, why, tool_calls) if b)
    )
    return (
        started_at,
        _whole(record.duration_ms),
        None if record.cost_usd is None else bounded(record.cost_usd * MICROS, -MOST_MICROS, MOST_MICROS),
        *map(_whole, (record.tokens_in, record.tokens_out, record.context_used, record.context_max)),
        size,
        asked_deflated | answered_deflated << 1,
        nested,
        record.dry_run,
        record.as_agent,
        name(record.id),
        name(record.parent) if record.parent else None,
        _known(record.kind),
        _known(record.target),
        _known(record.principal),
        _known(record.agent),
        _known(record.trigger),
        _known(str(record.status)),
        _known(record.access_key),
        clean(record.schedule),
        clean(record.endpoint),
        clean(record.mode),
        intent,
        asked,
        answered,
        why,
        tool_calls,
        words,
    )


_known = lru_cache(maxsize=1024)(name)
"""A cache of names that many executions share."""


def said_by(record: ExecutionRecord) -> list[str]:
    """The words that ``record`` is found by, unless it is inside another one."""
    return said(_texts(record), _documents(record))


def _documents(record: ExecutionRecord) -> tuple[bytes | None, bytes | None]:
    """Request and response as JSON."""
    request, response = record.request, record.response
    # A RawObject is not asked whether it is empty: that would decode it.
    asked = None if type(request) is dict and not request else encode(request)
    return asked, None if response is None else encode(response)


def _texts(record: ExecutionRecord) -> tuple[str, str, str]:
    return record.intent, record.target, "" if record.failure is None else record.failure.message


def _marks(record: ExecutionRecord) -> Iterator[str]:
    yield mark_of("principal", record.principal)
    if record.as_agent:
        yield mark_of("agent", record.agent)


def _whole(number: int | None) -> int | None:
    # Most are so, of five in each row; what is reported may be anything all the same.
    return number if isinstance(number, int) and 0 <= number <= MOST else bounded(number, 0, MOST)


def _packed(raw: bytes | None) -> tuple[bytes | None, int]:
    return (zlib.compress(raw, 1), 1) if raw is not None and len(raw) > PLAIN_BYTES else (raw, 0)


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


def read_execution(row: Row, transcript: bytes | None = None) -> ExecutionRecord:
    """The record of a row of :data:`READ`; ``transcript`` as it is stored."""
    started_at, duration_ms, cost_micros, tokens_in, tokens_out, context_used, context_max, _, deflated = row[:9]
    _, dry_run, as_agent, id_, parent, kind, target, principal, agent, trigger, status = row[9:20]
    access_key, schedule, endpoint, mode, intent, request, response, failure, tool_calls = row[20:]
    why = None if failure is None else json.loads(failure)
    return ExecutionRecord(
        id=ExecutionId(restored(id_)),
        parent=None if parent is None else ExecutionId(restored(parent)),
        kind=restored(kind),
        target=restored(target),
        principal=restored(principal),
        agent=restored(agent),
        trigger=trigger,
        intent=restored(intent),
        status=STATUSES.get(status, status),
        started_at=moment(started_at),
        duration_ms=duration_ms,
        dry_run=dry_run,
        request=_object(zlib.decompress(request) if deflated & 1 else request),
        response=_json(zlib.decompress(response) if deflated & 2 else response),
        failure=None if why is None else Failure(why["code"], why["message"], why["retryable"], why["details"]),
        cost_usd=None if cost_micros is None else cost_micros / MICROS,
        tool_calls=() if tool_calls is None else tuple(json.loads(tool_calls)),
        endpoint=restored(endpoint),
        mode=restored(mode),
        as_agent=as_agent,
        access_key=restored(access_key),
        schedule=restored(schedule),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        context_used=context_used,
        context_max=context_max,
        transcript=None if transcript is None else tuple(json.loads(zlib.decompress(transcript))),
    )


def write_spans(connection: Connection[Any], rows: Sequence[Row]) -> None:
    """Insert ``rows`` of :func:`span_row`; those that are there already stay as they are."""
    if rows:
        connection.cursor().executemany(_WRITE_SPAN, rows)


def span_row(ended: Ended) -> Row:
    """``ended`` as it is written."""
    span = ended.span
    return (
        span.start_ns,
        ended.end_ns,
        name(span.trace_id),
        name(span.span_id),
        span.parent_id and name(span.parent_id),
        span.execution and name(span.execution),
        clean(span.name),
        clean(span.kind),
        str(ended.status),
        encode(span.attributes) if span.attributes else None,
        encode(ended.attributes) if ended.attributes else None,
    )


def read_span(row: Row) -> Ended:
    """The span of a row of :data:`SPAN_COLUMNS`."""
    start_ns, end_ns, trace_id, span_id, parent_id, execution, name_, kind, status, attributes, end_attributes = row
    span = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=restored(name_),
        kind=restored(kind),
        execution=None if execution is None else ExecutionId(execution),
        start_ns=start_ns,
        attributes=_object(attributes),
    )
    return Ended(span=span, end_ns=end_ns, status=Status(status), attributes=_object(end_attributes))


def tool_rows(server: str, fingerprint: str, entries: Iterable[CatalogEntry]) -> list[Row]:
    """Rows of :data:`TOOL_COLUMNS`."""
    # By id: a server that lists a name twice means the last one, like a JSON object with a member twice.
    named = {blob(e.id): e for e in entries}
    place = blob(server), blob(fingerprint)
    return [(*place, id_, encode(e.definition), e.tokens, clean(e.digest), bool(e.meta)) for id_, e in named.items()]


def write_tools(connection: Connection[Any], server: str, rows: Sequence[Row]) -> None:
    """Make ``rows`` all that ``server`` has."""
    cursor = connection.cursor()
    cursor.execute("DELETE FROM catalog_tool WHERE server = %s", [blob(server)])
    if rows:
        values = ", ".join(["%s"] * len(TOOL_COLUMNS))
        cursor.executemany(f"INSERT INTO catalog_tool ({', '.join(TOOL_COLUMNS)}) VALUES ({values})", rows)  # noqa: S608


def read_tool(row: Row) -> CatalogEntry:
    """The entry of a row of :data:`TOOL_COLUMNS`; its definition is decoded on first use."""
    server, _, id_, definition, tokens, digest, meta = row
    return CatalogEntry(ToolId(unblob(id_)), unblob(server), RawObject(definition), tokens, restored(digest), meta)


def write_status(connection: Connection[Any], status: ServerStatus) -> None:
    """Insert or replace by name."""
    reason, description = blob(status.reason), blob(status.description)
    connection.execute(
        "INSERT INTO server_status (name, state, reason, tools, restarts, description) VALUES (%s, %s, %s, %s, %s, %s) "
        "ON CONFLICT (name) DO UPDATE SET state = excluded.state, reason = excluded.reason, tools = excluded.tools, "
        "restarts = excluded.restarts, description = excluded.description",
        [blob(status.name), status.state, reason, status.tools, status.restarts, description],
    )


def read_status(row: Row) -> ServerStatus:
    """The status of a row of :data:`STATUS_COLUMNS`."""
    name_, state, reason, tools, restarts, description = row
    return ServerStatus(
        name=unblob(name_),
        state=state,
        reason=unblob(reason),
        tools=tools,
        restarts=restarts,
        description=unblob(description),
    )
