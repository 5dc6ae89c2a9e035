"""Values of rows: how they are written, and what they mean; and pages of what is sorted by a time and a key."""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_hookspecs import ExecutionId, ExecutionRecord, Failure, RawObject, Status, encode

if TYPE_CHECKING:
    from pml_hookspecs import Json

Row: TypeAlias = tuple[Any, ...]

STATUSES: Mapping[str, Status] = {status.value: status for status in Status}
TEXTS = ("kind", "target", "principal", "agent", "intent", "endpoint", "mode", "access_key", "schedule")
NUMBERS = ("duration_ms", "tokens_in", "tokens_out", "context_used", "context_max")
"""Columns of executions that are called as their fields are."""

MICROS = 1_000_000
"""Costs are added up in millionths of a dollar, so that sums are exact."""
MOST = 10**12
"""Largest number of tokens and of milliseconds; what is more is counted as this."""
MOST_MICROS = 10**15
"""The same for costs, in millionths of a dollar."""
MOST_COUNTED = 1000
"""Number up to which what is found by text is counted; see :class:`pml_hookspecs.Page`."""

Place: TypeAlias = tuple[int, str]
"""A time in microseconds since 1970 UTC, and a key."""

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def bounded(number: float | None, least: int, most: int) -> int | None:
    """``number`` rounded, and at most so far off: what adds up stays within 63 bits, whatever somebody reports.

    None for what is no number.
    """
    # What is no number is not equal to itself.
    return None if number is None or number != number else round(min(max(number, least), most))  # noqa: PLR0124


def micros(moment: datetime) -> int:
    """Microseconds since 1970 UTC. TypeError where ``moment`` has no time zone."""
    since = moment - BEGINNING
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment(micros: int) -> datetime:
    """The inverse of :func:`micros`."""
    return BEGINNING + micros * MICROSECOND


def as_json(raw: bytes | None) -> Json:
    """The JSON value that ``raw`` is the text of; an object is decoded on first use."""
    if raw is None:
        return None
    if raw[:1] == b"{":
        return RawObject(raw)
    value: Json = json.loads(raw)
    return value


def as_object(raw: bytes | None) -> Mapping[str, Any]:
    """The JSON object that ``raw`` is the text of; an empty one for None."""
    return {} if raw is None else RawObject(raw)


def failure_json(failure: Failure) -> bytes:
    """``failure`` as JSON."""
    named = {"code": failure.code, "message": failure.message, "retryable": failure.retryable}
    return encode({**named, "details": failure.details})


def as_failure(raw: bytes | None) -> Failure | None:
    """The inverse of :func:`failure_json`; None for None."""
    return None if raw is None else Failure(**json.loads(raw))


def blob(text: str) -> bytes:
    """Any ``text`` as bytes, NUL and lone surrogates included; sorts by code point."""
    return text.encode("utf-8", "surrogatepass")


def unblob(stored: bytes) -> str:
    """The inverse of :func:`blob`."""
    return bytes(stored).decode("utf-8", "surrogatepass")


def number_of(number: int | None) -> int | None:
    """A number of milliseconds or of tokens, as large as it may be."""
    # Most are so, of five in each row; what is reported may be anything all the same.
    return number if isinstance(number, int) and 0 <= number <= MOST else bounded(number, 0, MOST)


def micros_of(cost_usd: float | None) -> int | None:
    """A cost in millionths of a dollar."""
    return None if cost_usd is None else bounded(cost_usd * MICROS, -MOST_MICROS, MOST_MICROS)


def documents_of(record: ExecutionRecord) -> tuple[bytes, bytes]:
    """Request and response as JSON, empty for nothing."""
    request, response = record.request, record.response
    # A RawObject is not asked whether it is empty: that would decode it.
    asked = b"" if type(request) is dict and not request else encode(request)
    return asked, b"" if response is None else encode(response)


def row_of(record: ExecutionRecord, name: Callable[[str], str], clean: Callable[[str], str]) -> dict[str, Any]:
    """Values by the names of their columns, all but the request and the response.

    ``name`` is how a text stands in its column that executions are found by, ``clean`` how any other does. TypeError
    for what is not JSON, or a time without a zone.
    """
    return {
        **{column: name(getattr(record, column)) for column in ("id", "kind", "target", "principal", "agent")},
        **{column: clean(getattr(record, column)) for column in ("intent", "endpoint", "mode", "schedule")},
        **{column: number_of(getattr(record, column)) for column in NUMBERS},
        **{column: bool(getattr(record, column)) for column in ("nested", "dry_run", "as_agent")},
        "parent": name(record.parent) if record.parent else None,
        "access_key": name(record.access_key),
        "triggered_by": name(record.trigger),
        "status": name(str(record.status)),
        "started_at": micros(record.started_at),
        "cost_micros": micros_of(record.cost_usd),
        "failure": None if record.failure is None else failure_json(record.failure),
        "tool_calls": encode(record.tool_calls) if record.tool_calls else None,
    }


def record_of(
    row: Mapping[str, Any],
    request: bytes | None,
    response: bytes | None,
    transcript: bytes | None,
    restored: Callable[[str], str] = str,
) -> ExecutionRecord:
    """The execution of a row, by the names of its columns; three of them as JSON, None for nothing.

    ``restored`` is what a text of a column means.
    """
    same: dict[str, Any] = {name: row[name] for name in NUMBERS} | {name: restored(row[name]) for name in TEXTS}
    parent, cost, calls = row["parent"], row["cost_micros"], row["tool_calls"]
    return ExecutionRecord(
        **same,
        id=ExecutionId(restored(row["id"])),
        parent=None if parent is None else ExecutionId(restored(parent)),
        trigger=row["triggered_by"],
        status=STATUSES.get(row["status"], row["status"]),
        started_at=moment(row["started_at"]),
        dry_run=bool(row["dry_run"]),
        as_agent=bool(row["as_agent"]),
        request=as_object(request),
        response=as_json(response),
        failure=as_failure(row["failure"]),
        cost_usd=None if cost is None else cost / MICROS,
        tool_calls=() if calls is None else tuple(json.loads(calls)),
        transcript=None if transcript is None else tuple(json.loads(transcript)),
    )


def check_limit(limit: int, most: int) -> None:
    """See that a page of this size may be asked for; ValueError if not."""
    if not 1 <= limit <= most:
        raise ValueError(f"`limit` must be 1 to {most}, not {limit}")


def write_cursor(mark: str, place: Place) -> str:
    """The place right after that, as text that means nothing to a client; ``mark`` says of which pages."""
    text = json.dumps([mark, *place]).encode()
    return binascii.b2a_base64(text, newline=False).decode().translate({43: "-", 47: "_", 61: None})


def read_cursor(mark: str, cursor: str, first: str = "the newest") -> Place:
    """The inverse of :func:`write_cursor`; ValueError if it wrote no such thing. Pages start at ``first``."""
    try:
        text = cursor.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"))
        there, at, key = json.loads(binascii.a2b_base64(text + b"=" * (-len(text) % 4)))
        if there != mark or type(at) is not int or type(key) is not str:
            raise ValueError(there)
        moment(at)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise ValueError(f"`cursor` is not one that this store gave; leave it out to start at {first}") from None
    return at, key
