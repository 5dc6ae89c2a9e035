"""Secrets: the statements.

All three columns are BLOBs, so that any text comes back as it was: NUL and lone surrogates included. What protects the
values is the mode of the file, 0600.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3


def _blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def write(connection: sqlite3.Connection, owner: str, name: str, value: str | None) -> None:
    """Keep ``value`` instead of what was there; None forgets it."""
    if value is None:
        connection.execute("DELETE FROM secret WHERE owner = ? AND name = ?", [_blob(owner), _blob(name)])
    else:
        connection.execute(
            "INSERT OR REPLACE INTO secret (owner, name, value) VALUES (?, ?, ?)",
            [_blob(owner), _blob(name), _blob(value)],
        )


def read(connection: sqlite3.Connection, owner: str, name: str) -> str | None:
    """What is kept; None when there is nothing."""
    row = connection.execute(
        "SELECT value FROM secret WHERE owner = ? AND name = ?", [_blob(owner), _blob(name)]
    ).fetchone()
    return None if row is None else bytes(row[0]).decode("utf-8", "surrogatepass")
