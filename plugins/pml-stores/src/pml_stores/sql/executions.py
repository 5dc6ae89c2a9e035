"""Executions in a database: what is the same in all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pml_hookspecs import replace
from pml_stores import sums
from pml_stores.matching import in_scope
from pml_stores.values import micros

from .database import C
from .pruning import Pruning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from pml_hookspecs import ExecutionId, ExecutionQuery, ExecutionRecord, Grouping, Page, Scope, Total

    from .execution_rows import ExecutionRows
    from .readers import Readers
    from .writer import Writer

T = TypeVar("T")


class SqlExecutions(Generic[C]):
    """Implements :class:`pml_hookspecs.Executions`.

    Who asks has the writer write at once what was recorded before, and waits for it. While the database cannot be
    written, lists and sums have what is written, and :meth:`get` has what waits in memory as well.
    """

    def __init__(self, writer: Writer[C], readers: Readers[C], rows: ExecutionRows) -> None:
        """Use the store's threads and these statements."""
        self._writer, self._readers, self._rows = writer, readers, rows
        self.record = writer.record

    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete executions that have ended, oldest first; how many without a parent.

        Also those inside of executions that are not there any more, if they started before ``before``. In small steps,
        between which others write: what is deleted is gone when one raises StoreError.
        """
        if before is not None and before.tzinfo is None:
            raise ValueError("`before` has no time zone; give a UTC time")
        if keep_bytes is not None and keep_bytes < 0:
            raise ValueError(f"`keep_bytes` must be 0 or more, not {keep_bytes}")
        gone = 0
        by_age = [] if before is None else [Pruning(self._rows, before=micros(before))]
        by_size = [] if keep_bytes is None else [Pruning(self._rows, keep_bytes=keep_bytes)]
        for pruning in by_age + by_size:
            done = False
            while not done:
                deleted, done = await self._writer.write(apply=pruning.step)
                gone += deleted
        return gone

    async def put(self, record: ExecutionRecord) -> None:
        """Insert or replace by id; durable when it returns. StoreError while the database cannot be written."""
        await self._writer.write(record)

    async def get(self, id: ExecutionId, scope: Scope, *, transcript: bool = False) -> ExecutionRecord | None:
        """None when it does not exist or is out of scope."""
        await self._writer.catch_up()
        if self._writer.trouble and (record := self._writer.waiting(id)) is not None:
            if not in_scope(record, scope):
                return None
            return record if transcript else replace(record, transcript=None)
        return await self._readers.read(lambda c: self._rows.get(c, id, scope, transcript=transcript))

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        """Newest first. ValueError for a wrong limit, a cursor of another store or a time without a zone."""
        self._rows.builder.check_query(query)
        return await self._read(lambda c: self._rows.find(c, query))

    async def activity(self, query: ExecutionQuery) -> Sequence[Total]:
        """One row per agent; simulated executions count as succeeded, whatever else has ended as failed."""
        return sums.activity(await self._read(lambda c: self._rows.activity(c, query)))

    async def totals(self, query: ExecutionQuery, by: Grouping) -> Sequence[Total]:
        """One row per group, counted as :meth:`activity` does."""
        return sums.totals(await self._read(lambda c: self._rows.totals(c, query, by)), by)

    async def _read(self, question: Callable[[C], T]) -> T:
        await self._writer.catch_up()
        return await self._readers.read(question)
