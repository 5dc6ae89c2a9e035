"""Documents as rows: the statements. Runs in the writer's and the readers' threads, never on the event loop."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import binascii
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Document, Page, RawObject, encode

from .row_values import Row, moment

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

CURSOR_MARK = "pml-sqlite-documents-1"
RARE = 1000
"""Rows counted to find which of several marks fewest documents have."""
SWEEP = 500
"""Most expired documents deleted at a time, so that nobody waits long."""

COLUMNS = ("key", "version", "created_at", "changed_at", "expires_at", "marks", "value")
ALL = ", ".join(f"d.{name}" for name in COLUMNS)
ALIVE = "(expires_at IS NULL OR expires_at > ?)"


def blob(text: str) -> bytes:
    """``text`` as it is stored: NUL and lone surrogates included; sorts by code point."""
    return text.encode("utf-8", "surrogatepass")


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")


def now() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Draft:
    """A document about to be written; nothing in it changes any more."""

    collection: bytes
    key: bytes
    value: bytes
    marks: Mapping[str, str]
    changed_at: int
    """Microseconds since 1970 UTC."""
    expires_at: int | None


def write(connection: sqlite3.Connection, draft: Draft, if_version: int | None = None) -> int | None:
    """The new version; None when ``if_version`` does not hold."""
    place = [draft.collection, draft.key]
    found = connection.execute(
        "SELECT version, created_at, expires_at FROM document WHERE collection = ? AND key = ?", place
    ).fetchone()
    version, created_at, expires_at = found or (0, draft.changed_at, None)
    if expires_at is not None and expires_at <= now():
        version, created_at = 0, draft.changed_at
    if if_version is not None and if_version != version:
        return None
    values = [
        version + 1,
        created_at,
        draft.changed_at,
        draft.expires_at,
        encode(draft.marks),
        draft.value,
        *place,
    ]
    if found is None:
        connection.execute(
            "INSERT INTO document (version, created_at, changed_at, expires_at, marks, value, collection, key) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
    else:
        connection.execute(
            "UPDATE document SET version = ?, created_at = ?, changed_at = ?, expires_at = ?, marks = ?, value = ? "
            "WHERE collection = ? AND key = ?",
            values,
        )
        connection.execute("DELETE FROM document_mark WHERE collection = ? AND key = ?", place)
    connection.executemany(
        "INSERT INTO document_mark (collection, key, name, text, changed_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
        [(*place, blob(name), blob(text), draft.changed_at, draft.expires_at) for name, text in draft.marks.items()],
    )
    return int(version) + 1


def delete(connection: sqlite3.Connection, collection: str, key: str) -> bool:
    """Whether there was one that had not expired."""
    place = [blob(collection), blob(key)]
    found = connection.execute(
        f"SELECT 1 FROM document WHERE collection = ? AND key = ? AND {ALIVE}", [*place, now()]
    ).fetchone()
    connection.execute("DELETE FROM document WHERE collection = ? AND key = ?", place)
    return found is not None


def prune(connection: sqlite3.Connection, collection: str, keep: int) -> int:
    """Delete all but the ``keep`` last changed, and what has expired; how many."""
    where = blob(collection)
    expired = connection.execute(
        "DELETE FROM document WHERE rowid IN "
        "(SELECT rowid FROM document INDEXED BY document_by_change WHERE collection = ? AND expires_at <= ?)",
        [where, now()],
    ).rowcount
    surplus = connection.execute(
        "DELETE FROM document WHERE rowid IN (SELECT rowid FROM document INDEXED BY document_by_change "
        "WHERE collection = ? ORDER BY changed_at DESC, key LIMIT -1 OFFSET ?)",
        [where, keep],
    ).rowcount
    return int(expired + surplus)


def sweep(connection: sqlite3.Connection) -> bool:
    """Delete some of what has expired, in any collection; whether there may be more."""
    gone = connection.execute(
        "DELETE FROM document WHERE rowid IN (SELECT rowid FROM document WHERE expires_at <= ? LIMIT ?)",
        [now(), SWEEP],
    ).rowcount
    return bool(gone == SWEEP)


def get(connection: sqlite3.Connection, collection: str, key: str) -> Document | None:
    """See :meth:`pml_hookspecs.Documents.get`."""
    row = connection.execute(
        f"SELECT {ALL} FROM document AS d WHERE collection = ? AND key = ? AND {ALIVE}",
        [blob(collection), blob(key), now()],
    ).fetchone()
    return None if row is None else _document(row)


def find(
    connection: sqlite3.Connection, collection: str, marks: Mapping[str, str], limit: int, place: DocumentCursor | None
) -> Page[Document]:
    """See :meth:`pml_hookspecs.Documents.find`."""
    table, condition, values = _which(connection, blob(collection), marks)
    condition, values = f"{condition} AND {ALIVE}", [*values, now()]
    (total,) = connection.execute(f"SELECT count(*) FROM {table} AS m WHERE {condition}", values).fetchone()
    if place is not None:
        condition += " AND changed_at <= ? AND (changed_at < ? OR key > ?)"
        values += [place.changed_at, place.changed_at, place.key]
    rows = connection.execute(
        f"SELECT {ALL} FROM (SELECT collection, key FROM {table} AS m WHERE {condition} "
        "ORDER BY changed_at DESC, key LIMIT ?) AS p CROSS JOIN document AS d USING (collection, key)",
        [*values, limit + 1],
    ).fetchall()
    more = len(rows) > limit
    rows = rows[:limit]
    return Page([_document(row) for row in rows], write_cursor(rows[-1]) if more else None, total)


def _which(connection: sqlite3.Connection, collection: bytes, marks: Mapping[str, str]) -> tuple[str, str, list[Any]]:
    """Table to go through, condition on its rows, and values: the rarest mark leads, the others are looked up."""
    if not marks:
        return "document", "collection = ?", [collection]
    pairs = [(blob(name), blob(text)) for name, text in marks.items()]
    if len(pairs) > 1:
        counted = (
            "SELECT count(*) FROM (SELECT 1 FROM document_mark WHERE collection = ? AND name = ? AND text = ? LIMIT ?)"
        )
        pairs.sort(key=lambda pair: connection.execute(counted, [collection, *pair, RARE]).fetchone())
    condition, values = "collection = ? AND name = ? AND text = ?", [collection, *pairs[0]]
    for pair in pairs[1:]:
        condition += (
            " AND EXISTS (SELECT 1 FROM document_mark AS o "
            "WHERE o.collection = m.collection AND o.key = m.key AND o.name = ? AND o.text = ?)"
        )
        values += pair
    return "document_mark", condition, values


@dataclass(frozen=True, slots=True)
class DocumentCursor:
    """After which document a page begins."""

    changed_at: int
    key: bytes


def write_cursor(row: Row) -> str:
    """The place right after ``row``, as text that means nothing to a client."""
    place = json.dumps([CURSOR_MARK, row[COLUMNS.index("changed_at")], row[0].hex()]).encode()
    return binascii.b2a_base64(place, newline=False).decode().translate({43: "-", 47: "_", 61: None})


def read_cursor(cursor: str) -> DocumentCursor:
    """The inverse of :func:`write_cursor`.

    Raises:
        ValueError: It wrote no such thing.
    """
    try:
        text = cursor.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"))
        mark, changed_at, key = json.loads(binascii.a2b_base64(text + b"=" * (-len(text) % 4)))
        if mark != CURSOR_MARK or type(changed_at) is not int or not 0 <= changed_at < 2**63:
            raise ValueError(mark)
        return DocumentCursor(changed_at, bytes.fromhex(key))
    except (ValueError, TypeError, RecursionError):
        raise ValueError(
            "`cursor` is not one that this store gave; leave it out to start at the last changed"
        ) from None


def _document(row: Sequence[Any]) -> Document:
    key, version, created_at, changed_at, expires_at, marks, value = row
    return Document(
        key=_text(key),
        value=RawObject(value),
        version=version,
        marks=json.loads(marks),
        created_at=moment(created_at),
        changed_at=moment(changed_at),
        expires_at=None if expires_at is None else moment(expires_at),
    )
