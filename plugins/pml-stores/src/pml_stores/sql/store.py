"""The life of a store on a database. Importing this imports no asyncio: a plugin that is only looked at needs none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pml_hookspecs import setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pml_hookspecs import Json, Services

    from .database import Session
    from .executions import SqlExecutions
    from .housekeeping import Housekeeping
    from .readers import Readers
    from .writer import Writer


class NullLog:
    """A log that drops everything, for a store that has no services."""

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda *_args, **_fields: None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings of all stores on a database."""

    flush_interval_ms: int = setting(
        50,
        "Longest that what is recorded on the request path is collected in memory before it is written [ms].",
        ge=1,
        le=90,
    )
    queue_rows: int = setting(
        100_000,
        "Most executions and documents to hold in memory while the database cannot be written; more are dropped.",
        ge=1,
    )
    keep_days: int = setting(
        90,
        "Executions that started longer ago are deleted, with what ran inside and their transcripts [days]; 0: never. "
        "What has not ended stays.",
        ge=0,
        le=36_500,
        project="never",
    )
    keep_bytes: int = setting(
        10 * 1024**3,
        "The oldest executions are deleted until what is stored is no larger [bytes]; 0: as large as it gets.",
        ge=0,
        project="never",
    )


class DatabaseStore(ABC):
    """Implements :class:`pml_hookspecs.Store`; a database says how it is reached, and where and how large it is.

    One thread writes, many operations to a transaction; a few threads read. Statements do not run on the event loop.
    While the database cannot be written (out of reach, full, locked), calls go on: what is recorded waits in memory up
    to ``queue_rows``, and what is put is refused with the :class:`~pml_stores.errors.StoreError` of the store, which
    entering raises as well when the database cannot be used at all.
    """

    settings_type: ClassVar[Any] = StoreSettings
    executions: SqlExecutions[Any]
    _writer: Writer[Any]
    _readers: Readers[Any]
    _housekeeping: Housekeeping

    def __init__(self, settings: Any = None, services: Services | None = None) -> None:
        """Connects to nothing. Without ``services`` nothing is logged. What the parts are made of is imported here."""
        from .document_rows import DocumentRows
        from .executions import SqlExecutions
        from .housekeeping import Housekeeping
        from .parts import PartRows, SqlCatalog, SqlDocuments, SqlSecrets, SqlTraces
        from .readers import Readers
        from .writer import Writer

        settings, log = settings or self.settings_type(), NullLog() if services is None else services.log
        session = self._session(settings, log)
        builder = session.rows.builder
        parts, documents = PartRows(builder), DocumentRows(builder)
        interval_s = settings.flush_interval_ms / 1000
        self._writer = writer = Writer(session, log, queue_rows=settings.queue_rows, flush_interval_s=interval_s)
        self._readers = readers = Readers(session.database)
        self.executions = SqlExecutions(writer, readers, session.rows)
        self.traces = SqlTraces(writer, readers, parts)
        self.catalog = SqlCatalog(writer, readers, parts)
        self.secrets = SqlSecrets(writer, readers, parts)
        self.documents = SqlDocuments(writer, readers, documents)
        bounds = {"keep_days": settings.keep_days, "keep_bytes": settings.keep_bytes}
        self._housekeeping = Housekeeping(self.executions, self.documents, log, builder.driver, bounds)

    @abstractmethod
    def _session(self, settings: Any, log: Any) -> Session[Any]:
        """How the database is written; nothing is opened yet."""

    @abstractmethod
    def _place(self) -> Mapping[str, Json]:
        """Where the data are, and the version of their schema, for ``health``."""

    @abstractmethod
    async def _size_bytes(self) -> int | None:
        """What the data take on their disk; None while nobody can tell."""

    async def health(self) -> Mapping[str, Json]:
        """Where the data are, schema version, size [bytes], rows waiting, dropped and unwritable, current trouble."""
        return {**self._place(), "size_bytes": await self._size_bytes(), **self._health()}

    async def __aenter__(self) -> Self:
        await self._writer.start()
        self._readers.start()
        self._housekeeping.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        # Each of them, also when this is cancelled. Readers before the writer: who closes the last connection may have
        # to tidy up, and readers cannot.
        async with AsyncExitStack() as stack:
            for part in (self._writer, self._readers, self._housekeeping):
                stack.push_async_callback(part.stop)

    def _health(self) -> Mapping[str, Json]:
        """For ``health``: rows waiting, dropped and unwritable since the start, current trouble."""
        return {
            "queued": self._writer.queued,
            "drops": self._writer.drops,
            "unwritable": self._writer.unwritable,
            "trouble": self._writer.trouble,
        }
