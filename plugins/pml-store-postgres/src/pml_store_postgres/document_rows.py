"""Documents as rows: the statements. Runs in the writer's and the readers' threads, never on the event loop."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import binascii
import json
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Document, Page, RawObject, encode

from .queries import rows_of
from .rows import Row, moment
from .texts import blob, unblob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg import Connection

CURSOR_MARK = "pml-postgres-documents-1"
RARE = 1000
"""Rows counted to find which of several marks fewest documents have."""
SWEEP = 500
"""Most expired documents deleted at a time, so that nobody waits long."""

COLUMNS = ("key", "version", "created_at", "changed_at", "expires_at", "marks", "value")
ALL = ", ".join(f"d.{name}" for name in COLUMNS)
ALIVE = "(expires_at IS NULL OR expires_at > %s)"

_EXPIRED = "coalesce(d.expires_at <= %(now)s, false)"
_PUT = f"""
    WITH kept AS (
        INSERT INTO document AS d (version, created_at, changed_at, expires_at, collection, key, marks, value)
        SELECT 1, %(changed_at)s, %(changed_at)s, %(expires_at)s, %(collection)s, %(key)s, %(marks)s, %(value)s
        WHERE coalesce(%(if_version)s::int8, 0) = 0
            OR EXISTS (SELECT FROM document WHERE collection = %(collection)s AND key = %(key)s)
        ON CONFLICT (collection, key) DO UPDATE SET
            version = CASE WHEN {_EXPIRED} THEN 1 ELSE d.version + 1 END,
            created_at = CASE WHEN {_EXPIRED} THEN excluded.created_at ELSE d.created_at END,
            changed_at = excluded.changed_at, expires_at = excluded.expires_at, marks = excluded.marks,
            value = excluded.value
            WHERE %(if_version)s::int8 IS NULL OR %(if_version)s = CASE WHEN {_EXPIRED} THEN 0 ELSE d.version END
        RETURNING id, version
    ), gone AS (
        DELETE FROM document_mark WHERE document IN (SELECT id FROM kept)
    ), marked AS (
        INSERT INTO document_mark (document, changed_at, expires_at, mark, key)
        SELECT id, %(changed_at)s, %(expires_at)s, mark, %(key)s
        FROM kept CROSS JOIN unnest(%(digests)s::bytea[]) AS mark
    )
    SELECT version FROM kept
"""


def now() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Draft:
    """A document about to be written; nothing in it changes any more."""

    collection: bytes
    key: bytes
    value: bytes
    marks: bytes
    """JSON."""
    digests: Sequence[bytes]
    """Digests of the marks."""
    changed_at: int
    """Microseconds since 1970 UTC."""
    expires_at: int | None


def digest(collection: bytes, name: str, text: str) -> bytes:
    """What a mark is found by."""
    named = blob(name)
    return sha256(b"%d %d %s%s%s" % (len(collection), len(named), collection, named, blob(text))).digest()[:16]


def write(connection: Connection[Any], draft: Draft, if_version: int | None = None) -> int | None:
    """The new version; None when ``if_version`` does not hold."""
    values = {
        "collection": draft.collection,
        "key": draft.key,
        "value": draft.value,
        "marks": draft.marks,
        "digests": list(draft.digests),
        "changed_at": draft.changed_at,
        "expires_at": draft.expires_at,
        "if_version": if_version,
        "now": now(),
    }
    row = connection.execute(_PUT, values).fetchone()
    return int(row[0]) if row else None


def delete(connection: Connection[Any], collection: str, key: str) -> bool:
    """Whether there was one that had not expired."""
    row = connection.execute(
        f"DELETE FROM document WHERE collection = %s AND key = %s RETURNING {ALIVE}",
        [blob(collection), blob(key), now()],
    ).fetchone()
    return bool(row and row[0])


def prune(connection: Connection[Any], collection: str, keep: int) -> int:
    """Delete all but the ``keep`` last changed, and what has expired; how many."""
    where = blob(collection)
    expired = connection.execute(
        "DELETE FROM document WHERE collection = %s AND expires_at <= %s", [where, now()]
    ).rowcount
    surplus = connection.execute(
        "DELETE FROM document WHERE id IN (SELECT id FROM document WHERE collection = %s "
        "ORDER BY changed_at DESC, key OFFSET %s)",
        [where, keep],
    ).rowcount
    return int(expired + surplus)


def sweep(connection: Connection[Any]) -> bool:
    """Delete some of what has expired, in any collection; whether there may be more."""
    gone = connection.execute(
        "DELETE FROM document WHERE id IN (SELECT id FROM document WHERE expires_at <= %s LIMIT %s)", [now(), SWEEP]
    ).rowcount
    return bool(gone == SWEEP)


def get(connection: Connection[Any], collection: str, key: str) -> Document | None:
    """See :meth:`pml_hookspecs.Documents.get`."""
    rows = rows_of(
        connection,
        f"SELECT {ALL} FROM document AS d WHERE collection = %s AND key = %s AND {ALIVE}",
        [blob(collection), blob(key), now()],
    )
    return _document(rows[0]) if rows else None


def find(
    connection: Connection[Any], collection: str, marks: Mapping[str, str], limit: int, place: DocumentCursor | None
) -> Page[Document]:
    """See :meth:`pml_hookspecs.Documents.find`."""
    table, id_, condition, values = _which(connection, blob(collection), marks)
    condition, values = f"{condition} AND {ALIVE}", [*values, now()]
    row = connection.execute(f"SELECT count(*) FROM {table} AS m WHERE {condition}", values).fetchone()
    if place is not None:
        condition += " AND changed_at <= %s AND (changed_at < %s OR key > %s)"
        values += [place.changed_at, place.changed_at, place.key]
    rows = rows_of(
        connection,
        f"SELECT {ALL} FROM (SELECT {id_} AS id FROM {table} AS m WHERE {condition} "
        "ORDER BY changed_at DESC, key LIMIT %s) AS p JOIN document AS d USING (id) ORDER BY d.changed_at DESC, d.key",
        [*values, limit + 1],
    )
    more = len(rows) > limit
    rows = rows[:limit]
    return Page([_document(row) for row in rows], write_cursor(rows[-1]) if more else None, int(row[0]) if row else 0)


def _which(connection: Connection[Any], collection: bytes, marks: Mapping[str, str]) -> tuple[str, str, str, list[Any]]:
    """Table to go through, its column with the id, condition on its rows, and values: the rarest mark leads."""
    if not marks:
        return "document", "id", "collection = %s", [collection]
    digests = [digest(collection, name, text) for name, text in marks.items()]
    if len(digests) > 1:
        digests.sort(key=lambda mark: _how_many(connection, mark))
    condition, values = "mark = %s", [digests[0]]
    for mark in digests[1:]:
        condition += " AND EXISTS (SELECT FROM document_mark AS o WHERE o.document = m.document AND o.mark = %s)"
        values.append(mark)
    return "document_mark", "document", condition, values


def _how_many(connection: Connection[Any], mark: bytes) -> int:
    row = connection.execute(
        "SELECT count(*) FROM (SELECT FROM document_mark WHERE mark = %s LIMIT %s) AS counted", [mark, RARE]
    ).fetchone()
    return int(row[0]) if row else 0


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


def draft_marks(collection: bytes, marks: Mapping[str, str]) -> tuple[bytes, list[bytes]]:
    """``marks`` as JSON, and what they are found by."""
    return encode(dict(marks)), [digest(collection, name, text) for name, text in marks.items()]


def _document(row: Sequence[Any]) -> Document:
    key, version, created_at, changed_at, expires_at, marks, value = row
    return Document(
        key=unblob(key),
        value=RawObject(value),
        version=version,
        marks=json.loads(marks),
        created_at=moment(created_at),
        changed_at=moment(changed_at),
        expires_at=None if expires_at is None else moment(expires_at),
    )
