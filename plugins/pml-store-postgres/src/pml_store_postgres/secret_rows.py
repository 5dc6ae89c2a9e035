"""Secrets: the statements, and the part of the store that runs them.

All columns are bytes, so that any text comes back as it was: NUL and lone surrogates included.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from .queries import rows_of
from .texts import blob, unblob

if TYPE_CHECKING:
    from psycopg import Connection

    from .readers import Readers
    from .writer import Writer


def _place(owner: str, name: str) -> bytes:
    # The length keeps owner and name apart: any text may be in either.
    first = blob(owner)
    return sha256(b"%d %s%s" % (len(first), first, blob(name))).digest()


def _write(connection: Connection[Any], owner: str, name: str, value: str | None) -> None:
    if value is None:
        connection.execute("DELETE FROM secret WHERE place = %s", [_place(owner, name)])
    else:
        connection.execute(
            "INSERT INTO secret (place, owner, name, value) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (place) DO UPDATE SET value = excluded.value",
            [_place(owner, name), blob(owner), blob(name), blob(value)],
        )


def _read(connection: Connection[Any], owner: str, name: str) -> str | None:
    rows = rows_of(connection, "SELECT value FROM secret WHERE place = %s", [_place(owner, name)])
    return unblob(rows[0][0]) if rows else None


class PostgresSecrets:
    """Implements :class:`pml_hookspecs.store.Secrets`. What protects the values are the rights of the database."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        """Use the store's threads."""
        self._writer, self._readers = writer, readers

    async def get(self, owner: str, name: str) -> str | None:
        """What is kept; None when there is nothing."""
        return await self._readers.read(lambda connection: _read(connection, owner, name))

    async def put(self, owner: str, name: str, value: str | None) -> None:
        """Keep ``value``; None forgets. Durable when it returns.

        Raises:
            StoreError: The database cannot be written just now.
        """
        await self._writer.write(apply=partial(_write, owner=owner, name=name, value=value))
