"""What the writer's thread does with a database: batches, each in one transaction."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord

    from .errors import StoreError
    from .writer_backoff import WriterBackoff


class Connection(Protocol):
    """What is asked of a connection to any database."""

    def execute(self, sql: Any, /) -> Any:
        """Run one statement."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Row(Protocol):
    """An execution in the form in which it is written."""

    @property
    def id(self) -> str: ...


C = TypeVar("C", bound=Connection)
R = TypeVar("R", bound=Row)


class Operation(Generic[C]):
    """A write that a task waits for."""

    __slots__ = ("apply", "future", "given_up", "record")

    def __init__(self, record: ExecutionRecord | None = None, apply: Callable[[C], object] | None = None) -> None:
        """With neither a record nor a function, it only waits for what is before it."""
        self.record, self.apply = record, apply
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.given_up = False

    @property
    def idle(self) -> bool:
        """Whether it has nothing to write."""
        return self.record is None and self.apply is None


class BackgroundOperation(Generic[C]):
    """A write that no task waits for."""

    __slots__ = ("apply", "what")

    def __init__(self, apply: Callable[[C], object], what: Mapping[str, Any]) -> None:
        """``what`` is how the log calls it: one field."""
        self.apply, self.what = apply, what


class Session(ABC, Generic[C, R]):
    """A connection that writes, and all that a writer has to know of its database.

    A batch has execution records, which nobody waits for, and any :class:`Operation` and
    :class:`BackgroundOperation`. Everything runs in the writer's thread, but for :meth:`closed` and what names the
    database.
    """

    driver: str
    """Name of the driver in the settings."""

    patient_part = 0.3
    """How much of the time that a record may stay in memory, beside the writer's sleep, a batch may stand still.

    The rest is for writing it.
    """

    def __init__(self, writer_backoff: WriterBackoff) -> None:
        """Opens nothing. Amid a batch it gives way to those who read."""
        self.writer_backoff = writer_backoff

    @property
    @abstractmethod
    def named(self) -> Mapping[str, Any]:
        """How the log calls the database: one field."""

    @abstractmethod
    def open(self) -> C:
        """The connection; made when there is none.

        Raises:
            StoreError: There can be none.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    @abstractmethod
    def encode(self, record: ExecutionRecord) -> R:
        """The record as it is written, or what stands against it raised; not in a transaction, so it may take time."""

    @abstractmethod
    def write_rows(self, connection: C, rows: Sequence[R]) -> None:
        """Insert or replace executions, whose ids differ."""

    @abstractmethod
    def transaction(self, connection: C, work: Callable[[], object]) -> None:
        """Do ``work`` and make it durable, or leave nothing of it and raise."""

    @abstractmethod
    def is_storage_fault(self, exc: Exception) -> bool:
        """Whether the database is to blame (gone, full, read-only, locked) and not the data being written."""

    @abstractmethod
    def unwell(self, exc: Exception) -> StoreError:
        """What to tell those who wanted to write."""

    @abstractmethod
    def closed(self) -> StoreError:
        """What to tell those who come before it is opened or after it is closed."""

    def write(self, batch: Sequence[Any]) -> dict[int, Exception]:
        """Write ``batch``; what stands against which of it, by its place in the batch.

        Raises:
            Exception: The database is to blame; nothing of it is written, as far as anybody knows.
        """
        rows, unfit = self._encoded(batch)
        return self.attempt(batch, rows, unfit)

    def attempt(
        self, batch: Sequence[Any], rows: Mapping[int, R], unfit: Mapping[int, Exception]
    ) -> dict[int, Exception]:
        """Write ``batch`` once, all but what is ``unfit``; as :meth:`write`."""
        connection, faults = self.open(), dict(unfit)
        items = [item for index, item in enumerate(batch) if index not in unfit] if unfit else batch
        try:
            self.transaction(connection, lambda: self._write_all(connection, items, rows.values()))
        except Exception as exc:
            if self.is_storage_fault(exc):
                raise
            self.transaction(connection, lambda: faults.update(self._write_singly(connection, batch, rows, unfit)))
        return faults

    def _encoded(self, batch: Sequence[Any]) -> tuple[dict[int, R], dict[int, Exception]]:
        encode = self.encode
        rows: dict[int, R] = {}
        faults: dict[int, Exception] = {}
        for index, item in enumerate(batch):
            if type(item) is BackgroundOperation:
                continue
            record = item.record if type(item) is Operation else item
            if record is None:
                continue
            try:
                rows[index] = encode(record)
            except Exception as exc:  # it is lost alone
                faults[index] = exc
        return rows, faults

    def _write_all(self, connection: C, items: Sequence[Any], rows: Iterable[R]) -> None:
        self.write_rows(connection, list({row.id: row for row in rows}.values()))
        for item in items:
            if type(item) in (Operation, BackgroundOperation) and item.apply is not None:
                item.apply(connection)

    def _write_singly(
        self, connection: C, batch: Sequence[Any], rows: Mapping[int, R], unfit: Mapping[int, Exception]
    ) -> dict[int, Exception]:
        """Write one by one and return what stands against which; the others are written."""
        faults: dict[int, Exception] = {}
        for index, item in enumerate(batch):
            if index in unfit:
                continue
            connection.execute("SAVEPOINT one")
            try:
                self._write_all(connection, [item], [rows[index]] if index in rows else [])
            except Exception as exc:
                if self.is_storage_fault(exc):
                    raise
                connection.execute("ROLLBACK TO one")
                faults[index] = exc
            connection.execute("RELEASE one")
        return faults
