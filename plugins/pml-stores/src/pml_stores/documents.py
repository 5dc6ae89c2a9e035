"""Documents: what is checked, once for all stores."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import encode

from .values import blob, check_limit, micros

if TYPE_CHECKING:
    from datetime import datetime

    from pml_hookspecs import Document, Page

MAX_KEY_CHARACTERS = 512
MAX_MARKS = 8
MAX_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Draft:
    """A document about to be written; nothing in it changes any more."""

    collection: str
    key: str
    value: bytes
    """JSON."""
    marks: Mapping[str, str]
    changed_at: int
    """Microseconds since 1970 UTC."""
    expires_at: int | None


class CheckedDocuments(ABC):
    """Implements :class:`pml_hookspecs.Documents`, but for where they are.

    A value is kept as it is when it is put; what is changed in it later is not seen. What cannot be kept raises
    ValueError or, where it is not JSON, TypeError.
    """

    most_collection_bytes: int | None = None
    """Longest name of a collection; None for any."""
    _changed_at = 0

    @abstractmethod
    async def _keep(self, draft: Draft, if_version: int | None) -> int | None:
        """See :meth:`pml_hookspecs.Documents.put`."""

    @abstractmethod
    def _keep_soon(self, draft: Draft) -> None:
        """See :meth:`pml_hookspecs.Documents.put_soon`."""

    @abstractmethod
    def _refuse(self, exc: Exception, document: str) -> None:
        """Count what cannot be kept and nobody waits for."""

    @abstractmethod
    async def _found(self, collection: str, marks: Mapping[str, str], limit: int, cursor: str | None) -> Page[Document]:
        """See :meth:`pml_hookspecs.Documents.find`."""

    @abstractmethod
    async def _pruned(self, collection: str, keep: int) -> int:
        """See :meth:`pml_hookspecs.Documents.prune`."""

    def _now(self) -> int:
        return time.time_ns() // 1000

    async def put(
        self, collection: str, key: str, value: Mapping[str, Any], *, marks: Mapping[str, str] | None = None,
        expires_at: datetime | None = None, if_version: int | None = None,
    ) -> int | None:  # fmt: skip
        """Keep ``value``; durable when it returns. What cannot be kept, or not just now, is raised."""
        return await self._keep(self._draft(collection, key, value, marks, expires_at), if_version)

    def put_soon(
        self, collection: str, key: str, value: Mapping[str, Any], *, marks: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
    ) -> None:  # fmt: skip
        """Keep it soon. What cannot be kept is counted."""
        try:
            draft = self._draft(collection, key, value, marks, expires_at)
        except Exception as exc:  # whatever is wrong with it, the request path goes on
            self._refuse(exc, f"{collection} {key}")
        else:
            self._keep_soon(draft)

    async def find(
        self, collection: str, *, marks: Mapping[str, str] | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[Document]:
        """Those with all of these marks, last changed first, ties by key; ValueError for a wrong limit or cursor."""
        check_limit(limit, MAX_LIMIT)
        return await self._found(collection, marks or {}, limit, cursor)

    async def prune(self, collection: str, *, keep: int) -> int:
        """Delete all but the ``keep`` last changed, and what has expired; how many. ValueError for less than 0."""
        if keep < 0:
            raise ValueError(f"`keep` must be 0 or more, not {keep}")
        return await self._pruned(collection, keep)

    def _draft(
        self, collection: str, key: str, value: Mapping[str, Any], marks: Mapping[str, str] | None,
        expires_at: datetime | None,
    ) -> Draft:  # fmt: skip
        if not isinstance(value, Mapping):
            raise TypeError(f"a document is a JSON object, not {type(value).__name__}")
        if len(key) > MAX_KEY_CHARACTERS:
            raise ValueError(f"`key` has {len(key)} characters; at most {MAX_KEY_CHARACTERS} can be kept")
        if marks and len(marks) > MAX_MARKS:
            raise ValueError(f"{len(marks)} marks; at most {MAX_MARKS} can be kept")
        if expires_at is not None and expires_at.tzinfo is None:
            raise ValueError("`expires_at` has no time zone; give a UTC time")
        most = self.most_collection_bytes
        if most is not None and (size := len(blob(collection))) > most:
            raise ValueError(f"`collection` has {size} bytes; at most {most} can be kept")
        until, kept = None if expires_at is None else micros(expires_at), encode(value)
        # Never the same twice, also when the clock is put back: what was changed later comes first.
        self._changed_at = max(self._now(), self._changed_at + 1)
        return Draft(collection, key, kept, dict(marks or {}), self._changed_at, until)
