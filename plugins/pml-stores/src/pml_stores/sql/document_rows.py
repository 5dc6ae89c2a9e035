"""Documents as rows: the statements. Runs in the writer's and the readers' threads, never on the event loop."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Document, Page, RawObject, encode
from pml_stores.values import Row, blob, moment, read_cursor, unblob, write_cursor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pml_stores.documents import Draft
    from pml_stores.values import Place

    from .query_builder import QueryBuilder

RARE = 1000
"""Rows counted to find which of several marks fewest documents have."""
SWEEP = 500
"""Most expired documents deleted at a time, so that nobody waits long."""

COLUMNS = ("key", "version", "created_at", "changed_at", "expires_at", "marks", "value")
CHANGED_AT = COLUMNS.index("changed_at")
ALL = ", ".join(f"d.{name}" for name in COLUMNS)
ALIVE = "(expires_at IS NULL OR expires_at > ?)"


class DocumentRows:
    """Statements on the tables ``document`` and ``document_mark``, of which databases have their own forms.

    Texts are bytes: any text comes back as it was, and sorts by code point. Values stand as ``?``.
    """

    def __init__(self, builder: QueryBuilder) -> None:
        """In this dialect."""
        self._builder, self.execute = builder, builder.execute
        self.most_collection_bytes = builder.most_collection_bytes
        self._cursors = f"pml-{builder.driver}-documents-1"

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return time.time_ns() // 1000

    def write(self, connection: Any, draft: Draft, if_version: int | None = None) -> int | None:
        """The new version; None when ``if_version`` does not hold. Nobody else writes meanwhile."""
        place = [blob(draft.collection), blob(draft.key)]
        found = self.execute(
            connection, "SELECT version, created_at, expires_at FROM document WHERE collection = ? AND key = ?", place
        ).fetchone()
        version, created_at, expires_at = found or (0, draft.changed_at, None)
        if expires_at is not None and expires_at <= self.now():
            version, created_at = 0, draft.changed_at
        if if_version is not None and if_version != version:
            return None
        values = [version + 1, created_at, draft.changed_at, draft.expires_at, encode(draft.marks), draft.value, *place]
        columns = ("version", "created_at", "changed_at", "expires_at", "marks", "value")
        if found is None:
            names = ", ".join((*columns, "collection", "key"))
            self.execute(connection, f"INSERT INTO document ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        else:
            changes = ", ".join(f"{name} = ?" for name in columns)
            self.execute(connection, f"UPDATE document SET {changes} WHERE collection = ? AND key = ?", values)
            self.execute(connection, self._builder.forget_marks, place)
        for name, text in draft.marks.items():
            mark = self._builder.mark(place[0], name, text)
            self.execute(connection, self._builder.add_mark, self._builder.mark_row(draft, mark))
        return int(version) + 1

    def delete(self, connection: Any, collection: str, key: str) -> bool:
        """Whether there was one that had not expired."""
        found = self.get(connection, collection, key)
        place = [blob(collection), blob(key)]
        self.execute(connection, "DELETE FROM document WHERE collection = ? AND key = ?", place)
        return found is not None

    def _delete(self, connection: Any, which: str, values: Sequence[Any]) -> int:
        row = self._builder.document
        sql = f"DELETE FROM document WHERE {row} IN (SELECT {row} FROM document WHERE {which})"
        return int(self.execute(connection, sql, values).rowcount)

    def prune(self, connection: Any, collection: str, keep: int) -> int:
        """Delete all but the ``keep`` last changed, and what has expired; how many."""
        where = blob(collection)
        expired = self._delete(connection, "collection = ? AND expires_at <= ?", [where, self.now()])
        last = f"collection = ? ORDER BY changed_at DESC, key LIMIT {2**63 - 1} OFFSET ?"
        return expired + self._delete(connection, last, [where, keep])

    def sweep(self, connection: Any) -> bool:
        """Delete some of what has expired, in any collection; whether there may be more."""
        return self._delete(connection, "expires_at <= ? LIMIT ?", [self.now(), SWEEP]) == SWEEP

    def get(self, connection: Any, collection: str, key: str) -> Document | None:
        """None when there is none."""
        row = self.execute(
            connection,
            f"SELECT {ALL} FROM document AS d WHERE collection = ? AND key = ? AND {ALIVE}",
            [blob(collection), blob(key), self.now()],
        ).fetchone()
        return None if row is None else _document(row)

    def find(
        self, connection: Any, collection: str, marks: Mapping[str, str], limit: int, cursor: str | None
    ) -> Page[Document]:
        """Those with all of these marks, last changed first, ties by key."""
        columns, which, values = self._which(connection, blob(collection), marks)
        which, values = f"{which} AND {ALIVE}", [*values, self.now()]
        (total,) = self.execute(connection, f"SELECT count(*) FROM {which}", values).fetchone()
        if cursor is not None:
            at, key = self.read_cursor(cursor)
            which += " AND changed_at <= ? AND (changed_at < ? OR key > ?)"
            values += [at, at, bytes.fromhex(key)]
        rows = self.execute(
            connection,
            f"SELECT {ALL} FROM (SELECT {columns} FROM {which} ORDER BY changed_at DESC, key LIMIT ?) AS p "
            f"JOIN document AS d USING ({self._builder.mark_place[0]})",
            [*values, limit + 1],
        ).fetchall()
        rows.sort(key=lambda row: (-row[CHANGED_AT], bytes(row[0])))
        more, rows = len(rows) > limit, rows[:limit]
        place = (rows[-1][CHANGED_AT], bytes(rows[-1][0]).hex()) if more else None
        return Page([_document(row) for row in rows], place and write_cursor(self._cursors, place), int(total))

    def _which(self, connection: Any, collection: bytes, marks: Mapping[str, str]) -> tuple[str, str, list[Any]]:
        """Columns that say which document, the table and its condition, and values: the rarest mark leads."""
        (document, of_mark), one_mark = self._builder.mark_place, self._builder.one_mark
        if not marks:
            return document, "document AS m WHERE collection = ?", [collection]
        wanted = [self._builder.mark(collection, name, text) for name, text in marks.items()]
        if len(wanted) > 1:
            counted = f"SELECT count(*) FROM (SELECT 1 FROM document_mark WHERE {one_mark} LIMIT {RARE}) AS c"
            wanted.sort(key=lambda mark: self.execute(connection, counted, mark).fetchone())
        same = " AND ".join(f"o.{name} = m.{name}" for name in of_mark.split(" AS ")[0].split(", "))
        also = f" AND EXISTS (SELECT 1 FROM document_mark AS o WHERE {same} AND {one_mark})"
        condition = one_mark + also * (len(wanted) - 1)
        return of_mark, f"document_mark AS m WHERE {condition}", [value for mark in wanted for value in mark]

    def read_cursor(self, cursor: str) -> Place:
        """The time and the key, in hexadecimal, of the last document seen. ValueError for a cursor of another store."""
        at, key = read_cursor(self._cursors, cursor, "the last changed")
        if not all(digit in "0123456789abcdef" for digit in key) or len(key) % 2:
            raise ValueError("`cursor` is not one that this store gave; leave it out to start at the last changed")
        return at, key


def _document(row: Row) -> Document:
    key, version, *times, marks, value = row
    created_at, changed_at, expires_at = (None if at is None else moment(at) for at in times)
    more: Any = {"created_at": created_at, "changed_at": changed_at, "expires_at": expires_at}
    return Document(key=unblob(key), value=RawObject(value), version=version, marks=json.loads(marks), **more)
