"""The one thread that writes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Generic

from pml_hookspecs import ExecutionRecord
from pml_stores.errors import StoreError

from .database import BackgroundOperation, C, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pml_hookspecs import ExecutionId

    from .database import Session

BATCH = 512
"""Most operations in one transaction."""
RETRY_S = 0.5
"""Wait between attempts while the database cannot be written."""
SILENCE_S = 60.0
"""A trouble that lasts is heard once in this time."""
CLOSING_S = 1.0
"""How long a closing that is cancelled still blocks for the last rows."""


class Writer(Generic[C]):
    """Writes what is queued, many operations to a transaction, in the order they were queued.

    The event loop's side is :meth:`record`, :meth:`write_later`, :meth:`waiting`, :meth:`write` and :meth:`catch_up`;
    the rest runs in the thread. The thread sleeps a flush interval after the first of a burst of records, so that it
    seldom takes the interpreter from the event loop, and not at all when a task waits for it.
    """

    def __init__(self, session: Session[C], log: Any, *, queue_rows: int, flush_interval_s: float) -> None:
        """Starts nothing. ``session`` is used in the thread, and ``log`` told of troubles.

        At most ``queue_rows`` operations are held in memory while the database cannot be written, and what nobody
        waits for is collected for ``flush_interval_s`` [s].
        """
        self._session, self._database, self._log = session, session.database, log
        self._limit = queue_rows
        self._rest_s = flush_interval_s
        self._queue: deque[Any] = deque()
        self._batch: list[Any] = []
        """What is being written."""
        self._waiting: set[Operation[C]] = set()
        self._busy = False
        self._wake, self._hurry, self._closing = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pml-store-{self._database.driver}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._last_heard: dict[str, float] = {}
        self.drops = 0
        """Records and documents that a full queue or a closed store did not take."""
        self.unwritable = 0
        """Those that the database has no form for, and those left over when the store closed on one in trouble."""
        self._why: StoreError | None = None

    @property
    def trouble(self) -> str | None:
        """Why the database cannot be written just now, as it says itself; None while it can."""
        return None if self._why is None else self._why.said

    @property
    def queued(self) -> int:
        """Operations waiting to be written."""
        return len(self._queue)

    async def start(self) -> None:
        """Open the database and start the thread. StoreError when it cannot be used."""
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

    def waiting(self, id_: ExecutionId) -> ExecutionRecord | None:
        """The state of an execution that was recorded last and waits to be written; None when it does not."""
        while True:
            # RuntimeError: the thread took something from the queue meanwhile.
            with contextlib.suppress(RuntimeError):
                batch, queued = self._batch, list(self._queue)
                # Otherwise what is in neither may have been put back.
                if batch is self._batch:
                    found = (r for r in reversed(batch + queued) if type(r) is ExecutionRecord and r.id == id_)
                    return next(found, None)

    def record(self, record: ExecutionRecord | BackgroundOperation[C]) -> None:
        """Queue ``record``. Never blocks, never raises."""
        queue = self._queue
        if len(queue) >= self._limit:
            self.drops += 1
            return
        queue.append(record)
        if not self._wake.is_set():
            self._wake.set()

    def write_later(self, apply: Callable[[C], object], **what: Any) -> None:
        """Queue ``apply``, as :meth:`record` does records. The one field of ``what`` names it in the log."""
        self.record(BackgroundOperation(apply, what))

    def refuse(self, exc: Exception, **what: Any) -> None:
        """Count and say what nobody waits for and cannot be stored."""
        self.unwritable += 1
        (kind,) = what
        self._say_seldom("row", f"{kind} cannot be stored", **what, error=repr(exc))

    async def write(self, record: ExecutionRecord | None = None, apply: Callable[[C], object] | None = None) -> Any:
        """Write and wait until it is durable, and so everything queued before; what ``apply`` gave.

        StoreError while the database cannot be written, or the store is closed; else what ``apply`` raised.
        """
        if self._closing.is_set() or not self._thread.is_alive():
            raise self._database.closed()
        if self._why is not None and self._queue:
            # What waits in the queue is what finds out whether the database is well again.
            raise self._unwell()
        operation = Operation(record, apply)
        self._waiting.add(operation)
        self._queue.append(operation)
        self._hurry.set()
        self._wake.set()
        return await operation.future

    async def catch_up(self) -> None:
        """Wait until everything queued is written; returns as well when the database cannot be written just now."""
        # In this order: the thread is busy before it takes from the queue.
        if (self._queue or self._busy) and self._why is None:
            with contextlib.suppress(StoreError):
                await self.write()

    def _run(self) -> None:
        session = self._session
        try:
            session.open()
        except Exception as exc:  # raised in start()
            self._tell([(self._opened, None, exc)])
            return
        self._tell([(self._opened, None, None)])
        try:
            with contextlib.closing(session):
                closing = False
                while not closing:
                    self._rest()
                    # Asked before writing: nothing is queued after closing began, so this time everything is written.
                    closing = self._closing.is_set()
                    self._drain()
        finally:
            self._give_up()
            self._tell([(self._ended, None, None)])

    def _rest(self) -> None:
        self._wake.wait()
        if self._why is not None:
            self._closing.wait(RETRY_S)
        else:
            self._hurry.wait(self._rest_s)
        self._hurry.clear()
        self._wake.clear()

    def _drain(self) -> None:
        self._busy = True
        while self._queue and self._write_batch():
            if len(self._queue) < BATCH and not self._hurry.is_set() and not self._closing.is_set():
                break
        self._busy = False
        if self._queue:
            self._wake.set()

    def _write_batch(self) -> bool:
        self._batch = taken = list[Any]()
        for _ in range(min(len(self._queue), BATCH)):
            taken.append(self._queue[0])
            self._queue.popleft()
        batch = [item for item in taken if not (type(item) is Operation and item.given_up)]
        if all(type(item) is Operation and item.idle for item in batch):
            self._batch = []
            self._settle(batch, {})
            return True
        try:
            faults = self._session.write(batch)
        except Exception as exc:  # whatever it is, the rows are kept and tried again
            self._hold_back(exc, batch)
            return False
        finally:
            # Before anybody is told.
            self._batch = []
        self._written(batch, faults)
        return True

    def _written(self, batch: Sequence[Any], faults: dict[int, Exception]) -> None:
        if self._why is not None:
            self._why = None
            self._last_heard.pop("database", None)
            self._say("info", "store can write again", **self._database.named, queued=self.queued)
        for index, exc in faults.items():
            item = batch[index]
            if type(item) is not Operation:
                self.refuse(exc, **(item.what if type(item) is BackgroundOperation else {"execution": item.id}))
        self._settle(batch, faults)

    def _settle(self, batch: Sequence[Any], faults: dict[int, Exception]) -> None:
        done = [(i, op) for i, op in enumerate(batch) if type(op) is Operation]
        self._waiting.difference_update(op for _, op in done)
        self._tell([(op.future, op.result, faults.get(i)) for i, op in done])

    def _hold_back(self, exc: Exception, batch: Sequence[Any]) -> None:
        """The database cannot be written: keep what nobody waits for, and tell the tasks that wait."""
        self._why = why = self._database.unwritable(exc)
        self._queue.extendleft(item for item in reversed(batch) if type(item) is not Operation)
        self._say_seldom("database", "store cannot write", **self._database.named, error=why.said, queued=self.queued)
        self._fail_waiting(self._unwell)

    def _unwell(self) -> StoreError:
        return self._database.closed() if self._why is None else self._why.again()

    def _fail_waiting(self, why: Callable[[], StoreError]) -> None:
        waiting = list(self._waiting)
        for operation in waiting:
            operation.given_up = True
        self._waiting.difference_update(waiting)
        self._tell([(operation.future, None, why()) for operation in waiting])

    def _give_up(self) -> None:
        lost = sum(type(item) is not Operation for item in self._queue)
        self._queue.clear()
        if lost:
            self.unwritable += lost
            self._say("error", "store closed with rows it could not write", **self._database.named, rows=lost)
        self._fail_waiting(self._database.closed)

    def _tell(self, settled: list[tuple[Any, object, Exception | None]]) -> None:
        # A closed loop has nobody left who waits.
        if settled and self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_finish, settled)

    def _say_seldom(self, trouble: str, event: str, **fields: Any) -> None:
        now = time.monotonic()
        if now - self._last_heard.get(trouble, -SILENCE_S) >= SILENCE_S:
            self._last_heard[trouble] = now
            self._say("error", event, silent_for_s=SILENCE_S, **fields)

    def _say(self, level: str, event: str, **fields: Any) -> None:
        # A log that cannot be written must not end the thread.
        with contextlib.suppress(Exception):
            getattr(self._log, level)(event, **fields)


def _finish(settled: Sequence[tuple[asyncio.Future[Any], object, Exception | None]]) -> None:
    for future, result, exc in settled:
        if future.done():
            continue
        if exc is None:
            future.set_result(result)
        else:
            future.set_exception(exc)
