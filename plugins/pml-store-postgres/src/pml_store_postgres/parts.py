"""The parts of the store: executions, traces and the catalog."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from . import queries, sums
from .conditions import check_query
from .pruning import Pruning
from .rows import micros, span_row, tool_rows, write_spans, write_status, write_tools

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from psycopg import Connection

    from pml_hookspecs import (
        AgentActivity,
        CatalogEntry,
        Ended,
        ExecutionId,
        ExecutionQuery,
        ExecutionRecord,
        Grouping,
        Page,
        Scope,
        ServerStatus,
        Total,
    )

    from .readers import Readers
    from .writer import Writer


class PostgresExecutions:
    """Implements :class:`pml_hookspecs.Executions`."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
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


class PostgresTraces:
    """Implements :class:`pml_hookspecs.Traces`."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer, self._readers = writer, readers

    async def append(self, spans: Sequence[Ended]) -> None:
        """Add finished spans; those known already stay as they are."""
        await self._writer.write(apply=lambda connection: write_spans(connection, [span_row(s) for s in spans]))

    async def of(self, execution: ExecutionId, scope: Scope) -> Sequence[Ended]:
        """Spans of one execution in start order."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: queries.spans(c, execution, scope))


class PostgresCatalog:
    """Implements :class:`pml_hookspecs.CatalogCache`."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer, self._readers = writer, readers

    async def replace(self, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has, in one transaction."""
        rows = tool_rows(server, fingerprint, entries)
        await self._writer.write(apply=partial(write_tools, server=server, rows=rows))

    async def entries(self, server: str, fingerprint: str) -> Sequence[CatalogEntry]:
        """By tool name; empty when nothing is known under this fingerprint."""
        return await self._readers.read(lambda c: queries.tools(c, server, fingerprint))

    async def report(self, status: ServerStatus) -> None:
        """Remember how a server is doing."""
        await self._writer.write(apply=partial(write_status, status=status))

    async def statuses(self) -> Sequence[ServerStatus]:
        """The last report of each server, by name."""
        return await self._readers.read(queries.statuses)
