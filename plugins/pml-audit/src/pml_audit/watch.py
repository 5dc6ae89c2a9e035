"""What no call tells of: configuration files, servers, and approvals that were answered elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .rows import START, Tip
from .settings import home

if TYPE_CHECKING:
    from pml_hookspecs import Document, Services

    from .recorder import Recorder
    from .settings import Settings

NOTED = "audit.noted"
"""What has its row: of several gateways on one store, one writes it."""
APPROVALS = "approvals.requests"
PAGE = 200
CLAIM_S = 60.0
"""Time to write a row before another gateway may [s]."""
KEPT_S = 30 * 86_400.0
"""How long it is known that an approval has its row [s]."""
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
        self._answered: set[str] = set()
        self._host = socket.gethostname()

    async def look(self) -> None:
        """At everything, once."""
        await self._look_at_files()
        self._look_at_servers()
        await self._look_at_approvals()

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

    async def _look_at_approvals(self) -> None:
        cursor: str | None = None
        while True:
            page = await self._documents.find(APPROVALS, limit=PAGE, cursor=cursor)
            new = [d for d in page.items if "answered_at" in d.value and _mark(d) not in self._answered]
            for document in new:
                await self._note_answer(document)
            cursor = page.cursor
            # The last changed come first: where nothing is new, nothing behind it is.
            if cursor is None or not new:
                return

    async def _note_answer(self, document: Document) -> None:
        mark, value = _mark(document), document.value
        claimed = await self._documents.put(NOTED, mark, {}, expires_at=_in(CLAIM_S), if_version=0)
        self._answered.add(mark)
        if claimed is None:
            return
        written = self._recorder.record(
            "approval.answered",
            approval=document.key,
            state=document.marks.get("state"),
            by=value.get("answered_by"),
            reason=value.get("reason"),
            answered_at=value.get("answered_at"),
            principal=document.marks.get("principal"),
            task=value.get("kind"),
            target=value.get("target"),
            execution=value.get("execution_id"),
        )
        await asyncio.wrap_future(written)
        await self._documents.put(NOTED, mark, {}, expires_at=_in(KEPT_S))

    @property
    def _documents(self) -> Any:
        return self._services.store.documents


def _mark(document: Document) -> str:
    return f"approval {document.key} {document.value['answered_at']}"


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
