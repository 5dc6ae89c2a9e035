"""Executions in a database: what is the same in all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from .matching import in_scope
from .pending_overlay import PendingOverlay, listed
from .session import C

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

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

    from .pending_overlay import Statements
    from .readers import Readers
    from .writer import Writer

T = TypeVar("T")


class SqlExecutions(ABC, Generic[C]):
    """Implements :class:`pml_hookspecs.Executions`.

    Nobody who asks waits for the writer: what is recorded and not written yet is laid over what the database has.
    """

    statements: Statements[C]

    def __init__(self, writer: Writer[C], readers: Readers[C]) -> None:
        """Use the store's threads."""
        self._writer, self._readers = writer, readers
        self.record = writer.record

    @abstractmethod
    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete executions that have ended, oldest first; how many without a parent."""

    async def put(self, record: ExecutionRecord) -> None:
        """Insert or replace by id; durable when it returns.

        Raises:
            StoreError: The database cannot be written just now.
        """
        await self._writer.write(record)

    async def get(self, id: ExecutionId, scope: Scope, *, transcript: bool = False) -> ExecutionRecord | None:
        """None when it does not exist or is out of scope."""
        unwritten = self._writer.unwritten()
        if unwritten is None:
            await self._writer.catch_up()
        elif (record := unwritten.get(id)) is not None:
            if not in_scope(record, scope):
                return None
            return record if transcript else listed(record)
        return await self._readers.read(
            lambda c: self.statements.get(c, id, scope, transcript=transcript), alone=self.statements.one_statement
        )

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        """Newest first.

        Raises:
            ValueError: ``limit`` is out of range, the cursor is not one of this store's, or a time has no zone.
        """
        self.statements.check_query(query)
        overlay = await self._overlay(query)
        return await self._read(query, overlay.find)

    async def activity(self, query: ExecutionQuery) -> Sequence[AgentActivity]:
        """One row per agent; simulated executions count as succeeded, whatever else has ended as failed."""
        overlay = await self._overlay(query)
        return await self._read(query, overlay.activity)

    async def totals(self, query: ExecutionQuery, by: Grouping) -> Sequence[Total]:
        """One row per group, counted as :meth:`activity` does."""
        overlay = await self._overlay(query)
        return await self._read(query, lambda connection: overlay.totals(connection, by))

    async def _overlay(self, query: ExecutionQuery) -> PendingOverlay[C]:
        """The question; what is unwritten was waited for if it is too much."""
        unwritten = self._writer.unwritten()
        if unwritten is None:
            await self._writer.catch_up()
        return PendingOverlay(query, unwritten or {}, self.statements)

    async def _read(self, query: ExecutionQuery, question: Callable[[C], T]) -> T:
        return await self._readers.read(question, alone=self.statements.one_statement and not query.text)
