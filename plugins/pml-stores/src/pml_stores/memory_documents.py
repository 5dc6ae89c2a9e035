"""Documents in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from pml_hookspecs import Document, Page, RawObject, encode

from .paging import check_limit, read_cursor, write_cursor

if TYPE_CHECKING:
    from .memory import Key, MemoryStore

LARGEST_PAGE = 1000
LONGEST_KEY = 512
"""Characters."""
MOST_MARKS = 8
MICROSECOND = timedelta(microseconds=1)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryDocuments:
    """Implements :class:`pml_hookspecs.Documents`. Over its bounds it forgets what was changed longest ago."""

    def __init__(self, store: MemoryStore, most: int | None, most_bytes: int | None) -> None:
        """Room for ``most`` documents whose values take ``most_bytes`` together [bytes]; None for all there is."""
        self._store, self._most, self._most_bytes = store, most, most_bytes
        # In the order in which they were changed. Values are JSON texts: nobody changes what is kept by changing what
        # was put or got.
        self._collections: dict[str, OrderedDict[str, Document]] = {}
        self.count = self._bytes = 0
        self._changed_at = BEGINNING

    def apply(self, key: Key, value: Document | None) -> None:
        """Take note that there is a document in this collection and with this key, or none any more."""
        collection, name = cast("tuple[str, str]", key)
        self._drop(collection, name)
        if value is None:
            return
        self._collections.setdefault(collection, OrderedDict())[name] = value
        self._changed_at = max(self._changed_at, value.changed_at)
        self.count += 1
        self._bytes += _size_bytes(value)
        while self.count > 1 and self._is_full():
            oldest = min(self._collections, key=lambda each: next(iter(self._collections[each].values())).changed_at)
            self._drop(oldest, next(iter(self._collections[oldest])))
            self._store.drops += 1

    def all(self) -> Iterator[tuple[Key, Document]]:
        """What :meth:`apply` would have to be told."""
        for collection, documents in self._collections.items():
            for key, document in documents.items():
                yield (collection, key), document

    def _is_full(self) -> bool:
        many = self._most is not None and self.count > self._most
        return many or (self._most_bytes is not None and self._bytes > self._most_bytes)

    def _drop(self, collection: str, key: str) -> None:
        documents = self._collections.get(collection, OrderedDict())
        if (known := documents.pop(key, None)) is not None:
            self.count -= 1
            self._bytes -= _size_bytes(known)
            if not documents:
                del self._collections[collection]

    def _living(self, collection: str, key: str) -> Document | None:
        found = self._collections.get(collection, OrderedDict()).get(key)
        return found if found is not None and _lives(found) else None

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
        """Keep ``value``.

        Raises:
            ValueError: The key is too long, there are too many marks, or ``expires_at`` has no time zone.
            TypeError: ``value`` is not JSON.
        """
        before = self._living(collection, key)
        if if_version is not None and if_version != (before.version if before else 0):
            return None
        document = self._next(before, key, value, marks or {}, expires_at)
        self._store.change(("document", (collection, key), document))
        return document.version

    def put_soon(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        *,
        marks: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
    ) -> None:
        """As :meth:`put`; what cannot be kept is counted."""
        try:
            document = self._next(self._living(collection, key), key, value, marks or {}, expires_at)
        except Exception:  # the request path goes on, whatever is wrong with it
            self._store.drops += 1
        else:
            self._store.change_soon("document", (collection, key), document)

    def _next(
        self,
        before: Document | None,
        key: str,
        value: Mapping[str, Any],
        marks: Mapping[str, str],
        expires_at: datetime | None,
    ) -> Document:
        if not isinstance(value, Mapping):
            raise TypeError(f"a document is a JSON object, not {type(value).__name__}")
        if len(key) > LONGEST_KEY:
            raise ValueError(f"`key` has {len(key)} characters; at most {LONGEST_KEY} can be kept")
        if len(marks) > MOST_MARKS:
            raise ValueError(f"{len(marks)} marks; at most {MOST_MARKS} can be kept")
        if expires_at is not None and expires_at.tzinfo is None:
            raise ValueError("`expires_at` has no time zone; give a UTC time")
        # Never the same twice, also when the clock is put back: what was changed later comes first.
        changed_at = max(datetime.now(UTC), self._changed_at + MICROSECOND)
        return Document(
            key=key,
            value=RawObject(encode(value)),
            version=before.version + 1 if before else 1,
            marks=dict(marks),
            created_at=before.created_at if before else changed_at,
            changed_at=changed_at,
            expires_at=expires_at,
        )

    async def get(self, collection: str, key: str) -> Document | None:
        """None when there is none."""
        found = self._living(collection, key)
        return None if found is None else _given(found)

    async def find(
        self,
        collection: str,
        *,
        marks: Mapping[str, str] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Document]:
        """Those with all of these marks, last changed first.

        Raises:
            ValueError: ``limit`` is out of range or the cursor is not one of this store's.
        """
        check_limit(limit, LARGEST_PAGE)
        before = None if cursor is None else read_cursor(cursor)[0]
        wanted = (marks or {}).items()
        there = reversed(self._collections.get(collection, OrderedDict()).values())
        found = [document for document in there if wanted <= document.marks.items() and _lives(document)]
        rest = found if before is None else [document for document in found if document.changed_at < before]
        items = [_given(document) for document in rest[:limit]]
        more = write_cursor(items[-1].changed_at, items[-1].key) if len(rest) > limit else None
        return Page(items, more, len(found))

    async def delete(self, collection: str, key: str) -> bool:
        """Whether there was one."""
        there = self._living(collection, key) is not None
        if key in self._collections.get(collection, {}):
            self._store.change(("document", (collection, key), None))
        return there

    async def prune(self, collection: str, *, keep: int) -> int:
        """Delete all but the ``keep`` last changed, and what has expired; how many.

        Raises:
            ValueError: ``keep`` is less than 0.
        """
        if keep < 0:
            raise ValueError(f"`keep` must be 0 or more, not {keep}")
        there = self._collections.get(collection, OrderedDict())
        living = [key for key in reversed(there) if _lives(there[key])]
        gone = there.keys() - set(living[:keep])
        self._store.change(*(("document", (collection, key), None) for key in gone))
        return len(gone)


def _lives(document: Document) -> bool:
    return document.expires_at is None or document.expires_at > datetime.now(UTC)


def _size_bytes(document: Document) -> int:
    return len(_text(document))


def _given(document: Document) -> Document:
    """``document`` with a value of its own."""
    return replace(document, value=RawObject(_text(document)))


def _text(document: Document) -> bytes:
    return RawObject.of(document.value).raw
