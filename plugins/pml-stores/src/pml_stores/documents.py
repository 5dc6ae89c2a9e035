"""Documents of a store on a database: what is checked and in which order, not the statements."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pml_hookspecs import encode

from .session import C

if TYPE_CHECKING:
    from datetime import datetime

    from pml_hookspecs import Document, Page

    from .readers import Readers
    from .writer import Writer

D = TypeVar("D")
P = TypeVar("P")
C_contra = TypeVar("C_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)

MAX_KEY_CHARACTERS = 512
MAX_MARKS = 8
MAX_LIMIT = 1000
SWEEP_S = 60.0
"""Between two times that something expired is looked for."""


class Statements(Protocol[C_contra, D_contra, P]):
    """What a database does with documents; a module will do.

    ``D_contra`` is a document about to be written, ``P`` a place after which a page begins.
    """

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def read_cursor(self, cursor: str, /) -> P:
        """The place that a cursor tells; ValueError when it is not one of this store's."""
        ...

    def write(self, connection: C_contra, draft: D_contra, if_version: int | None = None, /) -> int | None:
        """The new version; None when ``if_version`` does not hold."""
        ...

    def delete(self, connection: C_contra, collection: str, key: str, /) -> bool:
        """Whether there was one that had not expired."""
        ...

    def prune(self, connection: C_contra, collection: str, keep: int, /) -> int:
        """Delete all but the ``keep`` last changed, and what has expired; how many."""
        ...

    def sweep(self, connection: C_contra, /) -> bool:
        """Delete some of what has expired, in any collection; whether there may be more."""
        ...

    def get(self, connection: C_contra, collection: str, key: str, /) -> Document | None:
        """None when there is none."""
        ...

    def find(
        self, connection: C_contra, collection: str, marks: Mapping[str, str], limit: int, place: P | None, /
    ) -> Page[Document]:
        """Those with all of these marks, last changed first, ties by key."""
        ...


class SqlDocuments(ABC, Generic[C, D, P]):
    """Implements :class:`pml_hookspecs.Documents`.

    A value is kept as it is when :meth:`put` or :meth:`put_soon` is called; what is changed in it later is not seen.
    """

    statements: Statements[C, D, P]

    def __init__(self, writer: Writer[C], readers: Readers[C]) -> None:
        """Use the store's threads."""
        self._writer, self._readers = writer, readers
        self._changed_at = 0
        self._next_sweep = 0.0

    @abstractmethod
    def draft(
        self,
        collection: str,
        key: str,
        value: bytes,
        marks: Mapping[str, str],
        *,
        changed_at: int,
        expires_at: datetime | None,
    ) -> D:
        """What :meth:`Statements.write` takes.

        Args:
            collection: Where.
            key: Not too long.
            value: JSON.
            marks: Not too many.
            changed_at: Microseconds since 1970 UTC.
            expires_at: With a time zone.

        Raises:
            ValueError: This database has no room for it.
        """

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
            StoreError: The database cannot be written just now.
            ValueError: The key is too long, there are too many marks, or ``expires_at`` has no time zone.
            TypeError: ``value`` is not JSON.
        """
        draft = self._checked(collection, key, value, marks, expires_at)
        version: int | None = None

        def write(connection: C) -> None:
            nonlocal version
            version = self.statements.write(connection, draft, if_version)
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
            draft = self._checked(collection, key, value, marks, expires_at)
        except Exception as exc:  # whatever is wrong with it, the request path goes on
            self._writer.refuse(exc, document=f"{collection} {key}")
        else:
            self._writer.write_later(partial(self._write, draft=draft), document=f"{collection} {key}")

    def _write(self, connection: C, draft: D) -> None:
        self.statements.write(connection, draft)
        self._sweep(connection)

    async def get(self, collection: str, key: str) -> Document | None:
        """None when there is none."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: self.statements.get(c, collection, key))

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
        place = None if cursor is None else self.statements.read_cursor(cursor)
        await self._writer.catch_up()
        return await self._readers.read(lambda c: self.statements.find(c, collection, marks or {}, limit, place))

    async def delete(self, collection: str, key: str) -> bool:
        """Whether there was one; durable when it returns.

        Raises:
            StoreError: The database cannot be written just now.
        """
        found = False

        def forget(connection: C) -> None:
            nonlocal found
            found = self.statements.delete(connection, collection, key)

        await self._writer.write(apply=forget)
        return found

    async def prune(self, collection: str, *, keep: int) -> int:
        """Delete all but the ``keep`` last changed, and what has expired; how many.

        Raises:
            StoreError: The database cannot be written just now.
            ValueError: ``keep`` is less than 0.
        """
        if keep < 0:
            raise ValueError(f"`keep` must be 0 or more, not {keep}")
        gone = 0

        def forget(connection: C) -> None:
            nonlocal gone
            gone = self.statements.prune(connection, collection, keep)

        await self._writer.write(apply=forget)
        return gone

    async def sweep(self) -> None:
        """Delete what has expired, in any collection, a little at a time.

        Raises:
            StoreError: The database cannot be written just now.
        """
        more = True

        def forget(connection: C) -> None:
            nonlocal more
            more = self.statements.sweep(connection)

        while more:
            await self._writer.write(apply=forget)

    def _checked(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        marks: Mapping[str, str] | None,
        expires_at: datetime | None,
    ) -> D:
        if not isinstance(value, Mapping):
            raise TypeError(f"a document is a JSON object, not {type(value).__name__}")
        if len(key) > MAX_KEY_CHARACTERS:
            raise ValueError(f"`key` has {len(key)} characters; at most {MAX_KEY_CHARACTERS} can be kept")
        if marks and len(marks) > MAX_MARKS:
            raise ValueError(f"{len(marks)} marks; at most {MAX_MARKS} can be kept")
        if expires_at is not None and expires_at.tzinfo is None:
            raise ValueError("`expires_at` has no time zone; give a UTC time")
        # Never the same twice, also when the clock is put back: what was changed later comes first.
        self._changed_at = max(self.statements.now(), self._changed_at + 1)
        return self.draft(
            collection, key, encode(value), dict(marks or {}), changed_at=self._changed_at, expires_at=expires_at
        )

    def _sweep(self, connection: C) -> None:
        """Now and then, while something is written anyway, delete what has expired."""
        if time.monotonic() >= self._next_sweep and not self.statements.sweep(connection):
            self._next_sweep = time.monotonic() + SWEEP_S
