"""One connection in a thread of its own, which commits everything that came together at once."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .settings import Settings

T = TypeVar("T")
MOST_TOGETHER = 256
BUSY_S = 30
SCHEMA_LOCK = 7_081_605
"""Key of the advisory lock under which tables are made on PostgreSQL."""
_NAME = re.compile(r"(?<![:\w]):(\w+)")

Execute = Callable[[str, Mapping[str, Any]], "StatementResult"]
Work = Callable[[Execute], T]


class StatementResult:
    """What a statement did: how many rows it touched, and those it returned."""

    __slots__ = ("count", "rows")

    def __init__(self, count: int, rows: Sequence[Sequence[Any]]) -> None:
        self.count, self.rows = count, rows


class DatabaseError(Exception):
    """The database cannot be used. The message says which, why and what to do; it has no password in it."""


class Connection:
    """Runs statements with ``:name`` parameters on SQLite or PostgreSQL; each piece of work is one transaction."""

    def __init__(self, settings: Settings, schema: Sequence[str]) -> None:
        self._settings, self._schema = settings, schema
        self._queue: queue.SimpleQueue[_QueuedWork | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.sqlite = settings.file is not None
        self.locking = "" if self.sqlite else " FOR SHARE"
        """Ends a SELECT whose rows must not change before the transaction is over."""

    async def do(self, work: Work[T]) -> T:
        """Run ``work`` in a transaction; its result is durable when this returns.

        Raises:
            DatabaseError: The database cannot be reached or opened.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pml-durable", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        item = _QueuedWork(work, loop, loop.create_future())
        self._queue.put(item)
        done: T = await item.future
        return done

    async def close(self) -> None:
        """Finish what was asked for and disconnect."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    # In the thread

    def _run(self) -> None:
        connection: Any = None
        while True:
            items, over = self._batch()
            if items:
                connection = self._answer(connection, items)
            if over:
                if connection is not None:
                    connection.close()
                return

    def _batch(self) -> tuple[list[_QueuedWork], bool]:
        items, item = [], self._queue.get()
        while item is not None:
            items.append(item)
            if len(items) == MOST_TOGETHER:
                return items, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return items, False
        return items, True

    def _answer(self, connection: Any, items: list[_QueuedWork]) -> Any:
        """Do ``items``, together or else one by one, and tell those who wait; the connection to go on with."""
        try:
            connection = connection or self._open()
            results: list[tuple[_QueuedWork, Any, Exception | None]] = self._together(connection, items)
        except Exception:  # one that fails must not fail the others
            connection = self._alive(connection)
            results = []
            for item in items:
                try:
                    connection = connection or self._open()
                    results += self._together(connection, [item])
                except Exception as exc:
                    results.append((item, None, self._told(exc)))
                    connection = self._alive(connection)
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_QueuedWork, Any, Exception | None]]] = {}
        for result in results:
            by_loop.setdefault(result[0].loop, []).append(result)
        for loop, own in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_tell, own)
        return connection

    def _together(self, connection: Any, items: list[_QueuedWork]) -> list[tuple[_QueuedWork, Any, Exception | None]]:
        cursor = connection.cursor()

        def execute(statement: str, values: Mapping[str, Any]) -> StatementResult:
            cursor.execute(statement if self.sqlite else _NAME.sub(r"%(\1)s", statement), values)
            return StatementResult(cursor.rowcount, cursor.fetchall() if cursor.description else ())

        cursor.execute("BEGIN IMMEDIATE" if self.sqlite else "BEGIN")
        try:
            results: list[tuple[_QueuedWork, Any, Exception | None]] = [
                (item, item.work(execute), None) for item in items
            ]
            cursor.execute("COMMIT")
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
        finally:
            cursor.close()
        return results

    def _alive(self, connection: Any) -> Any:
        """``connection`` if it can still be used, else None."""
        if connection is None:
            return None
        try:
            connection.cursor().execute("SELECT 1")
        except Exception:
            connection.close()
            return None
        return connection

    def _told(self, exc: Exception) -> Exception:
        where = str(self._settings.file or self._settings.url.rpartition("@")[2])
        if isinstance(exc, (sqlite3.Error, OSError)) or type(exc).__module__.startswith("psycopg"):
            return DatabaseError(f"the database of durable workflows, {where}: {exc}")
        return exc

    def _open(self) -> Any:
        return self._open_sqlite(self._settings.file) if self._settings.file is not None else self._open_postgres()

    def _open_sqlite(self, file: Path) -> Any:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Arguments and results of tasks are nobody else's business.
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN IMMEDIATE")
            for statement in self._schema:
                connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_postgres(self) -> Any:
        import psycopg

        connection = psycopg.connect(self._settings.url, autocommit=True, connect_timeout=10)
        try:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
                for statement in self._schema:
                    connection.execute(statement.encode())
        except BaseException:
            connection.close()
            raise
        return connection


class _QueuedWork:
    __slots__ = ("future", "loop", "work")

    def __init__(self, work: Work[Any], loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self.work, self.loop, self.future = work, loop, future


def _tell(results: list[tuple[_QueuedWork, Any, Exception | None]]) -> None:
    for item, value, problem in results:
        if item.future.done():
            continue
        if problem is None:
            item.future.set_result(value)
        else:
            item.future.set_exception(problem)
