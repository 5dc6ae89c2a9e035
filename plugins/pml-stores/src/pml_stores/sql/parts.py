"""Traces, the catalog, secrets and documents of a store on a database, and the statements of the first three."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from pml_hookspecs import CatalogEntry, Ended, ExecutionId, RawObject, ServerStatus, Span, Status, ToolId, encode
from pml_stores.documents import CheckedDocuments, Draft
from pml_stores.values import Row, as_object, blob, unblob

from .database import C
from .query_builder import Condition

if TYPE_CHECKING:
    from pml_hookspecs import Document, Page, Scope

    from .document_rows import DocumentRows
    from .query_builder import QueryBuilder
    from .readers import Readers
    from .writer import Writer

SWEEP_S = 60.0
"""Between two times that something expired is looked for."""
SPAN_COLUMNS = (
    *("trace_id", "span_id", "parent_id", "name", "kind", "execution", "start_ns", "end_ns", "status"),
    *("attributes", "end_attributes"),
)
TOOL_COLUMNS = ("server", "fingerprint", "id", "definition", "tokens", "digest", "meta")
STATUS_COLUMNS = ("name", "state", "reason", "tools", "restarts", "description")


class PartRows:
    """The statements. Values stand as ``?``. Runs in the writer's and the readers' threads."""

    def __init__(self, builder: QueryBuilder) -> None:
        """In this dialect."""
        self.builder, self.text, self.restored = builder, builder.clean, builder.restored
        self.name, self.restored_name = builder.key, builder.restored_key

    def write_spans(self, connection: Any, spans: Iterable[Ended]) -> None:
        """Insert ``spans``; those that are there already stay as they are."""
        self._insert(connection, "span", SPAN_COLUMNS, map(self._span_row, spans), "ON CONFLICT DO NOTHING")

    def _insert(
        self, connection: Any, table: str, columns: Sequence[str], rows: Iterable[Row], conflict: str = ""
    ) -> None:
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) {conflict}"
        self.builder.execute_many(connection, sql, list(rows))

    def _span_row(self, ended: Ended) -> Row:
        span, name = ended.span, self.builder.text
        return (
            name(span.trace_id),
            name(span.span_id),
            name(span.parent_id) if span.parent_id else None,
            self.text(span.name),
            self.text(span.kind),
            name(span.execution) if span.execution else None,
            span.start_ns,
            ended.end_ns,
            str(ended.status),
            encode(span.attributes) if span.attributes else None,
            encode(ended.attributes) if ended.attributes else None,
        )

    def spans(self, connection: Any, execution: ExecutionId, scope: Scope) -> list[Ended]:
        """In start order. System scope also sees spans whose execution was never recorded."""
        found = self.builder.any_of("span.execution", (execution,))
        if scope.principals is not None:
            seen = self.builder.scope(scope)
            there = f"EXISTS (SELECT 1 FROM execution AS e WHERE e.id = span.execution AND {seen.sql})"
            found &= Condition(there, seen.values)
        sql = f"SELECT {', '.join(SPAN_COLUMNS)} FROM span WHERE {found.sql} ORDER BY start_ns, span_id"
        return [self._span(row) for row in self.builder.execute(connection, sql, found.values).fetchall()]

    def _span(self, row: Row) -> Ended:
        values = dict(zip(SPAN_COLUMNS, row, strict=True))
        end_ns, status, at_end = (values.pop(name) for name in ("end_ns", "status", "end_attributes"))
        values |= {"name": self.restored(values["name"]), "kind": self.restored(values["kind"])}
        span = Span(**{**values, "attributes": as_object(values["attributes"])})
        return Ended(span=span, end_ns=end_ns, status=Status(status), attributes=as_object(at_end))

    def write_tools(self, connection: Any, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has."""
        place = self.name(server), self.name(fingerprint)
        # By id: a server that lists a name twice means the last one, like a JSON object with a member twice.
        named = {self.name(e.id): e for e in entries}
        rows = [
            (*place, id_, encode(e.definition), e.tokens, self.text(e.digest), bool(e.meta)) for id_, e in named.items()
        ]
        self.builder.execute(connection, "DELETE FROM catalog_tool WHERE server = ?", place[:1])
        self._insert(connection, "catalog_tool", TOOL_COLUMNS, rows)

    def tools(self, connection: Any, server: str, fingerprint: str) -> list[CatalogEntry]:
        """By name; their definitions are decoded on first use."""
        columns = ", ".join(TOOL_COLUMNS)
        sql = f"SELECT {columns} FROM catalog_tool WHERE server = ? AND fingerprint = ? ORDER BY id"
        rows = self.builder.execute(connection, sql, (self.name(server), self.name(fingerprint))).fetchall()
        text = self.restored_name
        return [
            CatalogEntry(ToolId(text(id_)), text(of), RawObject(raw), tokens, self.restored(digest), bool(meta))
            for of, _, id_, raw, tokens, digest, meta in rows
        ]

    def write_status(self, connection: Any, status: ServerStatus) -> None:
        """Insert or replace by name."""
        name, reason, description = map(self.name, (status.name, status.reason, status.description))
        self.builder.execute(connection, "DELETE FROM server_status WHERE name = ?", (name,))
        row = (name, status.state, reason, status.tools, status.restarts, description)
        self._insert(connection, "server_status", STATUS_COLUMNS, [row])

    def statuses(self, connection: Any) -> list[ServerStatus]:
        """The last one of each server, by name."""
        sql = f"SELECT {', '.join(STATUS_COLUMNS)} FROM server_status ORDER BY name"
        rows = (dict(zip(STATUS_COLUMNS, row, strict=True)) for row in self.builder.execute(connection, sql).fetchall())
        texts = ("name", "reason", "description")
        return [ServerStatus(**{**row, **{text: self.restored_name(row[text]) for text in texts}}) for row in rows]

    def write_secret(self, connection: Any, owner: str, name: str, value: str | None) -> None:
        """Keep ``value`` instead of what was there; None forgets it."""
        found, which = self._secret(owner, name)
        self.builder.execute(connection, f"DELETE FROM secret WHERE {which}", tuple(found.values()))
        if value is not None:
            row = {**found, "owner": blob(owner), "name": blob(name), "value": blob(value)}
            self._insert(connection, "secret", tuple(row), [tuple(row.values())])

    def read_secret(self, connection: Any, owner: str, name: str) -> str | None:
        """What is kept; None when there is nothing."""
        found, which = self._secret(owner, name)
        sql = f"SELECT value FROM secret WHERE {which}"
        row = self.builder.execute(connection, sql, tuple(found.values())).fetchone()
        return None if row is None else unblob(row[0])

    def _secret(self, owner: str, name: str) -> tuple[Mapping[str, bytes], str]:
        found = self.builder.secret(owner, name)
        return found, " AND ".join(f"{column} = ?" for column in found)


class SqlPart(Generic[C]):
    """A part with the store's threads and its statements."""

    def __init__(self, writer: Writer[C], readers: Readers[C], rows: PartRows) -> None:
        """Use these."""
        self._writer, self._readers, self._rows = writer, readers, rows


class SqlTraces(SqlPart[C]):
    """Implements :class:`pml_hookspecs.Traces`."""

    async def append(self, spans: Sequence[Ended]) -> None:
        """Add finished spans; those known already stay as they are."""
        await self._writer.write(apply=lambda c: self._rows.write_spans(c, spans))

    async def of(self, execution: ExecutionId, scope: Scope) -> Sequence[Ended]:
        """Spans of one execution in start order."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: self._rows.spans(c, execution, scope))


class SqlCatalog(SqlPart[C]):
    """Implements :class:`pml_hookspecs.CatalogCache`."""

    async def replace(self, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has, in one transaction."""
        await self._writer.write(apply=lambda c: self._rows.write_tools(c, server, fingerprint, entries))

    async def entries(self, server: str, fingerprint: str) -> Sequence[CatalogEntry]:
        """By tool name; empty when nothing is known under this fingerprint."""
        return await self._readers.read(lambda c: self._rows.tools(c, server, fingerprint))

    async def report(self, status: ServerStatus) -> None:
        """Remember how a server is doing."""
        await self._writer.write(apply=lambda c: self._rows.write_status(c, status))

    async def statuses(self) -> Sequence[ServerStatus]:
        """The last report of each server, by name."""
        return await self._readers.read(self._rows.statuses)


class SqlSecrets(SqlPart[C]):
    """Implements :class:`pml_hookspecs.store.Secrets`. What protects the values are the rights to the database."""

    async def get(self, owner: str, name: str) -> str | None:
        """What is kept; None when there is nothing."""
        return await self._readers.read(lambda c: self._rows.read_secret(c, owner, name))

    async def put(self, owner: str, name: str, value: str | None) -> None:
        """Keep ``value``; None forgets. Durable when it returns."""
        await self._writer.write(apply=lambda c: self._rows.write_secret(c, owner, name, value))


class SqlDocuments(CheckedDocuments, Generic[C]):
    """Those of a store on a database; StoreError while it cannot be written."""

    def __init__(self, writer: Writer[C], readers: Readers[C], statements: DocumentRows) -> None:
        """Use the store's threads and these statements."""
        self._writer, self._readers, self.statements = writer, readers, statements
        self.most_collection_bytes = statements.most_collection_bytes
        self._next_sweep = 0.0

    def _now(self) -> int:
        return self.statements.now()

    async def _keep(self, draft: Draft, if_version: int | None) -> int | None:
        version: int | None = await self._writer.write(apply=lambda c: self._write(c, draft, if_version))
        return version

    def _keep_soon(self, draft: Draft) -> None:
        self._writer.write_later(partial(self._write, draft=draft), document=f"{draft.collection} {draft.key}")

    def _refuse(self, exc: Exception, document: str) -> None:
        self._writer.refuse(exc, document=document)

    def _write(self, connection: C, draft: Draft, if_version: int | None = None) -> int | None:
        version = self.statements.write(connection, draft, if_version)
        # Now and then, while something is written anyway, delete what has expired.
        if time.monotonic() >= self._next_sweep and not self.statements.sweep(connection):
            self._next_sweep = time.monotonic() + SWEEP_S
        return version

    async def get(self, collection: str, key: str) -> Document | None:
        """None when there is none."""
        await self._writer.catch_up()
        return await self._readers.read(lambda c: self.statements.get(c, collection, key))

    async def _found(self, collection: str, marks: Mapping[str, str], limit: int, cursor: str | None) -> Page[Document]:
        if cursor is not None:
            self.statements.read_cursor(cursor)
        await self._writer.catch_up()
        return await self._readers.read(lambda c: self.statements.find(c, collection, marks, limit, cursor))

    async def delete(self, collection: str, key: str) -> bool:
        """Whether there was one; durable when it returns."""
        return bool(await self._writer.write(apply=lambda c: self.statements.delete(c, collection, key)))

    async def _pruned(self, collection: str, keep: int) -> int:
        return int(await self._writer.write(apply=lambda c: self.statements.prune(c, collection, keep)))

    async def sweep(self) -> None:
        """Delete what has expired, in any collection, a little at a time."""
        while await self._writer.write(apply=self.statements.sweep):
            pass
