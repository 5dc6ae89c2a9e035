"""Documents in memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pml_hookspecs import Document, Page, RawObject, replace

from .changes import Key, MemoryTable
from .documents import CheckedDocuments, Draft
from .values import micros, moment, read_cursor, write_cursor

if TYPE_CHECKING:
    from .changes import Changes

CURSOR_MARK = "pml-memory-documents-1"


class MemoryDocuments(MemoryTable[Document], CheckedDocuments):
    """In the order in which they were changed. Over its bounds it forgets what was changed longest ago.

    Values are JSON texts: nobody changes what is kept by changing what was put or got.
    """

    def __init__(self, changes: Changes, most: int | None, most_bytes: int | None) -> None:
        """Room for ``most`` documents whose values take ``most_bytes`` together [bytes]; None for all there is."""
        super().__init__()
        self._changes, self._most, self._most_bytes = changes, most, most_bytes
        self._bytes = 0

    def apply(self, key: Key, value: Document | None) -> None:
        """Take note that there is a document in this collection and with this key, or none any more."""
        if (known := self.values.pop(key, None)) is not None:
            self._bytes -= len(_text(known))
        if value is None:
            return
        self.values[key] = value
        self._changed_at = max(self._changed_at, micros(value.changed_at))
        self._bytes += len(_text(value))
        while self.count > 1 and self._is_full():
            self.apply(next(iter(self.values)), None)
            self._changes.drops += 1

    def _is_full(self) -> bool:
        many = self._most is not None and self.count > self._most
        return many or (self._most_bytes is not None and self._bytes > self._most_bytes)

    def _living(self, collection: str, key: str) -> Document | None:
        found = self.values.get((collection, key))
        return found if found is not None and _lives(found) else None

    def _of(self, collection: str) -> list[Document]:
        """Last changed first."""
        return [document for key, document in reversed(self.values.items()) if key[0] == collection]

    async def _keep(self, draft: Draft, if_version: int | None) -> int | None:
        before = self._living(draft.collection, draft.key)
        if if_version is not None and if_version != (before.version if before else 0):
            return None
        document = self._document(draft, before)
        self._changes.change(("document", (draft.collection, draft.key), document))
        return document.version

    def _keep_soon(self, draft: Draft) -> None:
        document = self._document(draft, self._living(draft.collection, draft.key))
        self._changes.change_soon("document", (draft.collection, draft.key), document)

    def _refuse(self, exc: Exception, document: str) -> None:
        self._changes.drops += 1

    def _document(self, draft: Draft, before: Document | None) -> Document:
        changed_at = moment(draft.changed_at)
        return Document(
            key=draft.key,
            value=RawObject(draft.value),
            version=before.version + 1 if before else 1,
            marks=draft.marks,
            created_at=before.created_at if before else changed_at,
            changed_at=changed_at,
            expires_at=None if draft.expires_at is None else moment(draft.expires_at),
        )

    async def get(self, collection: str, key: str) -> Document | None:
        """None when there is none."""
        found = self._living(collection, key)
        return None if found is None else _given(found)

    async def _found(self, collection: str, marks: Mapping[str, str], limit: int, cursor: str | None) -> Page[Document]:
        before = None if cursor is None else moment(read_cursor(CURSOR_MARK, cursor)[0])
        wanted, there = marks.items(), self._of(collection)
        found = [document for document in there if wanted <= document.marks.items() and _lives(document)]
        rest = found if before is None else [document for document in found if document.changed_at < before]
        items = [_given(document) for document in rest[:limit]]
        more = write_cursor(CURSOR_MARK, (micros(items[-1].changed_at), items[-1].key)) if len(rest) > limit else None
        return Page(items, more, len(found))

    async def delete(self, collection: str, key: str) -> bool:
        """Whether there was one."""
        there = self._living(collection, key) is not None
        if (collection, key) in self.values:
            self._changes.change(("document", (collection, key), None))
        return there

    async def _pruned(self, collection: str, keep: int) -> int:
        there = self._of(collection)
        kept = {document.key for document in [document for document in there if _lives(document)][:keep]}
        gone = [document.key for document in there if document.key not in kept]
        self._changes.change(*(("document", (collection, key), None) for key in gone))
        return len(gone)


def _lives(document: Document) -> bool:
    return document.expires_at is None or document.expires_at > datetime.now(UTC)


def _given(document: Document) -> Document:
    """``document`` with a value of its own."""
    return replace(document, value=RawObject(_text(document)))


def _text(document: Document) -> bytes:
    return RawObject.of(document.value).raw
