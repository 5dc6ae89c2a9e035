"""What is known of tools, by whose calls taught it: in memory for whoever asks, in the store for the next start."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionQuery, Scope, ToolId
from pml_kit.offers import ToolNote
from pml_kit.pages import every_execution

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Document, ExecutionRecord, Services, Session

    from .settings import Settings

COLLECTION = "tool_notes.notes"
MOST_RECORDS, PAGE = 500, 100
"""How many of a principal's last executions are looked at, and how many are read at once."""
FRESH_S = 30.0
"""How long what was read is good for [s]."""
MOST_PRINCIPALS, MOST_TOOLS = 64, 500
RENEWED = timedelta(days=1)
"""How old what is kept may be before it is kept anew, so that it does not expire while its tool is called."""
KEPT = ("returns", "result", "arguments", "advice", "before", "after")
"""Members of a note, as they are kept."""
NOTHING = ToolNote()
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """A note, and which definition of its tool it is about."""

    digest: str
    since: datetime
    """When the tool was first seen to be defined so; what was called before says nothing of it."""
    note: ToolNote
    kept_at: datetime = BEGINNING
    newest: str = ""
    """Id of the last execution that was looked at."""


class NoteCache:
    """Of each principal only its own calls teach. They are read in the background when somebody asks of a tool."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings
        self._known: OrderedDict[str, dict[str, Entry]] = OrderedDict()
        self._read_at: OrderedDict[str, float] = OrderedDict()

    def of(self, entry: CatalogEntry, session: Session) -> ToolNote | None:
        """See :class:`~pml_kit.offers.ToolNotes`."""
        if entry.own or not entry.digest:
            return None
        if time.monotonic() - self._read_at.get(session.principal, -FRESH_S) >= FRESH_S:
            self._have_read(session.principal)
        known = self._known.get(session.principal, {}).get(entry.id)
        if known is None or known.digest != entry.digest or not self._services.catalog.allows(entry, session):
            return None
        return known.note if known.note != NOTHING else None

    def _have_read(self, principal: str) -> None:
        self._read_at[principal] = time.monotonic()
        self._read_at.move_to_end(principal)
        while len(self._read_at) > MOST_PRINCIPALS:
            forgotten, _ = self._read_at.popitem(last=False)
            self._known.pop(forgotten, None)
        self._services.spawn(self._quietly, principal, name="read-calls")

    async def _quietly(self, principal: str) -> None:
        try:
            await self.read(principal)
        except Exception as exc:  # nobody waits for it, and nothing depends on it
            self._services.log.warning("tools are shown without what was learned of them", error=str(exc))

    async def load(self) -> None:
        """Have in memory what is kept, of those whose calls taught last."""
        try:
            page = await self._services.store.documents.find(COLLECTION, limit=1000)
        except Exception as exc:
            self._services.log.warning("what was learned of tools cannot be read", error=str(exc))
            return
        found: dict[str, list[Document]] = defaultdict(list)
        for document in page.items:
            found[document.marks.get("principal", "")].append(document)
        for principal, documents in list(found.items())[:MOST_PRINCIPALS]:
            self._known.setdefault(principal, _entries(documents))

    async def read(self, principal: str) -> None:
        """Learn from the last calls of a principal; keep what is new.

        Raises:
            Exception: The store's.
        """
        page = await self._services.store.documents.find(COLLECTION, marks={"principal": principal}, limit=MOST_TOOLS)
        known = _entries(page.items)
        now = datetime.now(UTC)
        for tool, records in (await self._records(principal)).items():
            entry = self._services.catalog.get(ToolId(tool))
            if entry is None or entry.own or not entry.digest:
                continue
            last, before = self._known.get(principal, {}).get(tool), known.get(tool)
            if last is not None and (last.digest, last.newest) == (entry.digest, records[0].id):
                known[tool] = last
                continue
            if before is None:
                before = Entry(entry.digest, BEGINNING, NOTHING)
            elif before.digest != entry.digest:
                before = Entry(entry.digest, now, NOTHING)
            fresh = [record for record in records if record.started_at >= before.since]
            note = await asyncio.to_thread(self._note, entry, fresh, before.note)
            renewed = before.note != note or now - before.kept_at > RENEWED
            known[tool] = Entry(entry.digest, before.since, note, now if renewed else before.kept_at, records[0].id)
            if renewed:
                await self._keep(principal, tool, known[tool], now)
        self._known[principal] = known

    def _note(self, entry: CatalogEntry, records: Sequence[ExecutionRecord], before: ToolNote) -> ToolNote:
        # Not before somebody asks of a tool: nothing of it is needed to start.
        from .note import note_of

        return note_of(entry, records, before, tokens=self._settings.tokens, redact=self._services.redact)

    async def _keep(self, principal: str, tool: str, entry: Entry, now: datetime) -> None:
        value = {"tool": tool, "digest": entry.digest, "since": entry.since.isoformat(), "note": _to_json(entry.note)}
        await self._services.store.documents.put(
            COLLECTION,
            hashlib.sha256(f"{principal}\0{tool}".encode()).hexdigest(),
            value,
            marks={"principal": principal},
            expires_at=now + timedelta(days=self._settings.keep_days),
        )

    async def _records(self, principal: str) -> Mapping[str, list[ExecutionRecord]]:
        """The last calls, by tool, newest first."""
        found: dict[str, list[ExecutionRecord]] = defaultdict(list)
        query = ExecutionQuery(scope=Scope(principals=frozenset({principal})), include_dry_runs=False, limit=PAGE)
        async for record in every_execution(self._services.store.executions, query, most=MOST_RECORDS):
            if record.kind == "tool":
                found[record.target].append(record)
        return found


def _entries(documents: Sequence[Document]) -> dict[str, Entry]:
    """What is kept, by tool; what another version wrote is left out."""
    found: dict[str, Entry] = {}
    for document in documents:
        value = document.value
        try:
            since = datetime.fromisoformat(value["since"])
            entry = Entry(str(value["digest"]), since, _from_json(value["note"]), document.changed_at)
            found[str(value["tool"])] = entry
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _to_json(note: ToolNote) -> dict[str, Any]:
    """As it is kept."""
    return {name: member for name in KEPT if (member := getattr(note, name))}


def _from_json(kept: Any) -> ToolNote:
    """What :func:`_to_json` made; an empty note of anything else."""
    if not isinstance(kept, Mapping):
        return NOTHING
    texts = {name: kept[name] for name in ("returns", "advice", "before", "after") if isinstance(kept.get(name), str)}
    objects = {name: kept[name] for name in ("result", "arguments") if isinstance(kept.get(name), Mapping)}
    return ToolNote(**texts, **objects)
