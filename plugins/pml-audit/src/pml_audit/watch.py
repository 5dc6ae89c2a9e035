"""What no call tells of: configuration files, servers, keys, and approvals that were answered elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_kit.pages import every_document

from .rows import SEALS
from .settings import home

if TYPE_CHECKING:
    from pml_hookspecs import Document, Services

    from .recorder import Recorder
    from .settings import Settings

NOTED = "audit.noted"
"""What has its row: of several gateways on one store, one writes it."""
APPROVALS = "approvals.requests"
EVENTS = ("access.events", "history.events")
"""Where plugins and stores keep what happened while no audit was there to be told."""
EVENT_KINDS = ("key.", "agent.", "history.")
"""How kinds of events begin that make a row."""
SKEW = timedelta(minutes=15)
"""How far clocks of gateways on one store may differ: what the other wrote stands that far behind the newest."""
PAGE = 200
CLAIM_S = 60.0
"""Time to write a row before another gateway may [s]."""
KEPT_S = 30 * 86_400.0
"""How long it is known that an approval or an event has its row [s]."""
WRITTEN = "written"
RESERVED = SEALS | {"at", "gateway"}
NO_FILE = "none"
ENDINGS = ("toml", "yaml", "yml")
TRUSTED, LOCK = "trusted.json", "pml.lock"
"""Which projects' files count, and what people took of servers' tools."""


class ChangeWatch:
    """Looks now and then, and makes rows of what has changed."""

    def __init__(self, services: Services, settings: Settings, recorder: Recorder) -> None:
        self._services, self._recorder = services, recorder
        candidates = [home() / f"config.{ending}" for ending in ENDINGS]
        candidates += [Path.cwd() / f"pml.{ending}" for ending in ENDINGS]
        candidates += [home() / TRUSTED, home() / LOCK, Path.cwd() / LOCK]
        candidates += [Path(path).expanduser() for path in settings.config_files]
        self._files = list(dict.fromkeys(path.absolute() for path in candidates))
        self._digests: dict[Path, str] = {}
        self._servers: frozenset[str] | None = None
        self._noted: dict[str, frozenset[str]] = {}
        self._from: dict[str, datetime] = {}
        self._host = socket.gethostname()

    async def look(self) -> None:
        """At everything, once."""
        await self._look_at_files()
        self._look_at_servers()
        await self._look_at(APPROVALS, _answer)
        for collection in EVENTS:
            await self._look_at(collection, _event)

    async def _look_at_files(self) -> None:
        digests = await asyncio.to_thread(lambda: {path: _digest(path) for path in self._files})
        for path, digest in digests.items():
            if self._digests.get(path) == digest:
                continue
            key = f"file {self._host}:{path}"[-512:]
            found = await self._documents.get(NOTED, key)
            before = NO_FILE if found is None else found.value["sha256"]
            version = 0 if found is None else found.version
            if before != digest:
                kept = await self._documents.put(NOTED, key, {"sha256": digest}, if_version=version)
                if kept is not None:
                    kind = "config.seen" if found is None else "config.changed"
                    self._recorder.record(kind, file=str(path), before=before, after=digest)
            self._digests[path] = digest

    def _look_at_servers(self) -> None:
        now = frozenset(status.name for status in self._services.catalog.servers())
        before, self._servers = self._servers, now
        if before is not None and before != now:
            self._recorder.record("servers.changed", added=sorted(now - before), removed=sorted(before - now))

    async def _look_at(self, collection: str, read: Callable[[Document], PendingRow | None]) -> None:
        """Make rows of documents, the first changed first: where that fails, it goes on there the next time.

        All are read the first time, and then those that have changed since; what lies between them says nothing.
        """
        first = self._from.get(collection)
        known = self._noted.get(collection, frozenset())
        found: list[PendingRow] = []
        newest = first
        async for document in every_document(self._documents, collection, page=PAGE):
            if first is not None and document.changed_at < first:
                break
            newest = max(newest or document.changed_at, document.changed_at)
            if (noted := read(document)) is not None:
                found.append(noted)
        marks = [noted.mark for noted in reversed(found) if noted.mark not in known and await self._note(noted)]
        still = known & {noted.mark for noted in found}
        self._noted[collection] = still.union(marks)
        if newest is not None:
            self._from[collection] = min(newest, datetime.now(UTC)) - SKEW

    async def _note(self, noted: PendingRow) -> bool:
        """Write a row unless another gateway does; whether it is written.

        Of a gateway that began to and is gone, the row is written later.
        """
        found = await self._documents.get(NOTED, noted.mark)
        if found is not None:
            return bool(found.value.get(WRITTEN))
        claimed = await self._documents.put(NOTED, noted.mark, {}, expires_at=_in(CLAIM_S), if_version=0)
        if claimed is None:
            return False
        await asyncio.wrap_future(self._recorder.record(noted.kind, **noted.about))
        await self._documents.put(NOTED, noted.mark, {WRITTEN: True}, expires_at=_in(KEPT_S))
        return True

    @property
    def _documents(self) -> Any:
        return self._services.store.documents


class PendingRow(NamedTuple):
    """A row to write, and the mark by which it is written once only."""

    mark: str
    kind: str
    about: dict[str, Any]


def _answer(document: Document) -> PendingRow | None:
    """The row about an approval that has been answered; None while it waits."""
    value, marks = document.value, document.marks
    if "answered_at" not in value:
        return None
    about = {
        "approval": document.key,
        "state": marks.get("state"),
        "by": value.get("answered_by"),
        "reason": value.get("reason"),
        "answered_at": value["answered_at"],
        "principal": marks.get("principal"),
        "task": value.get("kind"),
        "target": value.get("target"),
        "execution": value.get("execution_id"),
    }
    return PendingRow(f"approval {document.key} {value['answered_at']}", "approval.answered", about)


def _event(document: Document) -> PendingRow | None:
    """The row about a change of a key or an agent."""
    about = dict(document.value)
    kind, about["happened_at"] = about.pop("kind", None), about.pop("at", None)
    if not isinstance(kind, str) or not kind.startswith(EVENT_KINDS):
        return None
    kept = {name: value for name, value in about.items() if name not in RESERVED}
    return PendingRow(f"event {document.key}", kind, kept)


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return NO_FILE
    except OSError as exc:
        return f"unreadable: {exc.strerror}"
