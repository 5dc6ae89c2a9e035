"""The one thread that writes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from . import execution_rows
from .checkpoints import Checkpoints
from .database import is_storage_fault
from .errors import StoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from pml_hookspecs import ExecutionRecord

    from .database import Database
    from .settings import Settings

BATCH = 512
"""Most operations in one transaction."""

ASKED_S, SHORT_REST_S = 1.0, 0.008
"""So long after somebody had to wait for what is queued, the thread sleeps this short: little is queued when the next
one asks."""

RETRY_S = 0.5
"""Wait between attempts while the file cannot be written."""

SILENCE_S = 60.0
"""A trouble that lasts is heard once in this time."""

CLOSING_S = 1.0
"""How long a closing that is cancelled still blocks for the last rows."""


class Operation:
    """Something to write that a task waits for."""

    __slots__ = ("apply", "future", "given_up", "record")

    def __init__(
        self, record: ExecutionRecord | None = None, apply: Callable[[sqlite3.Connection], object] | None = None
    ) -> None:
        """With neither a record nor a function, it only waits for what is before it."""
        self.record, self.apply = record, apply
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.given_up = False

    @property
    def idle(self) -> bool:
        """Whether it has nothing to write."""
        return self.record is None and self.apply is None


class Later:
    """Something to write that nobody waits for."""

    __slots__ = ("apply", "what")

    def __init__(self, apply: Callable[[sqlite3.Connection], object], what: Mapping[str, Any]) -> None:
        """``what`` is how the log calls it: one field."""
        self.apply, self.what = apply, what


class Writer:
    """Writes what is queued, many operations to a transaction, in the order they were queued.

    The event loop's side is :meth:`record`, :meth:`write_later`, :meth:`write` and :meth:`catch_up`; the rest runs in
    the thread. The thread sleeps a flush interval after the first of a burst of records, so that it seldom takes the
    interpreter from the event loop, and not at all when a task waits for it.
    """

    def __init__(self, database: Database, settings: Settings, log: Any) -> None:
        """Starts nothing."""
        self._database, self._log = database, log
        self._limit = settings.queue_rows
        self._flush_interval_s = settings.flush_interval_ms / 1000
        self._queue: deque[Any] = deque()
        self._waiting: set[Operation] = set()
        self._busy = False
        self._asked_at = -ASKED_S
        self._wake, self._hurry, self._closing = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="pml-store-sqlite", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._last_heard: dict[str, float] = {}
        self.drops = 0
        """Records and documents that a full queue or a closed store did not take."""
        self.unwritable = 0
        """Those that SQLite has no form for, and those left over when the store closed on a file out of order."""
        self.trouble: str | None = None
        """Why the file cannot be written just now."""

    @property
    def queued(self) -> int:
        """Operations waiting to be written."""
        return len(self._queue)

    async def start(self) -> None:
        """Open the file and start the thread.

        Raises:
            StoreError: The file cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        self._opened, self._ended = self._loop.create_future(), self._loop.create_future()
        self._thread.start()
        try:
            await self._opened
        except asyncio.CancelledError:
            self._close()
            raise

    async def stop(self) -> None:
        """Write what is queued and end the thread."""
        self._close()
        if self._ended is None:
            return
        try:
            await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self._thread.join(CLOSING_S)
            raise

    def _close(self) -> None:
        self._limit = 0
        self._closing.set()
        self._hurry.set()
        self._wake.set()

    def record(self, record: ExecutionRecord | Later) -> None:
        """Queue ``record``. Never blocks, never raises."""
        queue = self._queue
        if len(queue) >= self._limit:
            self.drops += 1
            return
        queue.append(record)
        if not self._wake.is_set():
            self._wake.set()

    def write_later(self, apply: Callable[[sqlite3.Connection], object], **what: Any) -> None:
        """Queue ``apply``, as :meth:`record` does records. The one field of ``what`` names it in the log."""
        self.record(Later(apply, what))

    def refuse(self, exc: Exception, **what: Any) -> None:
        """Count and say what nobody waits for and cannot be stored."""
        self.unwritable += 1
        (kind,) = what
        self._say_seldom("row", f"{kind} cannot be stored", **what, error=repr(exc))

    async def write(
        self, record: ExecutionRecord | None = None, apply: Callable[[sqlite3.Connection], object] | None = None
    ) -> None:
        """Write and wait until it is durable, and so everything queued before.

        Raises:
            StoreError: The file cannot be written just now, or the store is closed.
            Exception: What ``apply`` raised, or what stands against the record.
        """
        if self._closing.is_set() or not self._thread.is_alive():
            raise self._closed()
        if self.trouble and self._queue:
            # What waits in the queue is what finds out whether the file is well again.
            raise self._unwell()
        operation = Operation(record, apply)
        self._waiting.add(operation)
        self._queue.append(operation)
        self._hurry.set()
        self._wake.set()
        await operation.future

    async def catch_up(self) -> None:
        """Wait until everything queued is written; returns as well when the file cannot be written just now."""
        # In this order: the thread is busy before it takes from the queue.
        if (self._queue or self._busy) and not self.trouble:
            self._asked_at = time.monotonic()
            with contextlib.suppress(StoreError):
                await self.write()

    def _run(self) -> None:
        try:
            connection = self._database.open_writer()
        except Exception as exc:  # raised in start()
            self._tell(_finish, [(self._opened, exc)])
            return
        self._tell(_finish, [(self._opened, None)])
        checkpoints = Checkpoints(self._database)
        checkpoints.start()
        try:
            with contextlib.closing(connection), contextlib.ExitStack() as stack:
                stack.callback(checkpoints.stop)
                closing = False
                while not closing:
                    self._rest()
                    # Asked before writing: nothing is queued after closing began, so this time everything is written.
                    closing = self._closing.is_set()
                    self._drain(connection)
                    checkpoints.written()
        finally:
            self._give_up()
            self._tell(_finish, [(self._ended, None)])

    def _rest(self) -> None:
        self._wake.wait()
        if self.trouble:
            self._closing.wait(RETRY_S)
        else:
            asked = time.monotonic() - self._asked_at < ASKED_S
            self._hurry.wait(min(SHORT_REST_S, self._flush_interval_s) if asked else self._flush_interval_s)
        self._hurry.clear()
        self._wake.clear()

    def _drain(self, connection: sqlite3.Connection) -> None:
        self._busy = True
        while self._queue and self._write_batch(connection):
            if len(self._queue) < BATCH and not self._hurry.is_set() and not self._closing.is_set():
                break
        self._busy = False
        if self._queue:
            self._wake.set()

    def _write_batch(self, connection: sqlite3.Connection) -> bool:
        taken = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
        batch = [item for item in taken if not (type(item) is Operation and item.given_up)]
        faults: dict[int, Exception] = {}
        if all(type(item) is Operation and item.idle for item in batch):
            self._settle(batch, faults)
            return True
        try:
            try:
                self._transaction(connection, lambda: _write_all(connection, batch))
            except Exception as exc:
                if is_storage_fault(exc):
                    raise
                self._transaction(connection, lambda: faults.update(_write_singly(connection, batch)))
        except Exception as exc:  # whatever it is, the rows are kept and tried again
            self._hold_back(exc, batch)
            return False
        self._written(batch, faults)
        return True

    @staticmethod
    def _transaction(connection: sqlite3.Connection, work: Callable[[], object]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            work()
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.rollback()

    def _written(self, batch: Sequence[Any], faults: dict[int, Exception]) -> None:
        if self.trouble:
            self.trouble = None
            self._last_heard.pop("file", None)
            self._say("info", "store can write again", path=self._database.path, queued=self.queued)
        for index, exc in faults.items():
            item = batch[index]
            if type(item) is not Operation:
                self.refuse(exc, **(item.what if type(item) is Later else {"execution": item.id}))
        self._settle(batch, faults)

    def _settle(self, batch: Sequence[Any], faults: dict[int, Exception]) -> None:
        done = [(i, op) for i, op in enumerate(batch) if type(op) is Operation]
        self._waiting.difference_update(op for _, op in done)
        self._tell(_finish, [(op.future, faults.get(i)) for i, op in done])

    def _hold_back(self, exc: Exception, batch: Sequence[Any]) -> None:
        """The file cannot be written: keep what nobody waits for, and tell the tasks that wait."""
        self.trouble = str(exc) or repr(exc)
        self._queue.extendleft(item for item in reversed(batch) if type(item) is not Operation)
        self._say_seldom("file", "store cannot write", path=self._database.path, error=self.trouble, queued=self.queued)
        self._fail_waiting(self._unwell)

    def _unwell(self) -> StoreError:
        problem = f"{self._database.path} cannot be written just now ({self.trouble})"
        return StoreError(problem, "make room, make it writable or end what locks it")

    def _closed(self) -> StoreError:
        return StoreError(f"{self._database.path} is closed", "use the store only between entering and leaving it")

    def _fail_waiting(self, why: Callable[[], StoreError]) -> None:
        waiting = list(self._waiting)
        for operation in waiting:
            operation.given_up = True
        self._waiting.difference_update(waiting)
        self._tell(_finish, [(operation.future, why()) for operation in waiting])

    def _give_up(self) -> None:
        lost = sum(type(item) is not Operation for item in self._queue)
        self._queue.clear()
        if lost:
            self.unwritable += lost
            self._say("error", "store closed with rows it could not write", path=self._database.path, rows=lost)
        self._fail_waiting(self._closed)

    def _tell(self, function: Callable[..., None], settled: list[tuple[Any, Exception | None]]) -> None:
        # A closed loop has nobody left who waits.
        if settled and self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function, settled)

    def _say_seldom(self, trouble: str, event: str, **fields: Any) -> None:
        now = time.monotonic()
        if now - self._last_heard.get(trouble, -SILENCE_S) >= SILENCE_S:
            self._last_heard[trouble] = now
            self._say("error", event, silent_for_s=SILENCE_S, **fields)

    def _say(self, level: str, event: str, **fields: Any) -> None:
        # A log that cannot be written must not end the thread.
        with contextlib.suppress(Exception):
            getattr(self._log, level)(event, **fields)


def _finish(settled: Sequence[tuple[asyncio.Future[None], Exception | None]]) -> None:
    for future, exc in settled:
        if future.done():
            continue
        if exc is None:
            future.set_result(None)
        else:
            future.set_exception(exc)


def _write_all(connection: sqlite3.Connection, batch: Sequence[Any]) -> None:
    latest = {}
    for item in batch:
        if type(item) is Later:
            continue
        record = item.record if type(item) is Operation else item
        if record is not None:
            latest[record.id] = record
    execution_rows.write(connection, list(latest.values()))
    for item in batch:
        if type(item) in (Operation, Later) and item.apply is not None:
            item.apply(connection)


def _write_singly(connection: sqlite3.Connection, batch: Sequence[Any]) -> dict[int, Exception]:
    """Write one by one and return what stands against which; the others are written."""
    faults: dict[int, Exception] = {}
    for index, item in enumerate(batch):
        connection.execute("SAVEPOINT one")
        try:
            _write_all(connection, [item])
        except Exception as exc:
            if is_storage_fault(exc):
                raise
            connection.execute("ROLLBACK TO one")
            faults[index] = exc
        connection.execute("RELEASE one")
    return faults
