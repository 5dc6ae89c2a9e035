"""Deletes what is old, by itself, while the gateway runs."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_stores.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Executions

    from .parts import SqlDocuments

FIRST_S, BETWEEN_S = 30.0, 600.0
"""From the start until something is deleted for the first time, and from then on. A gateway that runs shorter than the
first deletes nothing: the next one does. Several gateways with one database each do it, one after the other."""
EVENTS = "history.events"
"""Where it stands for an audit what was deleted."""
KEPT = timedelta(days=30)
"""How long an event stands there."""


class Housekeeping:
    """A task of the store: now and then deletes executions by age and size, and documents that have expired."""

    def __init__(
        self, executions: Executions, documents: SqlDocuments[Any], log: Any, driver: str, bounds: Mapping[str, int]
    ) -> None:
        """Starts nothing. Of the ``driver``; ``bounds`` are its ``keep_days`` and ``keep_bytes``, 0 for none."""
        self._executions, self._documents, self._log, self._driver = executions, documents, log, driver
        self._bounds = bounds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        name = f"pml-store-{self._driver}-housekeeping"
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    async def stop(self) -> None:
        """End; what is being deleted is deleted or stays, never half of it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            await self._keep_house()
            await asyncio.sleep(BETWEEN_S)

    async def _keep_house(self) -> None:
        try:
            # What is wrong with the database, the writer has said.
            with contextlib.suppress(StoreError):
                await self.tidy()
        except Exception as exc:
            # A log that cannot be written must not end this.
            with contextlib.suppress(Exception):
                self._log.error("store could not delete what is old", error=repr(exc))

    async def tidy(self) -> int:
        """Delete what is old; how many executions without a parent. StoreError while nothing can be written."""
        days, keep_bytes = self._bounds["keep_days"], self._bounds["keep_bytes"]
        before = datetime.now(UTC) - timedelta(days=days) if days else None
        gone = await self._executions.prune(before=before, keep_bytes=keep_bytes or None)
        await self._documents.sweep()
        if gone:
            await self._note(gone)
            self._log.info("store deleted old executions", executions=gone, **self._bounds)
        return gone

    async def _note(self, gone: int) -> None:
        now = datetime.now(UTC)
        about = {"executions": gone, **self._bounds, "by": self._driver}
        event = {"kind": "history.pruned", "at": now.isoformat(), "target": "executions", **about}
        key = f"{now.isoformat()} {secrets.token_hex(4)}"
        await self._documents.put(EVENTS, key, event, expires_at=now + KEPT)
