"""The store and its parts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pml_stores.database_store import DatabaseStore, log_of

from .errors import StoreError
from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg import Connection

    from pml_hookspecs import CatalogEntry, Ended, Json, Services

HEALTH_S = 1.0
"""How long a self-check waits for the database."""
SIZE_S = 10.0
"""How long a size that was asked for is good: measuring takes the server some milliseconds."""


class PostgresStore(DatabaseStore):
    """Implements :class:`pml_hookspecs.Store` in one schema of a PostgreSQL database, which several gateways may share.

    One thread writes, many operations to a transaction; a few threads read. Statements do not run on the event loop.
    While the database cannot be written (restarted, out of reach, disk full), calls go on: what is recorded waits in
    memory up to ``queue_rows``, what is put is refused with :class:`~pml_store_postgres.StoreError`. Entering raises
    :class:`~pml_store_postgres.StoreError` when the database cannot be used at all.
    """

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Connects to nothing. Without ``services`` nothing is logged."""
        # Imported here: `pml plugins list` loads the class and needs neither asyncio nor the statements.
        from pml_stores.housekeeping import Housekeeping
        from pml_stores.sql_parts import SqlCatalog, SqlSecrets, SqlTraces
        from pml_stores.writer import Writer
        from pml_stores.writer_backoff import WriterBackoff

        from . import queries, rows, secret_rows
        from .database import Database
        from .documents import PostgresDocuments
        from .executions import PostgresExecutions
        from .readers import Readers
        from .session import ASKED_REST_S, ServerSession

        settings, log = settings or Settings(), log_of(services)
        self._database = Database(settings)
        writer_backoff = WriterBackoff()
        self._writer = writer = Writer(
            ServerSession(self._database, writer_backoff),
            log,
            queue_rows=settings.queue_rows,
            flush_interval_s=settings.flush_interval_ms / 1000,
            asked_rest_s=ASKED_REST_S,
        )
        self._readers = readers = Readers(self._database, writer_backoff)
        self._size, self._measured_until = 0, 0.0
        self.executions = PostgresExecutions(writer, readers)
        self.traces = SqlTraces(writer, readers, write=_write_spans, spans=queries.spans)
        self.catalog = SqlCatalog(
            writer,
            readers,
            write_tools=_write_tools,
            tools=queries.tools,
            write_status=rows.write_status,
            statuses=queries.statuses,
        )
        self.secrets = SqlSecrets(writer, readers, write=secret_rows.write, read=secret_rows.read)
        self.documents = PostgresDocuments(writer, readers)
        self._housekeeping = Housekeeping(
            self.executions,
            self.documents,
            log,
            driver="postgres",
            keep_days=settings.keep_days,
            keep_bytes=settings.keep_bytes,
        )

    async def health(self) -> Mapping[str, Json]:
        """Server, database and schema, its version, size [bytes], rows waiting, dropped and unwritable, and trouble."""
        from .migrations import MIGRATIONS

        place: Mapping[str, Json] = {"database": self._database.place, "schema_version": len(MIGRATIONS)}
        return {**place, "size_bytes": await self._size_bytes(), **self._told()}

    async def _size_bytes(self) -> int | None:
        """None while the database is out of reach, or the store not entered."""
        import asyncio

        from .queries import size_bytes

        if self._writer.trouble:
            return None
        if time.monotonic() >= self._measured_until:
            try:
                async with asyncio.timeout(HEALTH_S):
                    self._size = await self._readers.read(size_bytes)
            except (StoreError, TimeoutError):
                return None
            self._measured_until = time.monotonic() + SIZE_S
        return self._size


def _write_spans(connection: Connection[Any], spans: Sequence[Ended]) -> None:
    from .rows import span_row, write_spans

    write_spans(connection, [span_row(ended) for ended in spans])


def _write_tools(connection: Connection[Any], server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
    from .rows import tool_rows, write_tools

    write_tools(connection, server, tool_rows(server, fingerprint, entries))
