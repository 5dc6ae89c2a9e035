"""A database: how to connect to it, what to say when it cannot be used, and batches, each in one transaction."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from pml_stores.errors import StoreError

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord

    from .execution_rows import EncodedRow, ExecutionRows


class Connection(Protocol):
    """What is asked of a connection to any database."""

    def execute(self, sql: Any, /) -> Any:
        """Run one statement."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


C = TypeVar("C", bound=Connection)


class Database(ABC, Generic[C]):
    """Where the data are. All but :attr:`place` and :meth:`closed` runs in the threads that write and read."""

    driver: ClassVar[str]
    """As the settings call it."""
    kind: ClassVar[str] = "database"
    """What the log calls it."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, in words; no user and no password."""

    @abstractmethod
    def open_writer(self) -> C:
        """A connection that may write, to a schema of the current version. StoreError when there can be none."""

    @abstractmethod
    def open_reader(self) -> C:
        """A connection that can only read, and may be handed from thread to thread."""

    @abstractmethod
    def is_storage_fault(self, exc: BaseException) -> bool:
        """Whether the database is to blame (gone, full, read-only, locked) and not the data being written."""

    @abstractmethod
    def unwritable(self, exc: Exception) -> StoreError:
        """What to tell those who wanted to write."""

    @abstractmethod
    def unreadable(self, exc: BaseException) -> StoreError | None:
        """What to tell those who wanted to read; None when the database is not to blame for ``exc``."""

    def is_lost(self, connection: C) -> bool:
        """Whether another connection may do where this one failed."""
        return False

    def error(self, problem: str, remedy: str, said: str = "") -> StoreError:
        """What to raise for whatever is wrong with it."""
        return StoreError(self.driver, problem, remedy, said)

    def closed(self) -> StoreError:
        """What to tell those who come before the store is entered, or after it is left."""
        return self.error(f"{self.place} is closed", "use the store only between entering and leaving it")

    @property
    def named(self) -> dict[str, Any]:
        """The field by which the log says which database."""
        return {self.kind: self.place}


class Operation(Generic[C]):
    """A write that a task waits for."""

    __slots__ = ("apply", "future", "given_up", "record", "result")

    def __init__(self, record: ExecutionRecord | None = None, apply: Callable[[C], object] | None = None) -> None:
        """With neither a record nor a function, it only waits for what is before it."""
        self.record, self.apply = record, apply
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.given_up = False
        self.result: object = None
        """What ``apply`` gave."""

    @property
    def idle(self) -> bool:
        """Whether it has nothing to write."""
        return self.record is None and self.apply is None


@dataclass(frozen=True, slots=True)
class BackgroundOperation(Generic[C]):
    """A write that no task waits for."""

    apply: Callable[[C], object]
    what: Mapping[str, Any]
    """How the log calls it: one field."""


class Session(ABC, Generic[C]):
    """A connection that writes, and all that a writer has to know of its database.

    A batch has execution records, which nobody waits for, and any :class:`Operation` and
    :class:`BackgroundOperation`. Everything runs in the writer's thread.
    """

    def __init__(self, database: Database[C], rows: ExecutionRows) -> None:
        """Opens nothing; ``rows`` says how executions are written."""
        self.database, self.rows = database, rows
        self.connection: C | None = None

    def open(self) -> C:
        """The connection; made when there is none. StoreError when there can be none."""
        if self.connection is None:
            self.connection = self.database.open_writer()
        return self.connection

    def close(self) -> None:
        """Let go of it."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    @abstractmethod
    def transaction(self, connection: C, work: Callable[[], object]) -> None:
        """Do ``work`` and make it durable, or leave nothing of it and raise."""

    def write(self, batch: Sequence[Any]) -> dict[int, Exception]:
        """Write ``batch``; what stands against which of it, by its place in the batch.

        Raises:
            Exception: The database is to blame; nothing of it is written, as far as anybody knows.
        """
        connection, (rows, unfit) = self.open(), self._encoded(batch)
        faults = dict(unfit)
        items = [item for index, item in enumerate(batch) if index not in unfit] if unfit else batch
        try:
            self.transaction(connection, lambda: self._write_all(connection, items, rows.values()))
        except Exception as exc:
            if self.database.is_storage_fault(exc):
                raise
            self.transaction(connection, lambda: faults.update(self._write_singly(connection, batch, rows, unfit)))
        return faults

    def _encoded(self, batch: Sequence[Any]) -> tuple[dict[int, EncodedRow], dict[int, Exception]]:
        encode = self.rows.encode
        rows: dict[int, EncodedRow] = {}
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

    def _write_all(self, connection: C, items: Sequence[Any], rows: Iterable[EncodedRow]) -> None:
        self.rows.write(connection, list({row.id: row for row in rows}.values()))
        for item in items:
            if type(item) is BackgroundOperation:
                item.apply(connection)
            elif type(item) is Operation and item.apply is not None:
                item.result = item.apply(connection)

    def _write_singly(
        self, connection: C, batch: Sequence[Any], rows: Mapping[int, EncodedRow], unfit: Mapping[int, Exception]
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
                if self.database.is_storage_fault(exc):
                    raise
                connection.execute("ROLLBACK TO one")
                faults[index] = exc
            connection.execute("RELEASE one")
        return faults
