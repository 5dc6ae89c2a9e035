"""Deletes what is old, by itself, while the gateway runs."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from .errors import StoreError

if TYPE_CHECKING:
    from pml_hookspecs import Executions

FIRST_S, BETWEEN_S = 30.0, 600.0
"""From the start until something is deleted for the first time, and from then on. A gateway that runs shorter than the
first deletes nothing: the next one does. Several gateways with one database each do it, one after the other."""


EVENTS = "history.events"
"""Where it stands for an audit what was deleted."""
KEPT = timedelta(days=30)
"""How long an event stands there."""


class ExpiringDocuments(Protocol):
    """Documents of which those that have expired can be deleted."""

    async def put(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        *,
        marks: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
        if_version: int | None = None,
    ) -> int | None:
        """See :meth:`pml_hookspecs.Documents.put`."""
        ...

    async def sweep(self) -> None:
        """Delete what has expired."""
        ...


class Housekeeping:
    """A task of the store: now and then deletes executions by age and size, and documents that have expired."""

    def __init__(
        self,
        executions: Executions,
        documents: ExpiringDocuments,
        log: Any,
        *,
        driver: str,
        keep_days: int,
        keep_bytes: int,
    ) -> None:
        """Starts nothing.

        Args:
            executions: Of which the old ones are deleted.
            documents: Of which the expired ones are deleted.
            log: Where it is told.
            driver: Whose task it is.
            keep_days: Executions that started longer ago go [days]; 0: none.
            keep_bytes: The oldest go until what is stored is no larger [bytes]; 0: none.
        """
        self._executions, self._documents, self._log, self._driver = executions, documents, log, driver
        self._keep_days, self._keep_bytes = keep_days, keep_bytes
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
            StoreError: The database cannot be written just now.
        """
        before = datetime.now(UTC) - timedelta(days=self._keep_days) if self._keep_days else None
        gone = await self._executions.prune(before=before, keep_bytes=self._keep_bytes or None)
        await self._documents.sweep()
        if gone:
            await self._note(gone)
            self._log.info(
                "store deleted old executions", executions=gone, keep_days=self._keep_days, keep_bytes=self._keep_bytes
            )
        return gone

    async def _note(self, gone: int) -> None:
        now = datetime.now(UTC)
        about = {"executions": gone, "keep_days": self._keep_days, "keep_bytes": self._keep_bytes, "by": self._driver}
        event = {"kind": "history.pruned", "at": now.isoformat(), "target": "executions", **about}
        key = f"{now.isoformat()} {secrets.token_hex(4)}"
        await self._documents.put(EVENTS, key, event, expires_at=now + KEPT)
