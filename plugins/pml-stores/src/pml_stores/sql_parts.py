"""The small parts of a store on a database: each statement is a function of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from .session import C

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pml_hookspecs import CatalogEntry, Ended, ExecutionId, Scope, ServerStatus

    from .readers import Readers
    from .writer import Writer


class SqlTraces(Generic[C]):
    """Implements :class:`pml_hookspecs.Traces`."""

    def __init__(
        self,
        writer: Writer[C],
        readers: Readers[C],
        *,
        write: Callable[[C, Sequence[Ended]], object],
        spans: Callable[[C, ExecutionId, Scope], Sequence[Ended]],
    ) -> None:
        """Use the store's threads and these statements."""
        self._writer, self._readers, self._write, self._spans = writer, readers, write, spans

    async def append(self, spans: Sequence[Ended]) -> None:
        """Add finished spans; those known already stay as they are."""
        await self._writer.write(apply=lambda c: self._write(c, spans))

    async def of(self, execution: ExecutionId, scope: Scope) -> Sequence[Ended]:
        """Spans of one execution in start order."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: self._spans(c, execution, scope))


class SqlCatalog(Generic[C]):
    """Implements :class:`pml_hookspecs.CatalogCache`."""

    def __init__(
        self,
        writer: Writer[C],
        readers: Readers[C],
        *,
        write_tools: Callable[[C, str, str, Sequence[CatalogEntry]], object],
        tools: Callable[[C, str, str], Sequence[CatalogEntry]],
        write_status: Callable[[C, ServerStatus], object],
        statuses: Callable[[C], Sequence[ServerStatus]],
    ) -> None:
        """Use the store's threads and these statements."""
        self._writer, self._readers = writer, readers
        self._write_tools, self._tools = write_tools, tools
        self._write_status, self._statuses = write_status, statuses

    async def replace(self, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has, in one transaction."""
        await self._writer.write(apply=lambda c: self._write_tools(c, server, fingerprint, entries))

    async def entries(self, server: str, fingerprint: str) -> Sequence[CatalogEntry]:
        """By tool name; empty when nothing is known under this fingerprint."""
        return await self._readers.read(lambda c: self._tools(c, server, fingerprint))

    async def report(self, status: ServerStatus) -> None:
        """Remember how a server is doing."""
        await self._writer.write(apply=lambda c: self._write_status(c, status))

    async def statuses(self) -> Sequence[ServerStatus]:
        """The last report of each server, by name."""
        return await self._readers.read(self._statuses)


class SqlSecrets(Generic[C]):
    """Implements :class:`pml_hookspecs.store.Secrets`. What protects the values are the rights to the database."""

    def __init__(
        self,
        writer: Writer[C],
        readers: Readers[C],
        *,
        write: Callable[[C, str, str, str | None], object],
        read: Callable[[C, str, str], str | None],
    ) -> None:
        """Use the store's threads and these statements."""
        self._writer, self._readers, self._write, self._read = writer, readers, write, read

    async def get(self, owner: str, name: str) -> str | None:
        """What is kept; None when there is nothing."""
        return await self._readers.read(lambda c: self._read(c, owner, name))

    async def put(self, owner: str, name: str, value: str | None) -> None:
        """Keep ``value``; None forgets. Durable when it returns.

        Raises:
            StoreError: The database cannot be written just now.
        """
        await self._writer.write(apply=lambda c: self._write(c, owner, name, value))
