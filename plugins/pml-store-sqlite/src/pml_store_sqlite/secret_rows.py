"""Secrets: the statements, and the part of the store that runs them.

All three columns are BLOBs, so that any text comes back as it was: NUL and lone surrogates included.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from .readers import Readers
    from .writer import Writer


def _blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _write(connection: sqlite3.Connection, owner: str, name: str, value: str | None) -> None:
    if value is None:
        connection.execute("DELETE FROM secret WHERE owner = ? AND name = ?", [_blob(owner), _blob(name)])
    else:
        connection.execute(
            "INSERT OR REPLACE INTO secret (owner, name, value) VALUES (?, ?, ?)",
            [_blob(owner), _blob(name), _blob(value)],
        )


def _read(connection: sqlite3.Connection, owner: str, name: str) -> str | None:
    row = connection.execute(
        "SELECT value FROM secret WHERE owner = ? AND name = ?", [_blob(owner), _blob(name)]
    ).fetchone()
    return None if row is None else bytes(row[0]).decode("utf-8", "surrogatepass")


class SqliteSecrets:
    """Implements :class:`pml_hookspecs.store.Secrets`. What protects the values is the mode of the file, 0600."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        """Use the store's threads."""
        self._writer, self._readers = writer, readers

    async def get(self, owner: str, name: str) -> str | None:
        """What is kept; None when there is nothing."""
        return await self._readers.read(lambda connection: _read(connection, owner, name))

    async def put(self, owner: str, name: str, value: str | None) -> None:
        """Keep ``value``; None forgets. Durable when it returns.

        Raises:
            StoreError: The file cannot be written just now.
        """
        await self._writer.write(apply=partial(_write, owner=owner, name=name, value=value))
