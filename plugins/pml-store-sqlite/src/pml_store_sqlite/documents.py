"""Documents: the part of the store that keeps what plugins keep."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from pml_stores.documents import SqlDocuments

from . import document_rows
from .document_rows import DocumentCursor, Draft, blob
from .row_values import micros

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class SqliteDocuments(SqlDocuments[sqlite3.Connection, Draft, DocumentCursor]):
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
        return Draft(
            collection=blob(collection),
            key=blob(key),
            value=value,
            marks=marks,
            changed_at=changed_at,
            expires_at=None if expires_at is None else micros(expires_at),
        )
