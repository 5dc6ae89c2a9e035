"""The connections that read, each in a thread of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pml_stores.readers

from .database import UNREACHABLE, in_words
from .errors import StoreError, closed

if TYPE_CHECKING:
    from pml_stores.writer_backoff import WriterBackoff

    from .connection import ServerConnection
    from .database import Database


class Readers(pml_stores.readers.Readers["ServerConnection"]):
    """Read the database."""

    driver = "postgres"

    def __init__(self, database: Database, writer_backoff: WriterBackoff) -> None:
        """Connects to nothing."""
        super().__init__(writer_backoff)
        self._database = database

    def open(self) -> ServerConnection:
        return self._database.open_reader()

    def closed(self) -> StoreError:
        return closed(self._database.place)

    def is_lost(self, connection: ServerConnection) -> bool:
        return connection.broken or connection.closed

    def unreadable(self, exc: BaseException) -> StoreError | None:
        import psycopg

        if not isinstance(exc, psycopg.Error):
            return None
        said = self._database.without_secrets(in_words(exc))
        return StoreError(f"{self._database.place} cannot be read ({said})", UNREACHABLE)
