"""The threads that read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from .database import UNREACHABLE, in_words
from .errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from psycopg import Connection

    from .database import Database

T = TypeVar("T")

THREADS = 4


class Readers:
    """A few threads, each reading with a connection of its own, opened when first needed."""

    def __init__(self, database: Database) -> None:
        """Starts nothing."""
        self._database = database
        self._pool: ThreadPoolExecutor | None = None
        self._idle: list[Connection[Any]] = []
        self._closed = True

    def start(self) -> None:
        """Allow reading."""
        self._closed = False

    async def read(self, question: Callable[[Connection[Any]], T]) -> T:
        """Answer of ``question``, all of it from one state of the database.

        Raises:
            StoreError: The database cannot be read, or the store is closed.
        """
        if self._closed:
            raise StoreError(f"{self._database.place} is closed", "use the store only between entering and leaving it")
        if self._pool is None:
            # A start without reads does not pay for it.
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(THREADS, "pml-store-postgres-read")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, question)

    def _answer(self, question: Callable[[Connection[Any]], T]) -> T:
        import psycopg

        while True:
            connection, used = self._connection()
            try:
                connection.execute("BEGIN")
                answer = question(connection)
                connection.execute("ROLLBACK")
            except psycopg.Error as exc:
                gone = connection.broken or connection.closed
                connection.close()
                if used and gone:
                    # The server was restarted since, or somebody between hung up: a new connection may do.
                    continue
                said = self._database.without_secrets(in_words(exc))
                raise StoreError(f"{self._database.place} cannot be read ({said})", UNREACHABLE) from exc
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)
            return answer

    def _connection(self) -> tuple[Connection[Any], bool]:
        """A connection, and whether it was used before."""
        try:
            return self._idle.pop(), True
        except IndexError:
            return self._database.open_reader(), False

    async def stop(self) -> None:
        """Wait for the reads under way and close the connections."""
        self._closed = True
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown)
        while self._idle:
            self._idle.pop().close()
