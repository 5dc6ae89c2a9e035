"""The store and its parts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from .errors import StoreError
from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pml_hookspecs import Json, Services

HEALTH_S = 1.0
"""How long a self-check waits for the database."""
SIZE_S = 10.0
"""How long a size that was asked for is good: measuring takes the server some milliseconds."""


class _Silence:
    """A log for a store that was given none."""

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda *_args, **_fields: None


class PostgresStore:
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
        from .database import Database
        from .documents import PostgresDocuments
        from .housekeeping import Housekeeping
        from .parts import PostgresCatalog, PostgresExecutions, PostgresTraces
        from .readers import Readers
        from .secret_rows import PostgresSecrets
        from .writer import Writer

        settings = settings or Settings()
        log: Any = _Silence() if services is None else services.log
        self._database = Database(settings)
        self._writer = Writer(self._database, settings, log)
        self._readers = Readers(self._database)
        self._size, self._measured_until = 0, 0.0
        self.executions = PostgresExecutions(self._writer, self._readers)
        self.traces = PostgresTraces(self._writer, self._readers)
        self.catalog = PostgresCatalog(self._writer, self._readers)
        self.secrets = PostgresSecrets(self._writer, self._readers)
        self.documents = PostgresDocuments(self._writer, self._readers)
        self._housekeeping = Housekeeping(self.executions, self.documents, settings, log)

    async def __aenter__(self) -> Self:
        await self._writer.start()
        self._readers.start()
        self._housekeeping.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        # Each of them, also when this is cancelled.
        try:
            await self._housekeeping.stop()
        finally:
            try:
                await self._readers.stop()
            finally:
                await self._writer.stop()

    async def health(self) -> Mapping[str, Json]:
        """Server, database and schema, its version, size [bytes], rows waiting, dropped and unwritable, and trouble."""
        from .migrations import MIGRATIONS

        return {
            "database": self._database.place,
            "schema_version": len(MIGRATIONS),
            "size_bytes": await self._size_bytes(),
            "queued": self._writer.queued,
            "drops": self._writer.drops,
            "unwritable": self._writer.unwritable,
            "trouble": self._writer.trouble,
        }

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
