"""Turns executions into rows and back. Runs in the writer's and the readers' threads, never on the event loop."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import ExecutionId, ExecutionRecord, Failure, Status, encode, split_tool_id
from pml_stores.sums import MICROS, MOST, MOST_MICROS, bounded

from . import sums, text
from .row_values import NOTHING, Row, as_json, as_object, clean, insert, micros, moment
from .schema_history import FARTHEST, SPILLED, TIES

if TYPE_CHECKING:
    import sqlite3

STATUSES: Mapping[str, Status] = {status.value: status for status in Status}

FOREVER = (1 << 63) - 1

INLINE_BYTES = 4096
"""JSON over this size lives in ``execution_body``, deflated."""

COLUMNS = (
    *("place", "id", "parent", "nested", "kind", "target", "server", "principal", "agent", "as_agent"),
    *("triggered_by", "intent", "status", "started_at", "duration_ms", "dry_run", "cost_micros"),
    *("tokens_in", "tokens_out", "context_used", "context_max", "endpoint", "mode", "access_key", "schedule"),
    *("bodies", "request", "response", "failure", "tool_calls"),
)
ID, STARTED_AT = COLUMNS.index("id"), COLUMNS.index("started_at")
BODY_COLUMNS = ("execution", "part", "size_bytes", "deflated")
BODIES = COLUMNS.index("bodies")
REQUEST, RESPONSE, TRANSCRIPT = 1, 2, 4
"""Bits of ``execution.bodies``."""
BODY_PARTS: Mapping[int, str] = {REQUEST: "request", RESPONSE: "response", TRANSCRIPT: "transcript"}
NO_BODIES: Mapping[str, bytes] = {}


def write(connection: sqlite3.Connection, records: Sequence[ExecutionRecord]) -> None:
    """Insert or replace ``records``, whose ids differ."""
    if not records:
        return
    if replaced := places_of(connection, [record.id for record in records]):
        delete(connection, replaced)
    places = _places(connection, [micros(record.started_at) for record in records])
    bodies: list[Row] = []
    texts: list[Row] = []
    rows = [_row(place, record, bodies, texts) for place, record in zip(places, records, strict=True)]
    insert(connection, "execution", COLUMNS, rows)
    insert(connection, "execution_body", BODY_COLUMNS, bodies)
    text.add(connection, texts)
    sums.add(connection, rows, COLUMNS)


def places_of(connection: sqlite3.Connection, ids: Sequence[str]) -> list[int]:
    """Places of the executions that are written."""
    there = connection.execute(
        "SELECT place FROM execution WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(ids)]
    )
    return [place for (place,) in there]


def delete(connection: sqlite3.Connection, places: Sequence[int]) -> None:
    """Delete the executions at ``places``, with all that is kept of them but their spans."""
    these = json.dumps(places)
    sums.take_off(connection, these)
    connection.execute(
        f"DELETE FROM execution_body WHERE execution IN (SELECT id FROM execution WHERE bodies <> 0 AND {sums.THESE})",
        [these],
    )
    text.forget(connection, these)
    connection.execute(f"DELETE FROM execution WHERE {sums.THESE}", [these])


def _places(connection: sqlite3.Connection, starts: Sequence[int]) -> list[int]:
    """A free place for each of these times."""
    wanted = [start * TIES if -FARTHEST <= start <= FARTHEST else SPILLED for start in starts]
    taken = {
        place
        for (place,) in connection.execute(
            "SELECT place FROM execution WHERE place IN (SELECT value FROM json_each(?))", [json.dumps(wanted)]
        )
    }
    for n, place in enumerate(wanted):
        if place in taken:
            wanted[n] = _next_place(connection, place, taken)
        taken.add(wanted[n])
    return wanted


def _next_place(connection: sqlite3.Connection, place: int, taken: set[int]) -> int:
    end = place + TIES if place < SPILLED else FOREVER
    (last,) = connection.execute(
        "SELECT max(place) FROM execution WHERE place >= ? AND place < ?", [place, end]
    ).fetchone()
    free = place if last is None else last + 1
    while free in taken:
        free += 1
    return free if free < end else _next_place(connection, SPILLED, taken)


def said_by(record: ExecutionRecord) -> str:
    """What is searched of ``record``."""
    return text.said(record, *_documents(record))


def _documents(record: ExecutionRecord) -> tuple[bytes, bytes]:
    """Request and response as JSON, empty for nothing."""
    request, response = record.request, record.response
    # A RawObject is not asked whether it is empty: that would decode it.
    asked = b"" if type(request) is dict and not request else encode(request)
    return asked, b"" if response is None else encode(response)


def _row(place: int, record: ExecutionRecord, bodies: list[Row], texts: list[Row]) -> Row:
    (asked, answered), in_bodies = _documents(record), 0
    parent, failure, nested = record.parent, record.failure, int(record.nested)
    if not nested and (said := text.said(record, asked, answered)):
        texts.append((place, said))
    if len(asked) > INLINE_BYTES:
        bodies.append(_body_row(record.id, "request", asked))
        asked, in_bodies = b"", REQUEST
    if len(answered) > INLINE_BYTES:
        bodies.append(_body_row(record.id, "response", answered))
        answered, in_bodies = b"", in_bodies | RESPONSE
    if record.transcript is not None:
        bodies.append(_body_row(record.id, "transcript", encode(record.transcript)))
        in_bodies |= TRANSCRIPT
    target = clean(record.target)
    return (
        place,
        record.id,
        parent or NOTHING,
        nested,
        record.kind,
        target,
        split_tool_id(target)[0] if record.kind == "tool" else "",
        clean(record.principal),
        clean(record.agent),
        1 if record.as_agent else 0,
        record.trigger,
        clean(record.intent),
        str(record.status),
        micros(record.started_at),
        _whole(record.duration_ms),
        1 if record.dry_run else 0,
        NOTHING if record.cost_usd is None else _number(record.cost_usd * MICROS, -MOST_MICROS, MOST_MICROS),
        _whole(record.tokens_in),
        _whole(record.tokens_out),
        _whole(record.context_used),
        _whole(record.context_max),
        clean(record.endpoint),
        clean(record.mode),
        clean(record.access_key),
        clean(record.schedule),
        in_bodies,
        bytearray(asked) or NOTHING,
        bytearray(answered) or NOTHING,
        NOTHING if failure is None else bytearray(_failure_json(failure)),
        bytearray(encode(record.tool_calls)) if record.tool_calls else NOTHING,
    )


def _whole(number: int | None) -> int | str:
    # Most are so, of five in each row; what is reported may be anything all the same.
    return number if isinstance(number, int) and 0 <= number <= MOST else _number(number, 0, MOST)


def _number(number: float | None, least: int, most: int) -> int | str:
    return NOTHING if (found := bounded(number, least, most)) is None else found


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


def read(connection: sqlite3.Connection, rows: Iterable[Row], parts: int = REQUEST | RESPONSE) -> list[ExecutionRecord]:
    """Records of ``rows``, which have :data:`COLUMNS`; of their bodies those ``parts`` are fetched."""
    return [
        _record(row, _bodies(connection, row[ID], wanted) if (wanted := row[BODIES] & parts) else NO_BODIES)
        for row in rows
    ]


def _bodies(connection: sqlite3.Connection, execution: str, parts: int) -> dict[str, bytes]:
    found = {}
    for bit, part in BODY_PARTS.items():
        if parts & bit:
            (deflated,) = connection.execute(
                "SELECT deflated FROM execution_body WHERE execution = ? AND part = ?", (execution, part)
            ).fetchone()
            found[part] = zlib.decompress(deflated)
    return found


def _record(row: Row, bodies: Mapping[str, bytes]) -> ExecutionRecord:
    (_, id_, parent, _, kind, target, _, principal, agent, as_agent, trigger, intent, status, started_at) = row[:14]
    (duration_ms, dry_run, cost_micros, tokens_in, tokens_out, context_used, context_max) = row[14:21]
    (endpoint, mode, access_key, schedule, _, request, response, failure, tool_calls) = row[21:]
    why = None if failure is None else json.loads(failure)
    transcript = bodies.get("transcript")
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
        request=as_object(bodies.get("request", request)),
        response=as_json(bodies.get("response", response)),
        failure=None if why is None else Failure(why["code"], why["message"], why["retryable"], why["details"]),
        cost_usd=None if cost_micros is None else cost_micros / MICROS,
        tool_calls=() if tool_calls is None else tuple(json.loads(tool_calls)),
        endpoint=endpoint,
        mode=mode,
        as_agent=bool(as_agent),
        access_key=access_key,
        schedule=schedule,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        context_used=context_used,
        context_max=context_max,
        transcript=None if transcript is None else json.loads(transcript),
    )
