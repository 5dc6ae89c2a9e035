"""The dialect of PostgreSQL: what a query asks for, as conditions on its rows, and texts and marks as it can hold them.

Texts of the catalog and of secrets are bytes, so that any text comes back as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pml_stores.sql.query_builder import Condition, QueryBuilder
from pml_stores.values import blob, unblob

if TYPE_CHECKING:
    from pml_stores.documents import Draft

NAME_BYTES = 480
"""Longest text in an index [bytes]; five of them have to fit into one entry, which PostgreSQL limits to 2704 bytes."""


class Builder(QueryBuilder):
    """A mark is the digest of collection, name and text, which may be longer than an entry of an index."""

    driver = "postgres"
    yes, no = "{}", "NOT {}"
    # With the longest key, what fits into an entry of an index.
    most_collection_bytes = 400
    document = "id"
    mark_place = ("id", "document AS id")
    one_mark = "mark = ?"
    forget_marks = (
        "DELETE FROM document_mark WHERE document IN (SELECT id FROM document WHERE collection = ? AND key = ?)"
    )
    add_mark = (
        "INSERT INTO document_mark (mark, key, changed_at, expires_at, document) "
        "SELECT ?, key, ?::int8, ?::int8, id FROM document WHERE collection = ? AND key = ?"
    )

    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
        # In binary form: JSON comes as it is stored.
        return connection.execute(sql.replace("?", "%s"), values, binary=True)

    def execute_many(self, connection: Any, sql: str, rows: Sequence[Any]) -> None:
        if rows:
            connection.cursor().executemany(sql.replace("?", "%s"), rows)

    def text(self, text: str) -> str:
        return name(text)

    def restored(self, text: str) -> str:
        return restored(text)

    def clean(self, text: str) -> str:
        return clean(text)

    def key(self, text: str) -> bytes:
        return blob(text)

    def restored_key(self, stored: bytes) -> str:
        return unblob(stored)

    def secret(self, owner: str, name: str) -> Mapping[str, bytes]:
        # A digest, as the names may be longer than an entry of an index. The length keeps owner and name apart.
        first = blob(owner)
        return {"place": sha256(b"%d %s%s" % (len(first), first, blob(name))).digest()}

    def mark(self, collection: bytes, name: str, text: str) -> tuple[bytes, ...]:
        named = blob(name)
        return (sha256(b"%d %d %s%s%s" % (len(collection), len(named), collection, named, blob(text))).digest()[:16],)

    def mark_row(self, draft: Draft, mark: tuple[bytes, ...]) -> tuple[Any, ...]:
        return *mark, draft.changed_at, draft.expires_at, blob(draft.collection), blob(draft.key)

    def among(self, column: str, texts: Sequence[str]) -> Condition:
        return Condition(f"{column} = ANY(?)", (list(texts),))

    def target(self, target: str) -> Condition:
        # The first two are an index, of whose server's tools the third are some.
        server = Condition("split_part(target, ':', 1) = ?", (name(target).partition(":")[0],))
        return Condition("kind = 'tool'") & server & self.tool("target", target)


BUILDER = Builder()


def clean(text: str) -> str:
    """``text`` as a column of type ``text`` can hold it; sorts as before.

    Lone surrogates, which have no UTF-8 form, are written out as escapes. NUL, which PostgreSQL does not take, becomes
    a pair of control characters that :func:`restored` knows.
    """
    if text.isascii():
        if text.isprintable():
            return text
    else:
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\1", "\1\2").replace("\0", "\1\1")


def restored(text: str) -> str:
    """The inverse of :func:`clean`."""
    if "\1" not in text:
        return text
    return text.replace("\1\1", "\0").replace("\1\2", "\1")


@lru_cache(maxsize=1024)
def name(text: str) -> str:
    """As :func:`clean`, for a text in an index: one that is too long is cut, and told from others by a digest."""
    text = clean(text)
    if len(text) * 4 <= NAME_BYTES or len(encoded := text.encode()) <= NAME_BYTES:
        return text
    digest = sha256(encoded).hexdigest()
    return encoded[: NAME_BYTES - len(digest) - 3].decode(errors="ignore") + "…" + digest
