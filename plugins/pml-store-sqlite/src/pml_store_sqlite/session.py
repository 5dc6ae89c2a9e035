"""The connection that writes, in the writer's thread."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

from pml_stores.session import Session

from . import execution_rows
from .checkpoints import Checkpoints
from .database import is_storage_fault
from .errors import StoreError, closed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pml_hookspecs import ExecutionRecord
    from pml_stores.writer_backoff import WriterBackoff

    from .database import Database

ASKED_REST_S = 0.02
"""Longest that the writer sleeps while readers wait for it: some forty rows take it 5 ms, and smaller batches write the
same pages over and over."""

STEPS = 400
"""Of SQLite's machine between two looks whether somebody reads: writing one execution takes so many."""
LOCKED_S = 0.001
"""Having waited longer for the file, another process writes to it as well, and is not kept waiting for readers here."""


class FileSession(Session[sqlite3.Connection, "ExecutionRecord"]):
    """Writes to the file; what is written is moved from the write-ahead log beside it."""

    driver = "sqlite"

    def __init__(self, database: Database, writer_backoff: WriterBackoff) -> None:
        """Opens nothing."""
        super().__init__(writer_backoff)
        self._database = database
        self._connection: sqlite3.Connection | None = None
        self._checkpoints = Checkpoints(database)

    @property
    def named(self) -> Mapping[str, Any]:
        return {"path": self._database.path}

    def open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._database.open_writer()
            # Readers see the file as it was before the transaction, and wait for no lock of it.
            self._connection.set_progress_handler(self.writer_backoff.give_way, STEPS)
            self._checkpoints.start()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._checkpoints.stop()
            self._connection.close()
            self._connection = None

    def encode(self, record: ExecutionRecord) -> ExecutionRecord:
        return record

    def write_rows(self, connection: sqlite3.Connection, rows: Sequence[ExecutionRecord]) -> None:
        execution_rows.write(connection, rows)

    def transaction(self, connection: sqlite3.Connection, work: Callable[[], object]) -> None:
        with self._checkpoints.held_off():
            began = time.monotonic()
            connection.execute("BEGIN IMMEDIATE")
            if time.monotonic() - began > LOCKED_S:
                self.writer_backoff.hurry()
            try:
                work()
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.rollback()
        self._checkpoints.written()

    def is_storage_fault(self, exc: Exception) -> bool:
        return is_storage_fault(exc)

    def unwell(self, exc: Exception) -> StoreError:
        said = str(exc) or repr(exc)
        problem = f"{self._database.path} cannot be written just now ({said})"
        return StoreError(problem, "make room, make it writable or end what locks it", said)

    def closed(self) -> StoreError:
        return closed(self._database.path)
