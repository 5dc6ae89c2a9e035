"""Documents: the part of the store that keeps what plugins keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pml_stores.documents import SqlDocuments

from . import document_rows
from .document_rows import DocumentCursor, Draft, draft_marks
from .rows import micros
from .texts import blob

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from .connection import ServerConnection

    Open: TypeAlias = ServerConnection

MAX_COLLECTION_BYTES = 400
"""With the longest key, what fits into an entry of an index."""


class PostgresDocuments(SqlDocuments["Open", Draft, DocumentCursor]):
    """Implements :class:`pml_hookspecs.Documents`."""

    statements = document_rows

    def draft(
        self,
        collection: str,
        key: str,
        value: bytes,
        marks: Mapping[str, str],
        *,
        changed_at: int,
        expires_at: datetime | None,
    ) -> Draft:
        where = blob(collection)
        if len(where) > MAX_COLLECTION_BYTES:
            raise ValueError(f"`collection` has {len(where)} bytes; at most {MAX_COLLECTION_BYTES} can be kept")
        kept_marks, digests = draft_marks(where, marks)
        return Draft(
            collection=where,
            key=blob(key),
            value=value,
            marks=kept_marks,
            digests=digests,
            changed_at=changed_at,
            expires_at=None if expires_at is None else micros(expires_at),
        )
