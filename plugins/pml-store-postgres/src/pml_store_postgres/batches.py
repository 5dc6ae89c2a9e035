"""What the writer's thread does with the database: batches, each in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from .database import is_storage_fault
from .rows import Encoded, write_executions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg import Connection

    from pml_hookspecs import ExecutionRecord

    from .database import Database

Work: TypeAlias = "Callable[[Connection[Any]], object]"


class Operation:
    """Something to write that a task waits for."""

    __slots__ = ("apply", "future", "given_up", "record")

    def __init__(self, record: ExecutionRecord | None = None, apply: Work | None = None) -> None:
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

    def __init__(self, apply: Work, what: Mapping[str, Any]) -> None:
        """``what`` is how the log calls it: one field."""
        self.apply, self.what = apply, what


class Session:
    """A connection that writes, made again when it is lost.

    Gateways that share a schema write one after the other, each batch under an advisory lock: so none of them waits
    for rows of another in the wrong order, and what is read before a write still holds when it is written.
    """

    def __init__(self, database: Database) -> None:
        """Connects to nothing."""
        self._database = database
        self._connection: Connection[Any] | None = None
        self._committing = False

    def open(self) -> Connection[Any]:
        """The connection.

        Raises:
            StoreError: There can be none.
        """
        if self._connection is None:
            self._connection = self._database.open_writer()
        return self._connection

    def close(self) -> None:
        """Let it go; :meth:`open` makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def write(self, batch: Sequence[Any]) -> dict[int, Exception]:
        """Write ``batch``; what stands against which of it.

        Raises:
            Exception: The database is to blame; nothing of it is written, as far as anybody knows.
        """
        encoded, faults = _encode(batch)
        used = self._connection is not None
        try:
            return self._write(batch, encoded, faults)
        except Exception:
            lost = self._connection is not None and self._connection.broken
            self.close()
            # A connection may have died of old age. After a commit that nobody answered, it may have been done.
            if not used or not lost or self._committing:
                raise
        try:
            return self._write(batch, encoded, faults)
        except Exception:
            self.close()
            raise

    def _write(
        self, batch: Sequence[Any], encoded: Mapping[int, Encoded], unfit: Mapping[int, Exception]
    ) -> dict[int, Exception]:
        connection, faults = self.open(), dict(unfit)
        fit = [index for index in range(len(batch)) if index not in unfit]
        try:
            self._transaction(connection, lambda: _write_all(connection, batch, fit, encoded))
        except Exception as exc:
            if is_storage_fault(exc):
                raise
            self._transaction(connection, lambda: faults.update(_write_singly(connection, batch, fit, encoded)))
        return faults

    def _transaction(self, connection: Connection[Any], work: Callable[[], object]) -> None:
        self._committing = False
        try:
            # In one message, as all that needs no answer should be.
            connection.execute(f"BEGIN; SELECT pg_advisory_xact_lock({self._database.lock})")
            work()
            self._committing = True
            connection.execute("COMMIT")
            self._committing = False
        finally:
            if not connection.closed and connection.info.transaction_status:
                connection.rollback()


def _encode(batch: Sequence[Any]) -> tuple[dict[int, Encoded], dict[int, Exception]]:
    encoded: dict[int, Encoded] = {}
    faults: dict[int, Exception] = {}
    for index, item in enumerate(batch):
        if type(item) is Later:
            continue
        record = item.record if type(item) is Operation else item
        if record is None:
            continue
        try:
            encoded[index] = Encoded(record)
        except Exception as exc:  # it is lost alone
            faults[index] = exc
    return encoded, faults


def _write_all(
    connection: Connection[Any], batch: Sequence[Any], fit: Sequence[int], encoded: Mapping[int, Encoded]
) -> None:
    latest = {encoded[index].id: encoded[index] for index in fit if index in encoded}
    write_executions(connection, list(latest.values()))
    for item in (batch[index] for index in fit):
        if type(item) in (Operation, Later) and item.apply is not None:
            item.apply(connection)


def _write_singly(
    connection: Connection[Any], batch: Sequence[Any], fit: Sequence[int], encoded: Mapping[int, Encoded]
) -> dict[int, Exception]:
    """Write one by one and return what stands against which; the others are written."""
    faults: dict[int, Exception] = {}
    for index in fit:
        connection.execute("SAVEPOINT one")
        try:
            _write_all(connection, batch, [index], encoded)
            connection.execute("DELETE FROM pg_temp.staging")
        except Exception as exc:
            if is_storage_fault(exc):
                raise
            connection.execute("ROLLBACK TO one")
            faults[index] = exc
        connection.execute("RELEASE one")
    return faults
