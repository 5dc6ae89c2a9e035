"""Answers that were too large, kept for whom they were for until they expire."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import anyio.to_thread

from pml_hookspecs import Catalog, Document, Documents, InvalidArguments, Session, ToolId

COLLECTION, PARTS = "results.stored", "results.parts"
PART = 512 * 1024
"""Characters of one part: what is read is not held twice as a whole, and no row of a database becomes huge."""
ESCAPED_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
"""A string in JSON text. Nothing of it is tried in two ways, which would take a hundred bytes for each character."""
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
LENGTH = 12
"""Characters of an id: 59 bits, so that nobody comes upon another's."""
MOST_STORED = 1000
"""Answers that are looked through for the oldest."""

Kind = Literal["json", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """What is known of a stored answer without reading it."""

    id: str
    principal: str
    tool: str
    kind: Kind
    size_bytes: int
    parts: int
    expires_at: datetime


class FullError(Exception):
    """It cannot be stored. The message says why."""


class StoredResults:
    """The stored answers of one store."""

    def __init__(
        self,
        documents: Documents,
        redact: Callable[[str], str],
        catalog: Catalog,
        *,
        keep_hours: float,
        keep_bytes: int,
    ) -> None:
        """``redact`` takes secrets out of a text: what is kept is a record like any other."""
        self._documents, self._redact, self._catalog = documents, redact, catalog
        self._keep, self._most = timedelta(hours=keep_hours), keep_bytes

    async def keep(self, text: str, kind: Kind, tool: str, session: Session) -> StoredResult:
        """Store an answer, without secrets; it can be read when this returns.

        Raises:
            FullError: It is larger than all that may be kept for its principal, or the store will not take it.
        """
        size_bytes = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        if size_bytes > self._most:
            raise FullError(
                f"it has {size_bytes:,} bytes, and {self._most:,} may be kept for one principal (keep_bytes)"
            )
        id = "r_" + "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        expires_at = datetime.now(UTC) + self._keep
        if kind == "json" and "\\" in text:
            text = await anyio.to_thread.run_sync(self._unescaped, text)
        pieces = list(_pieces(text))
        parts = len(pieces)
        stored = StoredResult(
            id=id,
            principal=session.principal,
            tool=tool,
            kind=kind,
            size_bytes=size_bytes,
            parts=parts,
            expires_at=expires_at,
        )
        try:
            await self._make_room(session.principal, size_bytes)
            for n, (start, end) in enumerate(pieces):
                part = {"text": self._redact(text[start:end])}
                await self._documents.put(PARTS, _part(id, n), part, expires_at=expires_at)
            about = {"tool": tool, "kind": kind, "size_bytes": size_bytes, "parts": parts}
            marks = {"principal": session.principal}
            await self._documents.put(COLLECTION, id, about, marks=marks, expires_at=expires_at)
        except Exception as exc:
            with contextlib.suppress(Exception):
                await self._delete(stored)
            raise FullError(f"{type(exc).__name__}: {exc}") from exc
        return stored

    async def get(self, id: str, session: Session) -> StoredResult:
        """What is known of the answer ``id``.

        Raises:
            InvalidArguments: There is none, it has expired, it is another principal's, or its tool is none that the
                session may have any more, which is not told apart.
        """
        document = await self._documents.get(COLLECTION, id[: 4 * LENGTH]) if id else None
        if document is None or document.marks.get("principal") != session.principal:
            raise unknown(id)
        stored = _stored(document)
        entry = self._catalog.get(ToolId(stored.tool))
        if entry is not None and not self._catalog.allows(entry, session):
            raise unknown(id)
        return stored

    async def text(self, stored: StoredResult) -> str:
        """The whole of it.

        Raises:
            InvalidArguments: A part of it is gone meanwhile.
        """
        texts = []
        for n in range(stored.parts):
            document = await self._documents.get(PARTS, _part(stored.id, n))
            if document is None:
                raise InvalidArguments(f"the stored result {stored.id!r} is gone; call the tool again")
            texts.append(str(document.value["text"]))
        return "".join(texts)

    def _unescaped(self, text: str) -> str:
        """JSON ``text`` without the secrets that are written in it with escapes."""
        return ESCAPED_STRING.sub(self._string, text)

    def _string(self, found: re.Match[str]) -> str:
        token = found[0]
        if "\\" not in token:
            return token
        value = json.loads(token)
        cleaned = self._redact(value)
        return token if cleaned == value else json.dumps(cleaned)

    async def _make_room(self, principal: str, size_bytes: int) -> None:
        page = await self._documents.find(COLLECTION, marks={"principal": principal}, limit=MOST_STORED)
        kept = 0
        for document in page.items:
            kept += int(document.value["size_bytes"])
            if kept + size_bytes > self._most:
                await self._delete(_stored(document))
        if page.cursor is not None:
            older = await self._documents.find(
                COLLECTION, marks={"principal": principal}, limit=MOST_STORED, cursor=page.cursor
            )
            for document in older.items:
                await self._delete(_stored(document))

    async def _delete(self, stored: StoredResult) -> None:
        await self._documents.delete(COLLECTION, stored.id)
        for n in range(stored.parts):
            await self._documents.delete(PARTS, _part(stored.id, n))


def unknown(id: str) -> InvalidArguments:
    """What is said of a result that one may not read, whatever the reason is."""
    return InvalidArguments(f"there is no stored result {id[:80]!r} (any more); call the tool again")


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Where to cut a text into parts: behind what no secret has in it, a line's end or a quotation mark.

    A secret that is cut in two would not be known as one.
    """
    start = 0
    while start < len(text) or not start:
        end = min(start + PART, len(text))
        if end < len(text):
            last = max(text.rfind("\n", start, end), text.rfind('"', start, end)) + 1
            end = last if last > start else end
        yield start, end
        if end == len(text):
            return
        start = end


def _part(id: str, n: int) -> str:
    return f"{id}/{n:06}"


def _stored(document: Document) -> StoredResult:
    about: Mapping[str, Any] = document.value
    return StoredResult(
        id=document.key,
        principal=document.marks["principal"],
        tool=str(about["tool"]),
        kind="json" if about["kind"] == "json" else "text",
        size_bytes=int(about["size_bytes"]),
        parts=int(about["parts"]),
        expires_at=document.expires_at or datetime.max.replace(tzinfo=UTC),
    )
