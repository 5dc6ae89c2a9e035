"""From an answered call to a recording in the store: secrets out, bounds kept, repeats counted."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import RawObject, encode

from .digests import call_digest, extra_of, shape_digest
from .recent_answers import RecentAnswers
from .recording import Kind, Recording, answer_of, text_of
from .recordings import COLLECTION, DEFINITIONS, marks_of

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Documents, Outcome, Services, ToolCall

    from .recordings import Recordings
    from .settings import Settings

MOST_ANSWERS = 20
"""Different answers to one call that are kept of one gateway run; further ones take the place of the last."""
SLACK = 10
"""Recordings of a tool above the most that are kept, before the oldest are deleted."""


def epoch() -> str:
    """A name for this run of the gateway that sorts after all before."""
    return f"{time.time_ns() // 1000:016x}{os.urandom(3).hex()}"


class AnsweredCall(NamedTuple):
    """A call that was answered, not looked at yet."""

    entry: CatalogEntry
    principal: str
    task: ToolCall
    outcome: Outcome
    size: int
    """Size of arguments and answer, as far as they came as bytes [bytes]."""


class RecordingWriter:
    """Writes recordings of answered calls to the store."""

    def __init__(self, services: Services, settings: Settings, recordings: Recordings) -> None:
        self._services, self._settings, self._recordings = services, settings, recordings
        self._epoch = epoch()
        self._remembered = RecentAnswers()
        self._repeated: dict[str, Recording] = {}
        """Recordings whose ``times`` the store does not know yet, by id."""
        self._defined: set[str] = set()
        self._counts: dict[str, int] = {}
        """Recordings by shape since the last trim."""

    def wants(self, tool: str) -> bool:
        """Whether answers of a tool are kept."""
        settings = self._settings
        return any(fnmatchcase(tool, pattern) for pattern in settings.record_tools) and not any(
            fnmatchcase(tool, pattern) for pattern in settings.never_record
        )

    def keep(self, noted: AnsweredCall) -> None:
        """Keep one answer, if it is one and not too long. Repeats are only counted, until :meth:`flush`.

        Raises:
            Exception: Any, for answers that are no JSON.
        """
        found = answer_of(noted.outcome)
        if found is None:
            return
        kind, answer = found
        arguments, raw, extra = encode(noted.task.arguments), encode(answer), extra_of(noted.task)
        if max(len(arguments), len(raw)) > self._settings.max_bytes:
            return
        parts = [noted.principal, noted.entry.id, noted.entry.digest, extra, len(arguments)]
        look = hashlib.blake2b(encode(parts) + arguments + raw, digest_size=20).digest()
        before = self._remembered.alike(look)
        if before is None:
            before = self._kept_anew(noted, kind, RawObject(raw), extra, look)
        if before is not None:
            again = before.again()
            self._remembered.put(again, look)
            self._repeated[again.id] = again

    def _kept_anew(
        self, noted: AnsweredCall, kind: Kind, answer: RawObject, extra: Mapping[str, Any], look: bytes
    ) -> Recording | None:
        """Keep it; or the recording that it only repeats, written in another way."""
        entry, owner = noted.entry, self._recordings.owner(noted.principal)
        given, _ = self._cleaned(RawObject.of(noted.task.arguments))
        arguments = json.loads(given)
        cleaned, redacted = self._cleaned(answer)
        call = call_digest(owner, entry.id, entry.digest, arguments, extra)
        before = self._remembered.get(call)
        if before is not None and before.answer == cleaned:
            return before
        number = 0 if before is None else min(before.number + 1, MOST_ANSWERS - 1)
        made = Recording(
            id=f"rec-{call[:20]}-{self._epoch}-{number:02}",
            tool=entry.id,
            definition=entry.digest,
            principal=owner,
            call=call,
            arguments=given,
            kind=kind,
            answer=cleaned,
            recorded_at=noted.outcome.started_at.astimezone(UTC).isoformat(),
            duration_ms=noted.outcome.duration_ms,
            epoch=self._epoch,
            number=number,
            redacted=redacted,
            extra=text_of(self._redacted(extra)) if extra else "{}",
        )
        if before is not None and before.id in self._repeated:
            self._put(self._repeated.pop(before.id))
        self._remembered.put(made, look)
        self._put(made)
        self._define(noted)
        shape = shape_digest(owner, made.tool, made.definition)
        self._counts[shape] = self._counts.get(shape, 0) + 1
        return None

    def _redacted(self, value: Any) -> Any:
        return self._services.redact(value)

    def _cleaned(self, answer: RawObject) -> tuple[str, bool]:
        """The answer as JSON text without secrets, byte by byte as it came where it has none; whether it had."""
        text = answer.raw.decode("utf-8", "surrogatepass")
        if "\\" not in text:  # then what a string holds is what stands there
            cleaned = self._redacted(text)
            return cleaned, cleaned != text
        value = self._redacted(answer)
        return (text, False) if value == answer.value else (text_of(value), True)

    def flush(self) -> None:
        """Write how often answers were repeated."""
        while self._repeated:
            self._put(self._repeated.popitem()[1])

    def _put(self, recording: Recording) -> None:
        if (documents := self._recordings.documents) is not None:
            put(documents, recording, self._settings)

    def _define(self, noted: AnsweredCall) -> None:
        digest, documents = noted.entry.digest, self._recordings.documents
        if digest in self._defined or documents is None:
            return
        self._defined.add(digest)
        definition = self._redacted(noted.entry.definition)
        documents.put_soon(DEFINITIONS, digest, {"definition": definition}, expires_at=expiry(self._settings))

    async def trim(self) -> None:
        """Delete the oldest recordings of tools that have too many."""
        documents = self._recordings.documents
        busy = [shape for shape, count in self._counts.items() if count >= SLACK]
        if documents is None:
            return
        for shape in busy:
            del self._counts[shape]
            await trim(documents, shape, self._settings.max_per_tool)


def expiry(settings: Settings) -> datetime:
    """Until when something that is written now is kept."""
    return datetime.now(UTC) + timedelta(days=settings.keep_days)


def put(documents: Documents, recording: Recording, settings: Settings) -> None:
    """Write a recording, soon."""
    shape = shape_digest(recording.principal, recording.tool, recording.definition)
    marks = marks_of(recording, shape)
    documents.put_soon(COLLECTION, recording.id, recording.to_value(), marks=marks, expires_at=expiry(settings))


async def trim(documents: Documents, shape: str, keep: int) -> None:
    """Delete all but the ``keep`` last changed recordings of a tool."""
    page = await documents.find(COLLECTION, marks={"shape": shape}, limit=keep)
    surplus: list[str] = []
    while page.cursor is not None:
        page = await documents.find(COLLECTION, marks={"shape": shape}, limit=1000, cursor=page.cursor)
        surplus += [document.key for document in page.items]
    for key in surplus:
        await documents.delete(COLLECTION, key)
