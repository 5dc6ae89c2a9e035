"""Values of rows: how they are written, and what they mean. Never runs on the event loop."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_hookspecs import RawObject

if TYPE_CHECKING:
    import sqlite3

    from pml_hookspecs import Json

Row: TypeAlias = tuple[Any, ...]

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

CHUNK_VALUES = 999
"""Values per statement; SQLite takes no more before 3.32. The interpreter is free for the event loop while a statement
runs, and is taken back after it: few large statements take it seldom, and making the rows of one holds it for about a
tenth of a millisecond."""

NOTHING = ""
"""Stands for NULL in rows, see :func:`insert`."""

NULLABLE = frozenset(
    (
        *("parent", "duration_ms", "cost_micros", "request", "response", "failure", "tool_calls"),
        *("tokens_in", "tokens_out", "context_used", "context_max"),
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
