"""The dialect of SQLite: what a query asks for, as conditions on its rows, and how values and marks look."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pml_stores.matching import OPEN
from pml_stores.sql.query_builder import Condition, QueryBuilder, are_failed
from pml_stores.values import blob

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionQuery
    from pml_stores.documents import Draft


class Builder(QueryBuilder):
    """A mark has collection, name and text; a trigger deletes it with its document."""

    driver = "sqlite"
    yes, no = "{} = 1", "{} = 0"
    document = "rowid"
    mark_place = ("collection, key", "collection, key")
    one_mark = "collection = ? AND name = ? AND text = ?"
    forget_marks = "DELETE FROM document_mark WHERE collection = ? AND key = ?"
    add_mark = (
        "INSERT INTO document_mark (collection, name, text, key, changed_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)"
    )

    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
        return connection.execute(sql, values)

    def execute_many(self, connection: Any, sql: str, rows: Sequence[Any]) -> None:
        connection.executemany(sql, rows)

    def text(self, text: str) -> str:
        """As SQLite can hold it: lone surrogates, which have no UTF-8 form, are written out as escapes."""
        return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()

    def mark(self, collection: bytes, name: str, text: str) -> tuple[bytes, ...]:
        return collection, blob(name), blob(text)

    def mark_row(self, draft: Draft, mark: tuple[bytes, ...]) -> tuple[Any, ...]:
        return *mark, blob(draft.key), draft.changed_at, draft.expires_at

    def among(self, column: str, texts: Sequence[str]) -> Condition:
        # One value however many texts there are: SQLite limits their number.
        return Condition(f"{column} IN (SELECT value FROM json_each(?))", (json.dumps(texts),))  # noqa: S608 - names of ours

    def target(self, target: str) -> Condition:
        found = Condition("kind = 'tool'") & Condition("server = ?", (server_of(self.text(target)),))
        return found if target.endswith(":*") else found & Condition("target = ?", (self.text(target),))

    def source(self, query: ExecutionQuery) -> str:
        """Through the index where those that are asked for lie close together: SQLite has counted nothing."""
        return f"execution INDEXED BY execution_{_index(query)}"


BUILDER = Builder()


def server_of(target: str) -> str:
    """The server of this tool or, with ``server:*``, of these tools; ``""`` for what has none."""
    server, colon, _ = target.rpartition(":") if target.endswith(":*") else target.partition(":")
    return server if colon else ""


def _index(query: ExecutionQuery) -> str:
    statuses, scope = query.statuses, query.scope
    if query.parent is not None:
        return "by_parent"
    if statuses and set(map(str, statuses)) <= set(OPEN):
        return "open"
    if query.target is not None:
        return "by_server"
    if query.agent is not None:
        return "by_agent"
    if statuses is not None and are_failed(statuses):
        return "failed"
    # Of somebody who seldom does anything, they are not looked for among all.
    return "by_principal" if query.principal or (len(scope.principals or ()) == 1 and not scope.agents) else "by_time"
