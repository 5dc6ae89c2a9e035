"""The connections that read, each in a thread of its own."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pml_stores.readers

from .errors import StoreError, closed

if TYPE_CHECKING:
    from pml_stores.writer_backoff import WriterBackoff

    from .database import Database


class Readers(pml_stores.readers.Readers[sqlite3.Connection]):
    """Read the file."""

    driver = "sqlite"

    def __init__(self, database: Database, writer_backoff: WriterBackoff) -> None:
        """Starts nothing."""
        super().__init__(writer_backoff)
        self._database = database

    def open(self) -> sqlite3.Connection:
        return self._database.open_reader()

    def closed(self) -> StoreError:
        return closed(self._database.path)

    def unreadable(self, exc: BaseException) -> StoreError | None:
        if not isinstance(exc, sqlite3.Error):
            return None
        return StoreError(f"{self._database.path} cannot be read ({exc})", "check the file and its disk")
