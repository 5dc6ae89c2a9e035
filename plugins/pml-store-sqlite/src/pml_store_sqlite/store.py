"""The store and its parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

from . import queries
from .documents import SqliteDocuments
from .executions import SqliteExecutions
from .migrations import MIGRATIONS
from .rows import write_spans, write_status, write_tools
from .secret_rows import SqliteSecrets
from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pml_hookspecs import (
        CatalogEntry,
        Ended,
        ExecutionId,
        Json,
        Scope,
        ServerStatus,
        Services,
    )

    from .readers import Readers
    from .writer import Writer


class _Silence:
    """A log for a store that was given none."""

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda *_args, **_fields: None


class SqliteStore:
    """Implements :class:`pml_hookspecs.Store` in one SQLite file, which several gateways may share.

    One thread writes, many operations to a transaction; a few threads read. Statements do not run on the event loop.
    While the file cannot be written (disk full, locked), calls go on: what is recorded waits in memory up to
    ``queue_rows``, what is put is refused with :class:`~pml_store_sqlite.StoreError`, and reads see what is in the
    file. Entering raises :class:`~pml_store_sqlite.StoreError` when the file cannot be used at all.
    """

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Touches no file. Without ``services`` nothing is logged."""
        # Imported here: `pml plugins list` loads the class and needs neither asyncio nor sqlite3.
        from .database import Database
        from .housekeeping import Housekeeping
        from .readers import Readers
        from .writer import Writer

        settings = settings or Settings()
        log = _Silence() if services is None else services.log
        self._database = Database(settings, log)
        self._writer = Writer(self._database, settings, log)
        self._readers = Readers(self._database)
        self.executions = SqliteExecutions(self._writer, self._readers)
        self.traces = SqliteTraces(self._writer, self._readers)
        self.catalog = SqliteCatalog(self._writer, self._readers)
        self.secrets = SqliteSecrets(self._writer, self._readers)
        self.documents = SqliteDocuments(self._writer, self._readers)
        self._housekeeping = Housekeeping(self.executions, self.documents, settings, log)

    async def __aenter__(self) -> Self:
        await self._writer.start()
        self._readers.start()
        self._housekeeping.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        # Readers before the writer: the last connection to close folds the write-ahead log into the file.
        try:
            await self._housekeeping.stop()
        finally:
            try:
                await self._readers.stop()
            finally:
                await self._writer.stop()

    async def health(self) -> Mapping[str, Json]:
        """Path, schema version, size [bytes], rows waiting, dropped and unwritable since the start, current trouble."""
        return {
            "path": self._database.path,
            "schema_version": len(MIGRATIONS),
            "size_bytes": self._database.size_bytes(),
            "queued": self._writer.queued,
            "drops": self._writer.drops,
            "unwritable": self._writer.unwritable,
            "trouble": self._writer.trouble,
        }


class SqliteTraces:
    """Implements :class:`pml_hookspecs.Traces`."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer, self._readers = writer, readers

    async def append(self, spans: Sequence[Ended]) -> None:
        """Add finished spans; those known already stay as they are."""
        await self._writer.write(apply=partial(write_spans, spans=spans))

    async def of(self, execution: ExecutionId, scope: Scope) -> Sequence[Ended]:
        """Spans of one execution in start order."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: queries.spans(c, execution, scope))


class SqliteCatalog:
    """Implements :class:`pml_hookspecs.CatalogCache`."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer, self._readers = writer, readers

    async def replace(self, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has, in one transaction."""
        await self._writer.write(apply=partial(write_tools, server=server, fingerprint=fingerprint, entries=entries))

    async def entries(self, server: str, fingerprint: str) -> Sequence[CatalogEntry]:
        """By tool name; empty when nothing is known under this fingerprint."""
        return await self._readers.read(lambda c: queries.tools(c, server, fingerprint))

    async def report(self, status: ServerStatus) -> None:
        """Remember how a server is doing."""
        await self._writer.write(apply=partial(write_status, status=status))

    async def statuses(self) -> Sequence[ServerStatus]:
        """The last report of each server, by name."""
        return await self._readers.read(queries.statuses)
