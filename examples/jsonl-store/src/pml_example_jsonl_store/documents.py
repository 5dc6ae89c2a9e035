"""Documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Document, Page

from .document_lines import LARGEST_PAGE, from_plain, lives, to_plain
from .paging import page_of

if TYPE_CHECKING:
    from .journal import Journal


class JsonlDocuments:
    """Implements :class:`pml_hookspecs.Documents`."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self._known = journal, dict[str, dict[str, Document]]()
        self._changed_at = datetime.fromtimestamp(0, UTC)
        journal.live.part("document", self._apply)

    def _apply(self, _place: str, value: dict[str, Any] | None) -> None:
        if value is not None:
            collection, document = from_plain(value)
            self._known.setdefault(collection, {})[document.key] = document
            self._changed_at = max(self._changed_at, document.changed_at)

    def _get(self, collection: str, key: str) -> Document | None:
        found = self._known.get(collection, {}).get(key)
        return found if found is not None and lives(found) else None

    async def get(self, collection: str, key: str) -> Document | None:
        return self._get(collection, key)

    async def put(
        self, collection: str, key: str, value: Mapping[str, Any], *, if_version: int | None = None, **more: Any
    ) -> int | None:
        before = self._get(collection, key)
        if if_version is not None and if_version != (before.version if before else 0):
            return None
        line = self._line(collection, key, value, before, **more)
        self._journal.write("document", repr((collection, key)), line)
        return int(line["version"])

    def put_soon(self, collection: str, key: str, value: Mapping[str, Any], **more: Any) -> None:
        try:
            line = self._line(collection, key, value, self._get(collection, key), **more)
        except ValueError:
            self._journal.drops += 1
        else:
            self._journal.write_soon("document", repr((collection, key)), line)

    def _line(self, *given: Any, **more: Any) -> dict[str, Any]:
        # Never the same twice, also when the clock is set back: the order of changes is told by it.
        changed_at = max(datetime.now(UTC), self._changed_at + timedelta(microseconds=1))
        return to_plain(*given, changed_at=changed_at, **more)

    async def find(
        self, collection: str, *, marks: Mapping[str, str] | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[Document]:
        wanted = (marks or {}).items()
        mine = [d for d in self._known.get(collection, {}).values() if wanted <= d.marks.items() and lives(d)]
        return page_of(((d.changed_at, d.key, d) for d in mine), limit, LARGEST_PAGE, cursor)

    async def delete(self, collection: str, key: str) -> bool:
        there = self._get(collection, key) is not None
        if self._known.get(collection, {}).pop(key, None) is not None:
            self._journal.write("document", repr((collection, key)), None)
        return there

    async def prune(self, collection: str, *, keep: int) -> int:
        mine = sorted(self._known.get(collection, {}).values(), key=lambda d: (lives(d), d.changed_at), reverse=True)
        gone = [d.key for n, d in enumerate(mine) if n >= keep or not lives(d)]
        for key in gone:
            await self.delete(collection, key)
        return len(gone)
