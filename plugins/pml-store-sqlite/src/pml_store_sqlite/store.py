"""The store and its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pml_stores.database_store import DatabaseStore, log_of

from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Json, Services


class SqliteStore(DatabaseStore):
    """Implements :class:`pml_hookspecs.Store` in one SQLite file, which several gateways may share.

    One thread writes, many operations to a transaction; a few threads read. Statements do not run on the event loop.
    While the file cannot be written (disk full, locked), calls go on: what is recorded waits in memory up to
    ``queue_rows``, what is put is refused with :class:`~pml_store_sqlite.StoreError`, and reads see what is in the
    file, and what waits unless that is more than a thousand executions. Entering raises
    :class:`~pml_store_sqlite.StoreError` when the file cannot be used at all.
    """

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Touches no file. Without ``services`` nothing is logged."""
        # Imported here: `pml plugins list` loads the class and needs neither asyncio nor sqlite3.
        from pml_stores.housekeeping import Housekeeping
        from pml_stores.sql_parts import SqlCatalog, SqlSecrets, SqlTraces
        from pml_stores.writer import Writer
        from pml_stores.writer_backoff import WriterBackoff

        from . import queries, rows, secret_rows
        from .database import Database
        from .documents import SqliteDocuments
        from .executions import SqliteExecutions
        from .readers import Readers
        from .session import ASKED_REST_S, FileSession

        settings, log = settings or Settings(), log_of(services)
        self._database = Database(settings, log)
        writer_backoff = WriterBackoff()
        self._writer = writer = Writer(
            FileSession(self._database, writer_backoff),
            log,
            queue_rows=settings.queue_rows,
            flush_interval_s=settings.flush_interval_ms / 1000,
            asked_rest_s=ASKED_REST_S,
        )
        self._readers = readers = Readers(self._database, writer_backoff)
        self.executions = SqliteExecutions(writer, readers)
        self.traces = SqlTraces(writer, readers, write=rows.write_spans, spans=queries.spans)
        self.catalog = SqlCatalog(
            writer,
            readers,
            write_tools=rows.write_tools,
            tools=queries.tools,
            write_status=rows.write_status,
            statuses=queries.statuses,
        )
        self.secrets = SqlSecrets(writer, readers, write=secret_rows.write, read=secret_rows.read)
        self.documents = SqliteDocuments(writer, readers)
        self._housekeeping = Housekeeping(
            self.executions,
            self.documents,
            log,
            driver="sqlite",
            keep_days=settings.keep_days,
            keep_bytes=settings.keep_bytes,
        )

    async def health(self) -> Mapping[str, Json]:
        """Path, schema version, size [bytes], rows waiting, dropped and unwritable since the start, current trouble."""
        from .migrations import MIGRATIONS

        place: Mapping[str, Json] = {"path": self._database.path, "schema_version": len(MIGRATIONS)}
        return {**place, "size_bytes": self._database.size_bytes(), **self._told()}
