"""Documents: the part of the store that keeps what plugins keep."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_hookspecs import encode

from . import document_rows
from .document_rows import Draft, blob, read_cursor
from .row_values import micros

if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

    from pml_hookspecs import Document, Page

    from .readers import Readers
    from .writer import Writer

MAX_KEY_CHARACTERS = 512
MAX_MARKS = 8
MAX_LIMIT = 1000
SWEEP_S = 60.0
"""Between two times that something expired is looked for."""


class SqliteDocuments:
    """Implements :class:`pml_hookspecs.Documents`.

    A value is kept as it is when :meth:`put` or :meth:`put_soon` is called; what is changed in it later is not seen.
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        """Use the store's threads."""
        self._writer, self._readers = writer, readers
        self._changed_at = 0
        self._next_sweep = 0.0

    async def put(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        *,
        marks: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
        if_version: int | None = None,
    ) -> int | None:
        """Keep ``value``; durable when it returns.

        Raises:
            StoreError: The file cannot be written just now.
            ValueError: The key is too long, there are too many marks, or ``expires_at`` has no time zone.
            TypeError: ``value`` is not JSON.
        """
        draft = self._draft(collection, key, value, marks, expires_at)
        version: int | None = None

        def write(connection: sqlite3.Connection) -> None:
            nonlocal version
            version = document_rows.write(connection, draft, if_version)
            self._sweep(connection)

        await self._writer.write(apply=write)
        return version

    def put_soon(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        *,
        marks: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
    ) -> None:
        """Queue it. What cannot be stored is counted in ``health`` and said in the log."""
        try:
            draft = self._draft(collection, key, value, marks, expires_at)
        except Exception as exc:  # whatever is wrong with it, the request path goes on
            self._writer.refuse(exc, document=f"{collection} {key}")
        else:
            self._writer.write_later(partial(self._write, draft=draft), document=f"{collection} {key}")

    def _write(self, connection: sqlite3.Connection, draft: Draft) -> None:
        document_rows.write(connection, draft)
        self._sweep(connection)

    async def get(self, collection: str, key: str) -> Document | None:
        """None when there is none."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: document_rows.get(c, collection, key))

    async def find(
        self,
        collection: str,
        *,
        marks: Mapping[str, str] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Document]:
        """Those with all of these marks, last changed first, ties by key.

        Raises:
            ValueError: ``limit`` is out of range or the cursor is not one of this store's.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"`limit` must be 1 to {MAX_LIMIT}, not {limit}")
        place = None if cursor is None else read_cursor(cursor)
        await self._writer.catch_up()
        return await self._readers.read(lambda c: document_rows.find(c, collection, marks or {}, limit, place))

    async def delete(self, collection: str, key: str) -> bool:
        """Whether there was one; durable when it returns.

        Raises:
            StoreError: The file cannot be written just now.
        """
        found = False

        def forget(connection: sqlite3.Connection) -> None:
            nonlocal found
            found = document_rows.delete(connection, collection, key)

        await self._writer.write(apply=forget)
        return found

    async def prune(self, collection: str, *, keep: int) -> int:
        """Delete all but the ``keep`` last changed, and what has expired; how many.

        Raises:
            StoreError: The file cannot be written just now.
            ValueError: ``keep`` is less than 0.
        """
        if keep < 0:
            raise ValueError(f"`keep` must be 0 or more, not {keep}")
        gone = 0

        def forget(connection: sqlite3.Connection) -> None:
            nonlocal gone
            gone = document_rows.prune(connection, collection, keep)

        await self._writer.write(apply=forget)
        return gone

    async def sweep(self) -> None:
        """Delete what has expired, in any collection, a little at a time.

        Raises:
            StoreError: The file cannot be written just now.
        """
        more = True

        def forget(connection: sqlite3.Connection) -> None:
            nonlocal more
            more = document_rows.sweep(connection)

        while more:
            await self._writer.write(apply=forget)

    def _draft(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        marks: Mapping[str, str] | None,
        expires_at: datetime | None,
    ) -> Draft:
        if not isinstance(value, Mapping):
            raise TypeError(f"a document is a JSON object, not {type(value).__name__}")
        if len(key) > MAX_KEY_CHARACTERS:
            raise ValueError(f"`key` has {len(key)} characters; at most {MAX_KEY_CHARACTERS} can be kept")
        if marks and len(marks) > MAX_MARKS:
            raise ValueError(f"{len(marks)} marks; at most {MAX_MARKS} can be kept")
        if expires_at is not None and expires_at.tzinfo is None:
            raise ValueError("`expires_at` has no time zone; give a UTC time")
        # Never the same twice, also when the clock is put back: what was changed later comes first.
        self._changed_at = max(document_rows.now(), self._changed_at + 1)
        return Draft(
            collection=blob(collection),
            key=blob(key),
            value=encode(value),
            marks=dict(marks or {}),
            changed_at=self._changed_at,
            expires_at=None if expires_at is None else micros(expires_at),
        )

    def _sweep(self, connection: sqlite3.Connection) -> None:
        """Now and then, while something is written anyway, delete what has expired."""
        if time.monotonic() >= self._next_sweep and not document_rows.sweep(connection):
            self._next_sweep = time.monotonic() + SWEEP_S
