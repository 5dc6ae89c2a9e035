"""From the event loop to the files: rows that come together are written together, by one thread."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .rows import canonical
from .settings import folder_of
from .trail import LONGEST_ROW_BYTES, Trail, note

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .settings import Settings

MOST_HELD = 100_000
"""Rows held while the files cannot be written; more are dropped, and counted."""
SILENCE_S = 60.0
"""An outage that lasts is heard once in this time [s]."""
LONGEST_TEXT = 2000
"""Characters of one text in a row."""
LOUD = frozenset({"audit.mended", "audit.broken", "audit.head_lost"})


class Batch:
    """Rows that are written together."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.drops = 0
        """Rows for which it had no room."""
        self.written: Future[bool] = Future()
        """Whether; False when they are held for later."""


class Recorder:
    """Takes rows on the event loop. Never blocks and never raises there."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings
        self.folder = folder_of(settings)
        self.trail = Trail(self.folder, file_bytes=settings.file_bytes, sync=settings.fsync == "always")
        self.gateway = f"{socket.gethostname()}:{os.getpid()}"
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._batch: Batch | None = None
        self._held: list[dict[str, Any]] = []
        self._heard_at: float | None = None
        self._unsynced = False
        self.drops = 0
        """Rows dropped for lack of room, since the last that were written. For the thread alone."""

    def record(self, kind: str, **about: Any) -> Future[bool]:
        """Add a row, secrets taken out; done when it is in the file, or held for later."""
        row = {"kind": kind, "at": datetime.now(UTC).isoformat(), "gateway": self.gateway, **about}
        row = {name: value for name, value in row.items() if value not in (None, "")}
        return self._add(self._fit(self._without_secrets(row)))

    async def wait(self, written: Future[bool]) -> None:
        """Until it is in the file, but not longer than configured."""
        if self._settings.wait_s and not written.done():
            await asyncio.wait({asyncio.wrap_future(written)}, timeout=self._settings.wait_s)

    def sync(self) -> Future[bool]:
        """Write what is held, and wait for the disk if that is due."""
        return self._add(None)

    async def close(self) -> None:
        """Write what there is, and end the thread."""
        await asyncio.wrap_future(self.sync())
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)
        if self._held:
            self._services.log.error("the audit could not be written to the end; rows are lost", rows=len(self._held))

    def _without_secrets(self, row: dict[str, Any]) -> Any:
        try:
            return self._services.redact(row)
        except (TypeError, ValueError):  # somebody's arguments are not JSON
            return self._services.redact({name: value for name, value in row.items() if isinstance(value, str)})

    def _fit(self, row: Any) -> dict[str, Any]:
        """``row`` with texts that are not too long, and without what makes it too long."""
        fitted: dict[str, Any] = _shortened(row)
        if len(canonical(fitted)) > LONGEST_ROW_BYTES // 2:
            return {name: value for name, value in fitted.items() if isinstance(value, str)}
        return fitted

    def _add(self, row: dict[str, Any] | None) -> Future[bool]:
        with self._lock:
            batch = self._batch
            if batch is None:
                batch = self._batch = Batch()
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(1, thread_name_prefix="pml-audit")
                self._pool.submit(self._write, batch)
            if row is not None:
                if len(batch.rows) < MOST_HELD:
                    batch.rows.append(row)
                else:
                    batch.drops += 1
            return batch.written

    # In the thread

    def _write(self, batch: Batch) -> None:
        with self._lock:
            self._batch = None
        room = MOST_HELD - len(self._held)
        self._held += batch.rows[:room]
        self.drops += batch.drops + len(batch.rows[room:])
        try:
            written = self._written()
        except BaseException as exc:
            batch.written.set_exception(exc)
            raise
        batch.written.set_result(written)

    def _written(self) -> bool:
        if not self._held and not self.drops:
            self._sync_if_due()
            return True
        dropped = [note("audit.dropped", count=self.drops, gateway=self.gateway)] if self.drops else []
        try:
            notes = self.trail.append([*dropped, *self._held])
        except Exception as exc:
            self._heard(exc)
            return False
        self._held, self.drops = [], self.drops - (dropped[0]["count"] if dropped else 0)
        if self.trail.head_problem is not None:
            self._heard(self.trail.head_problem, "how far the audit goes cannot be written beside it; its rows are")
        elif self._heard_at is not None:
            self._heard_at = None
            self._services.log.info("the audit can be written again", dropped=bool(dropped))
        for one in notes:
            if one["kind"] in LOUD:
                self._services.log.error("the audit was not as it was left", **_for_log(one))
        self._unsynced = self._settings.fsync == "interval"
        return True

    def _sync_if_due(self) -> None:
        if not self._unsynced:
            return
        self._unsynced = False
        try:
            fd = self.trail.files.open()
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as exc:
            self._heard(exc)

    def _heard(self, exc: Exception, what: str = "the audit cannot be written; its rows are held") -> None:
        now_s = time.monotonic()
        if self._heard_at is None or now_s - self._heard_at >= SILENCE_S:
            self._heard_at = now_s
            self._services.log.error(what, held=len(self._held), problem=repr(exc))


def _for_log(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != "at"}


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        return {_shortened(str(name)): _shortened(member) for name, member in value.items()}
    return [_shortened(member) for member in value] if isinstance(value, (list, tuple)) else value
