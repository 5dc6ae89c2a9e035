"""Recordings in the store: found by call and by tool, and what they tell of a tool."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_kit.mcp.tool_schemas import output_schema
from pml_kit.offers import RecordedTool

from .digests import call_digest, extra_of, shape_of
from .recording import Recording, RecordingError, from_document
from .result_shapes import Shape, infer

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Document, Documents, Services, Session, ToolCall

    from .settings import Settings

COLLECTION = "dry_run.recordings"
DEFINITIONS = "dry_run.definitions"
PAGE = 1000
MOST_OF_CALL = 100
MOST_LOOKED_AT = 20
"""Recordings of a tool that tell what it returns, the newest."""
MOST_PASTS = 512
MOST_PAST_CHARACTERS = 65_536
"""Characters of the answers of one tool that are kept in memory."""


@dataclass(frozen=True, slots=True)
class ToolRecordings:
    """What is on record of one tool as it is defined now."""

    successes: Sequence[Recording]
    """The newest first, those included whose answers had secrets."""
    failures: int
    refused: Sequence[str]
    """Why some cannot be used."""
    shape: Shape | None
    """What it returns: as declared, else inferred; None when nobody knows."""


async def _nothing() -> None:
    """There is nothing to wait for."""


class Recordings:
    """What is on record. Whose call it was counts, unless ``share`` is set.

    Implements :class:`pml_kit.offers.RecordedAnswers`.
    """

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings
        self.written: Callable[[], Awaitable[None]] = _nothing
        """Waits until everything recorded so far is in the store."""
        self._pasts: OrderedDict[str, tuple[object, ToolRecordings]] = OrderedDict()
        """By shape, with what tells that there is another recording."""

    @property
    def documents(self) -> Documents | None:
        """Where they are; None when there is no store that keeps documents."""
        try:
            return self._services.store.documents
        except (RuntimeError, AttributeError):
            return None

    def owner(self, principal: str) -> str:
        """Under whose name recordings are kept and looked for."""
        return "" if self._settings.share else principal

    def call(self, principal: str, entry: CatalogEntry, task: ToolCall) -> str:
        """Digest of one call, as :class:`Recording` has it."""
        arguments: Any = self._services.redact(task.arguments)
        return call_digest(self.owner(principal), entry.id, entry.digest, arguments, extra_of(task))

    async def of_call(self, call: str) -> tuple[list[Recording], list[str]]:
        """Answers to one call in their order, as the last gateway run that made it recorded them; and refused ones."""
        found, refused = await self._find({"call": call}, MOST_OF_CALL)
        last = max((recording.epoch for recording in found), default="")
        return sorted((r for r in found if r.epoch == last), key=lambda r: r.number), refused

    async def about(self, principal: str, entry: CatalogEntry) -> ToolRecordings:
        """What is on record of a tool."""
        shape = shape_of(self.owner(principal), entry)
        state = await self._state({"shape": shape})
        kept = self._pasts.get(shape)
        if kept is not None and kept[0] == state:
            return kept[1]
        found, refused = await self._find({"shape": shape}, MOST_LOOKED_AT)
        good = [recording for recording in found if recording.kind == "result"]
        made = ToolRecordings(good, len(found) - len(good), refused, _declared(entry) or infer(r.result for r in good))
        self._pasts.pop(shape, None)
        if sum(len(recording.answer) for recording in found) <= MOST_PAST_CHARACTERS:
            self._pasts[shape] = state, made
            if len(self._pasts) > MOST_PASTS:
                self._pasts.popitem(last=False)
        return made

    async def of_tool(self, entry: CatalogEntry, session: Session) -> RecordedTool:
        """What others are told of :meth:`about`."""
        known = await self.about(session.principal, entry)
        inferred = known.shape is not None and known.shape.source == "inferred"
        return RecordedTool(
            calls=len(known.successes) + known.failures,
            durations_ms=tuple(recording.duration_ms for recording in known.successes),
            shown=any(not recording.redacted for recording in known.successes),
            result=known.shape.schema if known.shape is not None and inferred else None,
        )

    async def answers(self, task: ToolCall, entry: CatalogEntry, session: Session) -> bool:
        """Whether an answer to this very call is on record that can be shown."""
        found, _ = await self.of_call(self.call(session.principal, entry, task))
        return any(not recording.redacted for recording in found)

    async def all(self, **marks: str) -> tuple[list[Recording], list[str]]:
        """Every recording with these marks, the last changed first, and why others cannot be used."""
        return await self._find(marks, None)

    async def definition(self, digest: str) -> Mapping[str, Any] | None:
        """A tool's definition as it was when it was recorded; None when it is not kept."""
        documents = self.documents
        found = None if documents is None else await documents.get(DEFINITIONS, digest)
        kept = None if found is None else found.value.get("definition")
        return kept if isinstance(kept, Mapping) else None

    async def _state(self, marks: Mapping[str, str]) -> object:
        """Something that is another as soon as there is another recording with these marks."""
        if (documents := self.documents) is None:
            return None
        await self.written()
        page = await documents.find(COLLECTION, marks=marks, limit=1)
        return page.total, *((document.key, document.version) for document in page.items)

    async def _find(self, marks: Mapping[str, str], limit: int | None) -> tuple[list[Recording], list[str]]:
        documents = self.documents
        if documents is None:
            return [], []
        await self.written()
        found: list[Document] = []
        cursor = None
        while True:
            page = await documents.find(COLLECTION, marks=marks, limit=min(limit or PAGE, PAGE), cursor=cursor)
            found += page.items
            cursor = page.cursor
            if cursor is None or limit is not None:
                return _read(found)


def _read(documents: Sequence[Document]) -> tuple[list[Recording], list[str]]:
    found, refused = [], []
    for document in documents:
        try:
            found.append(from_document(document))
        except RecordingError as exc:
            refused.append(str(exc))
    return found, refused


def _declared(entry: CatalogEntry) -> Shape | None:
    schema = output_schema(entry)
    return Shape(schema, "structured", "declared") if schema is not None else None


def marks_of(recording: Recording, shape: str) -> dict[str, str]:
    """What a recording can be found by."""
    return {"tool": recording.tool, "shape": shape, "call": recording.call}
