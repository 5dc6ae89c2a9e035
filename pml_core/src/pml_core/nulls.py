"""What works with nothing installed: a store that remembers the last hundred executions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from pml_hookspecs import (
    Document,
    Page,
    RawObject,
    Scope,
    encode,
)

from .memory_executions import MemoryExecutions

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Ended, ExecutionId, Json, ServerStatus

REMEMBERED = 100
REMEMBERED_DOCUMENTS = 10_000
REMEMBERED_DOCUMENT_BYTES = 64 * 1024 * 1024
LARGEST_PAGE_OF_DOCUMENTS = 1000
LONGEST_KEY = 512
"""Characters."""
MOST_MARKS = 8
CURSOR_MARK = "before "
MICROSECOND = timedelta(microseconds=1)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryStore:
    """Implements :class:`pml_hookspecs.Store` in memory; forgets the oldest first, and everything at the end."""

    def __init__(self, settings: Any = None, services: Any = None, *, remembered: int = REMEMBERED) -> None:
        self.executions = MemoryExecutions(remembered)
        self.traces = MemoryTraces(self.executions, remembered)
        self.catalog = MemoryCatalog()
        self.secrets = MemorySecrets()
        self.documents = MemoryDocuments()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def health(self) -> Mapping[str, Json]:
        """How much it holds."""
        return {"kind": "memory", "executions": len(self.executions.records), "drops": self.documents.drops}


class MemorySecrets:
    """Implements :class:`pml_hookspecs.Secrets`."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], str] = {}

    async def get(self, owner: str, name: str) -> str | None:
        """None when there is none."""
        return self._values.get((owner, name))

    async def put(self, owner: str, name: str, value: str | None) -> None:
        """Keep until the gateway ends."""
        if value is None:
            self._values.pop((owner, name), None)
        else:
            self._values[owner, name] = value


class MemoryDocuments:
    """Implements :class:`pml_hookspecs.Documents`. Over its bounds it forgets what was changed longest ago."""

    def __init__(self, most: int = REMEMBERED_DOCUMENTS, most_bytes: int = REMEMBERED_DOCUMENT_BYTES) -> None:
        """Room for ``most`` documents whose values take ``most_bytes`` together [bytes]."""
        self._most, self._most_bytes = most, most_bytes
        # Values as JSON: nobody changes what is kept by changing what was put or got.
        self._documents: OrderedDict[tuple[str, str], tuple[Document, bytes]] = OrderedDict()
        self._bytes = 0
        self._changed_at = BEGINNING
        self.drops = 0
        """Forgotten for lack of room, or could not be kept."""

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
        """Keep until the gateway ends, or there is no room for it any more."""
        before = self._living(collection, key)
        if if_version is not None and if_version != (before.version if before else 0):
            return None
        return self._keep(collection, key, value, marks or {}, expires_at)

    def put_soon(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        *,
        marks: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
    ) -> None:
        """As :meth:`put`, at once."""
        try:
            self._keep(collection, key, value, marks or {}, expires_at)
        except Exception:  # the request path goes on, whatever is wrong with it
            self.drops += 1

    def _keep(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        marks: Mapping[str, str],
        expires_at: datetime | None,
    ) -> int:
        _check_document(key, marks, expires_at)
        raw, before = encode(value), self._living(collection, key)
        # Never the same twice, also when the clock is put back: what was changed later comes first.
        self._changed_at = max(datetime.now(UTC), self._changed_at + MICROSECOND)
        document = Document(
            key=key,
            value={},
            version=before.version + 1 if before else 1,
            marks=dict(marks),
            created_at=before.created_at if before else self._changed_at,
            changed_at=self._changed_at,
            expires_at=expires_at,
        )
        self._forget((collection, key))
        self._documents[collection, key] = document, raw
        self._bytes += len(raw)
        while len(self._documents) > 1 and (len(self._documents) > self._most or self._bytes > self._most_bytes):
            self._forget(next(iter(self._documents)))
            self.drops += 1
        return document.version

    def _living(self, collection: str, key: str) -> Document | None:
        document, _ = self._documents.get((collection, key), (None, b""))
        return document if document is not None and _lives(document) else None

    def _forget(self, place: tuple[str, str]) -> None:
        _, raw = self._documents.pop(place, (None, b""))
        self._bytes -= len(raw)

    async def get(self, collection: str, key: str) -> Document | None:
        """None when there is none."""
        found = self._living(collection, key)
        return None if found is None else replace(found, value=RawObject(self._documents[collection, key][1]))

    async def find(
        self,
        collection: str,
        *,
        marks: Mapping[str, str] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Document]:
        """Those with all of these marks, last changed first."""
        if not 1 <= limit <= LARGEST_PAGE_OF_DOCUMENTS:
            raise ValueError(f"limit must be 1 to {LARGEST_PAGE_OF_DOCUMENTS}, not {limit}")
        before = None if cursor is None else _read_cursor(cursor)
        wanted = (marks or {}).items()
        found = [
            (document, raw)
            for (where, _), (document, raw) in reversed(self._documents.items())
            if where == collection and wanted <= document.marks.items() and _lives(document)
        ]
        rest = [f for f in found if before is None or f[0].changed_at < before]
        items = [replace(document, value=RawObject(raw)) for document, raw in rest[:limit]]
        more = len(rest) > limit
        return Page(items, CURSOR_MARK + items[-1].changed_at.isoformat() if more else None, len(found))

    async def delete(self, collection: str, key: str) -> bool:
        """Whether there was one."""
        there = self._living(collection, key) is not None
        self._forget((collection, key))
        return there

    async def prune(self, collection: str, *, keep: int) -> int:
        """Delete all but the ``keep`` last changed, and what has expired; how many."""
        if keep < 0:
            raise ValueError(f"keep must be 0 or more, not {keep}")
        places = [place for place in reversed(self._documents) if place[0] == collection]
        living = [place for place in places if _lives(self._documents[place][0])]
        gone = set(places) - set(living[:keep])
        for place in gone:
            self._forget(place)
        return len(gone)


def _lives(document: Document) -> bool:
    return document.expires_at is None or document.expires_at > datetime.now(UTC)


def _check_document(key: str, marks: Mapping[str, str], expires_at: datetime | None) -> None:
    if len(key) > LONGEST_KEY:
        raise ValueError(f"the key has {len(key)} characters; at most {LONGEST_KEY} can be kept")
    if len(marks) > MOST_MARKS:
        raise ValueError(f"{len(marks)} marks; at most {MOST_MARKS} can be kept")
    if expires_at is not None and expires_at.tzinfo is None:
        raise ValueError("expires_at has no time zone; give a UTC time")


def _read_cursor(cursor: str) -> datetime:
    try:
        changed_at = datetime.fromisoformat(cursor.removeprefix(CURSOR_MARK))
    except ValueError:
        changed_at = None
    if changed_at is None or changed_at.tzinfo is None or not cursor.startswith(CURSOR_MARK):
        raise ValueError("the cursor is not one of this store's")
    return changed_at


class MemoryTraces:
    """Implements :class:`pml_hookspecs.Traces`."""

    def __init__(self, executions: MemoryExecutions, remembered: int) -> None:
        self._executions, self._remembered = executions, remembered
        self._spans: OrderedDict[tuple[str, str], Ended] = OrderedDict()

    async def append(self, spans: Iterable[Ended]) -> None:
        """Add spans that are not there yet."""
        for ended in spans:
            self._spans.setdefault((ended.span.trace_id, ended.span.span_id), ended)
        while len(self._spans) > self._remembered:
            self._spans.popitem(last=False)

    async def of(self, execution: ExecutionId, scope: Scope) -> Sequence[Ended]:
        """Spans of one execution in start order."""
        if await self._executions.get(execution, scope) is None:
            return []
        return sorted((e for e in self._spans.values() if e.span.execution == execution), key=lambda e: e.span.start_ns)


class MemoryCatalog:
    """Implements :class:`pml_hookspecs.CatalogCache`."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[str, list[CatalogEntry]]] = {}
        self._statuses: dict[str, ServerStatus] = {}

    async def replace(self, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has."""
        self._entries[server] = (fingerprint, sorted(entries, key=lambda e: e.name))

    async def entries(self, server: str, fingerprint: str) -> Sequence[CatalogEntry]:
        """By tool name; empty under another fingerprint."""
        known, entries = self._entries.get(server, ("", []))
        return entries if known == fingerprint else []

    async def report(self, status: ServerStatus) -> None:
        """Remember how a server is doing."""
        self._statuses[status.name] = status

    async def statuses(self) -> Sequence[ServerStatus]:
        """By name."""
        return [self._statuses[name] for name in sorted(self._statuses)]
