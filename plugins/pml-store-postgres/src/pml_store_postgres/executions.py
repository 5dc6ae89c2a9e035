"""Executions: the part of the store that keeps history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import queries, sums
from .conditions import check_query
from .pruning import Pruning
from .rows import micros

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from psycopg import Connection

    from pml_hookspecs import (
        AgentActivity,
        ExecutionId,
        ExecutionQuery,
        ExecutionRecord,
        Grouping,
        Page,
        Scope,
        Total,
    )
    from pml_stores.writer import Writer

    from .readers import Readers


class PostgresExecutions:
    """Implements :class:`pml_hookspecs.Executions`."""

    def __init__(self, writer: Writer[Connection[Any]], readers: Readers) -> None:
        self._writer, self._readers = writer, readers
        self.record = writer.record

    async def put(self, record: ExecutionRecord) -> None:
        """Insert or replace by id; durable when it returns.

        Raises:
            StoreError: The database cannot be written just now.
        """
        await self._writer.write(record)

    async def get(self, id: ExecutionId, scope: Scope, *, transcript: bool = False) -> ExecutionRecord | None:
        """None when it does not exist or is out of scope."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: queries.get(c, id, scope, transcript=transcript))

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        """Newest first.

        Raises:
            ValueError: ``limit`` is out of range, the cursor is not one of this store's, or a time has no zone.
        """
        check_query(query)
        await self._writer.catch_up()
        return await self._readers.read(lambda c: queries.find(c, query))

    async def activity(self, query: ExecutionQuery) -> Sequence[AgentActivity]:
        """One row per agent; simulated executions count as succeeded, whatever else has ended as failed."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: sums.activity(c, query))

    async def totals(self, query: ExecutionQuery, by: Grouping) -> Sequence[Total]:
        """One row per group; counted as in :meth:`activity`."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: sums.totals(c, query, by))

    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete executions that have ended, oldest first; how many without a parent.

        Also those inside of executions that are not there any more, if they started before ``before``. In small steps,
        between which others write.

        Raises:
            StoreError: The database cannot be written just now; what is deleted by then is gone.
            ValueError: ``before`` has no time zone.
        """
        if before is not None and before.tzinfo is None:
            raise ValueError("`before` has no time zone; give a UTC time")
        pruning = Pruning(None if before is None else micros(before), keep_bytes)
        more = before is not None or keep_bytes is not None

        def step(connection: Connection[Any]) -> None:
            nonlocal more
            more = pruning.step(connection)

        while more:
            await self._writer.write(apply=step)
        return pruning.gone
