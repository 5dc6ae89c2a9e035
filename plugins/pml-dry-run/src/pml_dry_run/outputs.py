"""What code really returned, for rehearsals of the same code with the same inputs."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import CapabilityRun, CodeRun, Status, encode

from .digests import canonical
from .recording_writer import expiry

if TYPE_CHECKING:
    from pml_hookspecs import Document, Documents, Json, Outcome, Services, Session, Task

    from .recording_writer import RecordingWriter
    from .recordings import Recordings
    from .settings import Settings

COLLECTION = "dry_run.outputs"
VERSION = 2
PAGE = 1000
MOST = 1000
"""Outputs that are kept, the newest."""
SLACK = 50
"""Outputs that are written before the oldest are deleted."""


class Output(NamedTuple):
    """What code returned."""

    value: Json
    recorded_at: str
    """ISO 8601, UTC."""
    duration_ms: int


class Outputs:
    """Outputs in the store, by everything that they are known to depend on.

    Which code a capability has in the store is not known here, so only one that comes with its code is kept; nor what
    is in a folder that code works in, so code with one is not.
    """

    def __init__(
        self, services: Services, settings: Settings, recordings: Recordings, writing: RecordingWriter
    ) -> None:
        self._services, self._settings, self._recordings = services, settings, recordings
        self._writing = writing
        self._written = 0

    def keep(self, task: Task, session: Session, outcome: Outcome) -> None:
        """Keep what a real run returned, soon; nothing of one that failed, is too long, has or was given secrets.

        Raises:
            Exception: Any, for what is no JSON.
        """
        documents, target = self._recordings.documents, target_of(task)
        if outcome.status is not Status.OK or documents is None or not target or not self._writing.wants(target):
            return
        key, raw = self._key(task, session), encode(outcome.output)
        if key is None or max(len(raw), len(encode(_inputs(task)))) > self._settings.max_bytes:
            return
        text = raw.decode("utf-8", "surrogatepass")
        value = json.loads(text)
        if self._services.redact(value) != value:
            return
        started_at = outcome.started_at.astimezone(UTC).isoformat()
        marks = {"target": target, "principal": self._recordings.owner(session.principal)}
        about = {"version": VERSION, **marks, "output": text, "recorded_at": started_at}
        about["duration_ms"] = outcome.duration_ms
        documents.put_soon(COLLECTION, key, about, marks=marks, expires_at=expiry(self._settings))
        self._written += 1

    async def of(self, task: Task, session: Session) -> Output | None:
        """What the same code returned last; None when it is not known."""
        documents, key = self._recordings.documents, self._key(task, session)
        found = None if documents is None or key is None else await documents.get(COLLECTION, key)
        if found is None or found.value.get("version") != VERSION:
            return None
        try:
            value, took = json.loads(found.value["output"]), int(found.value["duration_ms"])
        except (ValueError, TypeError, KeyError):
            return None
        return Output(value, str(found.value.get("recorded_at", "")), took)

    async def trim(self) -> None:
        """Delete the oldest where there are too many."""
        documents = self._recordings.documents
        if documents is not None and self._written >= SLACK:
            self._written = 0
            await documents.prune(COLLECTION, keep=MOST)

    def _key(self, task: Task, session: Session) -> str | None:
        """None where there is more to it than is known."""
        about: list[Any]
        if isinstance(task, CodeRun) and task.folder is None:
            about = [task.language, task.source, task.program, task.tools]
        elif isinstance(task, CapabilityRun) and task.source:
            about = [task.language, task.source, task.capability_id]
        else:
            return None
        inputs = json.loads(encode(_inputs(task)))
        if self._services.redact(inputs) != inputs:
            return None
        # What code may call is what its caller may.
        may = [None if session.allow is None else sorted(session.allow), sorted(session.deny)]
        parts = [type(task).__name__, self._recordings.owner(session.principal), *may, *about, inputs]
        return f"out-{hashlib.sha256(canonical(parts)).hexdigest()[:40]}"


async def forget(documents: Documents, *, tool: str | None, principal: str | None, keep: int) -> int:
    """Delete outputs of what ``tool`` matches and of ``principal``, but not the newest ``keep``; how many.

    Of those of older versions it is not known whose they are; they are not used any more, and count as everybody's.
    """
    found: list[Document] = []
    cursor = None
    while True:
        page = await documents.find(COLLECTION, limit=PAGE, cursor=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            break
    chosen = [document for document in found if _is_chosen(document, tool, principal)]
    return sum([await documents.delete(COLLECTION, document.key) for document in chosen[keep:]])


def _is_chosen(document: Document, tool: str | None, principal: str | None) -> bool:
    target = str(document.value.get("target", ""))
    return (tool is None or fnmatchcase(target, tool)) and (
        principal is None or document.value.get("principal", principal) == principal
    )


def target_of(task: Task) -> str:
    """What ``record_tools`` and ``never_record`` know it by; ``""`` for what is neither code nor a capability."""
    if isinstance(task, CodeRun):
        return f"code:{task.language}"
    return f"capability:{task.capability_id}" if isinstance(task, CapabilityRun) else ""


def _inputs(task: Task) -> Any:
    return task.inputs if isinstance(task, (CodeRun, CapabilityRun)) else {}
