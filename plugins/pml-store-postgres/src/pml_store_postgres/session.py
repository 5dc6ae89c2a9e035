"""The connection that writes, in the writer's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_stores.session import Session

from .database import is_storage_fault
from .errors import StoreError, closed
from .rows import EncodedRow, write_executions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pml_hookspecs import ExecutionRecord
    from pml_stores.writer_backoff import WriterBackoff

    from .connection import ServerConnection
    from .database import Database


ASKED_REST_S = 0.004
"""Longest that the writer sleeps while readers wait for it: ten rows take the server some 2 ms."""


class ServerSession(Session["ServerConnection", EncodedRow]):
    """A connection that is made again when it is lost.

    Gateways that share a schema write one after the other, each batch under an advisory lock: so none of them waits
    for rows of another in the wrong order, and what is read before a write still holds when it is written.
    """

    driver = "postgres"
    # A batch takes longer than SQLite's, and both have a tenth of a second in all.
    patient_part = 0.2

    def __init__(self, database: Database, writer_backoff: WriterBackoff) -> None:
        """Connects to nothing."""
        super().__init__(writer_backoff)
        self._database = database
        self._connection: ServerConnection | None = None
        self._committing = False

    @property
    def named(self) -> Mapping[str, Any]:
        return {"database": self._database.place}

    def open(self) -> ServerConnection:
        if self._connection is None:
            self._connection = self._database.open_writer()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def encode(self, record: ExecutionRecord) -> EncodedRow:
        # The interpreter changes threads every 5 ms only, and encoding a batch takes about as long.
        self.writer_backoff.give_way()
        return EncodedRow(record)

    def write_rows(self, connection: ServerConnection, rows: Sequence[EncodedRow]) -> None:
        self.writer_backoff.give_way()
        write_executions(connection, rows)

    def attempt(
        self, batch: Sequence[Any], rows: Mapping[int, EncodedRow], unfit: Mapping[int, Exception]
    ) -> dict[int, Exception]:
        """Write ``batch``, twice if the connection was lost while nobody looked; as :meth:`write`."""
        used = self._connection is not None
        try:
            return super().attempt(batch, rows, unfit)
        except Exception:
            lost = self._connection is not None and self._connection.broken
            self.close()
            # A connection may have died of old age. After a commit that nobody answered, it may have been done.
            if not used or not lost or self._committing:
                raise
        try:
            return super().attempt(batch, rows, unfit)
        except Exception:
            self.close()
            raise

    def transaction(self, connection: ServerConnection, work: Callable[[], object]) -> None:
        self._committing = False
        try:
            # In one message, as a server may be far away.
            begun = connection.execute(f"BEGIN; SELECT pg_try_advisory_xact_lock({self._database.lock})")
            begun.nextset()
            if begun.fetchone() != (True,):
                # Another gateway writes as well, and is not kept waiting for readers here.
                self.writer_backoff.hurry()
                connection.execute(f"SELECT pg_advisory_xact_lock({self._database.lock})")
            work()
            self._committing = True
            connection.execute("COMMIT")
            self._committing = False
        finally:
            if not connection.closed and connection.info.transaction_status:
                connection.rollback()

    def is_storage_fault(self, exc: Exception) -> bool:
        return is_storage_fault(exc)

    def unwell(self, exc: Exception) -> StoreError:
        return self._database.unwell(exc)

    def closed(self) -> StoreError:
        return closed(self._database.place)
