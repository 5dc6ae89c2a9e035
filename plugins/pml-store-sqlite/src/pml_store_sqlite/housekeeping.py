"""Deletes what is old, by itself, while the gateway runs."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .errors import StoreError

if TYPE_CHECKING:
    from .documents import SqliteDocuments
    from .executions import SqliteExecutions
    from .settings import Settings

FIRST_S, BETWEEN_S = 30.0, 600.0
"""From the start until something is deleted for the first time, and from then on. A gateway that runs shorter than the
first deletes nothing: the next one does."""


class Housekeeping:
    """A task of the store: now and then deletes executions by age and size, and documents that have expired."""

    def __init__(self, executions: SqliteExecutions, documents: SqliteDocuments, settings: Settings, log: Any) -> None:
        """Starts nothing."""
        self._executions, self._documents, self._log = executions, documents, log
        self._keep_days, self._keep_bytes = settings.keep_days, settings.keep_bytes
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="pml-store-sqlite-housekeeping")

    async def stop(self) -> None:
        """End; what is being deleted is deleted or stays, never half of it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            with contextlib.suppress(Exception):
                # A log that cannot be written must not end this.
                await self._keep_house()
            await asyncio.sleep(BETWEEN_S)

    async def _keep_house(self) -> None:
        try:
            await self.tidy()
        except StoreError:
            # The writer has said so.
            return
        except Exception as exc:
            self._log.error("store could not delete what is old", error=repr(exc))

    async def tidy(self) -> int:
        """Delete what is old; how many executions without a parent.

        Raises:
            StoreError: The file cannot be written just now.
        """
        before = datetime.now(UTC) - timedelta(days=self._keep_days) if self._keep_days else None
        gone = await self._executions.prune(before=before, keep_bytes=self._keep_bytes or None)
        await self._documents.sweep()
        if gone:
            self._log.info(
                "store deleted old executions", executions=gone, keep_days=self._keep_days, keep_bytes=self._keep_bytes
            )
        return gone
