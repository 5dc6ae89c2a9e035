"""Executions: the part of the store that keeps history."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from . import history, pruning, summaries, text
from .errors import StoreError
from .row_values import micros

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from pml_hookspecs import AgentActivity, ExecutionId, ExecutionQuery, ExecutionRecord, Page, Scope
    from pml_hookspecs.store import Grouping, Total
    from pml_stores.writer import Writer

    from .readers import Readers


class SqliteExecutions:
    """Implements :class:`pml_hookspecs.Executions`."""

    def __init__(self, writer: Writer[sqlite3.Connection], readers: Readers) -> None:
        """Use the store's threads."""
        self._writer, self._readers = writer, readers
        self.record = writer.record

    async def put(self, record: ExecutionRecord) -> None:
        """Insert or replace by id; durable when it returns.

        Raises:
            StoreError: The file cannot be written just now.
        """
        await self._writer.write(record)

    async def get(self, id: ExecutionId, scope: Scope, *, transcript: bool = False) -> ExecutionRecord | None:
        """None when it does not exist or is out of scope."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: history.get(c, id, scope, transcript=transcript))

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        """Newest first.

        Raises:
            ValueError: ``limit`` is out of range or the cursor is not one of this store's.
        """
        history.check_query(query)
        await self._catch_up(query)
        return await self._readers.read(lambda c: history.find(c, query))

    async def activity(self, query: ExecutionQuery) -> Sequence[AgentActivity]:
        """One row per agent; simulated executions count as succeeded, whatever else has ended as failed."""
        await self._catch_up(query)
        return await self._readers.read(lambda c: summaries.activity(c, query))

    async def totals(self, query: ExecutionQuery, by: Grouping) -> Sequence[Total]:
        """One row per group, counted as :meth:`activity` does."""
        await self._catch_up(query)
        return await self._readers.read(lambda c: summaries.totals(c, query, by))

    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete what has ended, oldest first, a few hundred rows to a transaction.

        What takes part in ``keep_bytes`` is every page of the file that is in use.

        Raises:
            StoreError: The file cannot be written just now.
            ValueError: ``before`` has no time zone, or ``keep_bytes`` is less than 0.
        """
        if before is not None and before.tzinfo is None:
            raise ValueError("`before` has no time zone; give a UTC time")
        if keep_bytes is not None and keep_bytes < 0:
            raise ValueError(f"`keep_bytes` must be 0 or more, not {keep_bytes}")
        gone = 0
        if before is not None:
            gone += await self._prune(pruning.Pruning(before=micros(before)))
        if keep_bytes is not None:
            gone += await self._prune(pruning.Pruning(keep_bytes=keep_bytes))
        return gone

    async def _catch_up(self, query: ExecutionQuery) -> None:
        """Wait until what was recorded can be read, and found by text if that is asked for."""
        await self._writer.catch_up()
        if not query.text:
            return
        if await self._readers.read(text.is_waiting):
            # A file that cannot be written is searched as it is.
            with contextlib.suppress(StoreError):
                await self._writer.write(apply=text.make_searchable)

    async def _prune(self, pruned: pruning.Pruning) -> int:
        while not pruned.done:
            await self._writer.write(apply=partial(pruning.Pruning.step, pruned))
        return pruned.gone
