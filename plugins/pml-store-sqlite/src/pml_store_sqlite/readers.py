"""The threads that read."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, TypeVar

from .errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from .database import Database

T = TypeVar("T")

THREADS = 4


class Readers:
    """A few threads, each reading with a connection of its own, opened when first needed."""

    def __init__(self, database: Database) -> None:
        """Starts nothing."""
        self._database = database
        self._pool: ThreadPoolExecutor | None = None
        self._idle: list[sqlite3.Connection] = []
        self._closed = True

    def start(self) -> None:
        """Allow reading."""
        self._closed = False

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Answer of ``question``, all of it from one state of the file.

        Raises:
            StoreError: The file cannot be read, or the store is closed.
        """
        if self._closed:
            raise StoreError(f"{self._database.path} is closed", "use the store only between entering and leaving it")
        if self._pool is None:
            # A start without reads does not pay for it.
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(THREADS, "pml-store-sqlite-read")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, question)

    def _answer(self, question: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection = self._connection()
            try:
                connection.execute("BEGIN")
                answer = question(connection)
                connection.rollback()
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as exc:
            raise StoreError(f"{self._database.path} cannot be read ({exc})", "check the file and its disk") from exc
        self._idle.append(connection)
        return answer

    def _connection(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._database.open_reader()

    async def stop(self) -> None:
        """Wait for the reads under way and close the connections."""
        self._closed = True
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown)
        while self._idle:
            self._idle.pop().close()
