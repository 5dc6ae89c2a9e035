"""The threads that read."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from .session import C

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from .errors import StoreError
    from .writer_backoff import WriterBackoff

T = TypeVar("T")

THREADS = 4


class Readers(ABC, Generic[C]):
    """A few threads, each reading with a connection of its own, opened when first needed."""

    driver: str
    """Name of the driver in the settings."""

    def __init__(self, writer_backoff: WriterBackoff) -> None:
        """Starts nothing. ``writer_backoff`` is the writer's, which waits for who reads."""
        self._writer_backoff = writer_backoff
        self._pool: ThreadPoolExecutor | None = None
        self._idle: list[C] = []
        self._closed = True

    @abstractmethod
    def open(self) -> C:
        """A connection that can only read, and may be handed from thread to thread."""

    @abstractmethod
    def closed(self) -> StoreError:
        """What to tell those who come before :meth:`start` or after :meth:`stop`."""

    @abstractmethod
    def unreadable(self, exc: BaseException) -> StoreError | None:
        """What to tell those who wanted to read; None when the database is not to blame for ``exc``."""

    def is_lost(self, connection: C) -> bool:
        """Whether another connection may do where this one failed."""
        return False

    def start(self) -> None:
        """Allow reading."""
        self._closed = False

    async def read(self, question: Callable[[C], T], *, alone: bool = False) -> T:
        """Answer of ``question``, all of it from one state of the database.

        Args:
            question: Runs in a thread.
            alone: Whether it is one statement, which has one state of the database anyway and needs no transaction.

        Raises:
            StoreError: The database cannot be read, or the store is closed.
        """
        if self._closed:
            raise self.closed()
        if self._pool is None:
            # A start without reads does not pay for it.
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(THREADS, f"pml-store-{self.driver}-read")
        with self._writer_backoff.reading():
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, question, alone)

    def _answer(self, question: Callable[[C], T], alone: bool) -> T:  # noqa: FBT001 - the executor takes no names
        while True:
            connection, used = self._connection()
            try:
                if alone:
                    answer = question(connection)
                else:
                    connection.execute("BEGIN")
                    answer = question(connection)
                    connection.execute("ROLLBACK")
            except BaseException as exc:
                lost, why = self.is_lost(connection), self.unreadable(exc)
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
        try:
            return self._idle.pop(), True
        except IndexError:
            pass
        try:
            return self.open(), False
        except Exception as exc:
            why = self.unreadable(exc)
            if why is None:
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
