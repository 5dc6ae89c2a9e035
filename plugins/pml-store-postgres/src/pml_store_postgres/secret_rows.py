"""Secrets: the statements.

All columns are bytes, so that any text comes back as it was: NUL and lone surrogates included. What protects the values
are the rights of the database.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from .queries import rows_of
from .texts import blob, unblob

if TYPE_CHECKING:
    from psycopg import Connection


def _place(owner: str, name: str) -> bytes:
    # The length keeps owner and name apart: any text may be in either.
    first = blob(owner)
    return sha256(b"%d %s%s" % (len(first), first, blob(name))).digest()


def write(connection: Connection[Any], owner: str, name: str, value: str | None) -> None:
    """Keep ``value`` instead of what was there; None forgets it."""
    if value is None:
        connection.execute("DELETE FROM secret WHERE place = %s", [_place(owner, name)])
    else:
        connection.execute(
            "INSERT INTO secret (place, owner, name, value) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (place) DO UPDATE SET value = excluded.value",
            [_place(owner, name), blob(owner), blob(name), blob(value)],
        )


def read(connection: Connection[Any], owner: str, name: str) -> str | None:
    """What is kept; None when there is nothing."""
    rows = rows_of(connection, "SELECT value FROM secret WHERE place = %s", [_place(owner, name)])
    return unblob(rows[0][0]) if rows else None
