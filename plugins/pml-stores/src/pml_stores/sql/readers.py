"""The threads that read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from .database import C

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from .database import Database

T = TypeVar("T")

THREADS = 4


class Readers(Generic[C]):
    """A few threads, each reading with a connection of its own, opened when first needed."""

    def __init__(self, database: Database[C]) -> None:
        """Starts nothing."""
        self._database = database
        self._pool: ThreadPoolExecutor | None = None
        self._idle: list[C] = []
        self._closed = True

    def start(self) -> None:
        """Allow reading."""
        self._closed = False

    async def read(self, question: Callable[[C], T]) -> T:
        """Answer of ``question``, which runs in a thread, all of it from one state of the database.

        StoreError when the database cannot be read, or the store is closed.
        """
        if self._closed:
            raise self._database.closed()
        if self._pool is None:
            # A start without reads does not pay for it.
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(THREADS, f"pml-store-{self._database.driver}-read")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, question)

    def _answer(self, question: Callable[[C], T]) -> T:
        while True:
            connection, used = self._connection()
            try:
                connection.execute("BEGIN")
                answer = question(connection)
                connection.execute("ROLLBACK")
            except BaseException as exc:
                lost, why = self._database.is_lost(connection), self._database.unreadable(exc)
                connection.close()
                if why is None:
                    raise
                if used and lost:
                    # The database was restarted since, or somebody between hung up.
                    continue
                raise why from exc
            self._idle.append(connection)
            if self._closed:
                # Whoever closed did not wait for this answer.
                self._close_idle()
            return answer

    def _connection(self) -> tuple[C, bool]:
        """A connection, and whether it was used before."""
        with suppress(IndexError):
            return self._idle.pop(), True
        try:
            return self._database.open_reader(), False
        except Exception as exc:
            if (why := self._database.unreadable(exc)) is None:
                raise
            raise why from exc

    async def stop(self) -> None:
        """Wait for the reads under way and close the connections, which is done also when this is cancelled."""
        self._closed = True
        try:
            if self._pool is not None:
                await asyncio.to_thread(self._pool.shutdown)
        finally:
            self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
