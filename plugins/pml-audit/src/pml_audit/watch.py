"""What no call tells of: configuration files, servers, keys, and approvals that were answered elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .rows import SEALS, START, Tip
from .settings import home

if TYPE_CHECKING:
    from pml_hookspecs import Document, Services

    from .recorder import Recorder
    from .settings import Settings

NOTED = "audit.noted"
"""What has its row: of several gateways on one store, one writes it."""
APPROVALS, EVENTS = "approvals.requests", "access.events"
EVENT_KINDS = ("key.", "agent.")
"""How kinds of events begin that make a row."""
PAGE = 200
CLAIM_S = 60.0
"""Time to write a row before another gateway may [s]."""
KEPT_S = 30 * 86_400.0
"""How long it is known that an approval or an event has its row [s]."""
WRITTEN = "written"
RESERVED = SEALS | {"at", "gateway"}
NO_FILE = "none"
ENDINGS = ("toml", "yaml", "yml")


class Watch:
    """Looks now and then, and makes rows of what has changed."""

    def __init__(self, services: Services, settings: Settings, recorder: Recorder) -> None:
        self._services, self._recorder = services, recorder
        candidates = [home() / f"config.{ending}" for ending in ENDINGS]
        candidates += [Path.cwd() / f"pml.{ending}" for ending in ENDINGS]
        candidates += [Path(path).expanduser() for path in settings.config_files]
        self._files = list(dict.fromkeys(path.absolute() for path in candidates))
        self._digests: dict[Path, str] = {}
        self._servers: frozenset[str] | None = None
        self._noted: set[str] = set()
        self._host = socket.gethostname()

    async def look(self) -> None:
        """At everything, once."""
        await self._look_at_files()
        self._look_at_servers()
        await self._look_at(APPROVALS, _answer)
        await self._look_at(EVENTS, _event)

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

    async def _look_at(self, collection: str, read: Callable[[Document], Noted | None]) -> None:
        """Make rows of documents, the first changed first: where that fails, it goes on there the next time."""
        new: list[Noted] = []
        cursor: str | None = None
        while True:
            page = await self._documents.find(collection, limit=PAGE, cursor=cursor)
            read_now = [noted for noted in map(read, page.items) if noted is not None and noted.mark not in self._noted]
            new += read_now
            cursor = page.cursor
            # The last changed come first: where nothing is new, nothing behind it is.
            if cursor is None or not read_now:
                break
        for noted in reversed(new):
            await self._note(noted)

    async def _note(self, noted: Noted) -> None:
        """Write a row unless another gateway does; of one that began to and is gone, the row is written later."""
        found = await self._documents.get(NOTED, noted.mark)
        if found is not None:
            if found.value.get(WRITTEN):
                self._noted.add(noted.mark)
            return
        claimed = await self._documents.put(NOTED, noted.mark, {}, expires_at=_in(CLAIM_S), if_version=0)
        if claimed is None:
            return
        await asyncio.wrap_future(self._recorder.record(noted.kind, **noted.about))
        self._noted.add(noted.mark)
        await self._documents.put(NOTED, noted.mark, {WRITTEN: True}, expires_at=_in(KEPT_S))

    @property
    def _documents(self) -> Any:
        return self._services.store.documents


class Noted(NamedTuple):
    """A row to be, once."""

    mark: str
    kind: str
    about: dict[str, Any]


def _answer(document: Document) -> Noted | None:
    """Of an approval, when it has been answered."""
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
    return Noted(f"approval {document.key} {value['answered_at']}", "approval.answered", about)


def _event(document: Document) -> Noted | None:
    """Of something that happened to a key or an agent."""
    about = dict(document.value)
    kind, about["happened_at"] = about.pop("kind", None), about.pop("at", None)
    if not isinstance(kind, str) or not kind.startswith(EVENT_KINDS):
        return None
    kept = {name: value for name, value in about.items() if name not in RESERVED}
    return Noted(f"event {document.key}", kind, kept)


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return NO_FILE
    except OSError as exc:
        return f"unreadable: {exc.strerror}"


class KeptHead:
    """How far the rows go, kept in the store: away from the files."""

    def __init__(self, services: Services, folder: Path) -> None:
        self._services = services
        self._name = f"head {socket.gethostname()}:{os.path.realpath(folder)}"
        self._kept = START

    @property
    def where(self) -> str:
        """For people."""
        return "the store"

    async def read(self) -> Tip:
        """``START`` when nothing is kept."""
        text = await self._services.store.secrets.get("audit", self._name)
        told: Mapping[str, Any] = json.loads(text) if text else {}
        return Tip(int(told["n"]), str(told["hash"])) if told else START

    async def keep(self, tip: Tip) -> None:
        """Keep ``tip`` unless a later one is kept."""
        if tip.n <= self._kept.n:
            return
        if (await self.read()).n < tip.n:
            text = json.dumps(tip._asdict())
            await self._services.store.secrets.put("audit", self._name, text)
        self._kept = tip
