"""Rows: canonical JSON, each with the SHA-256 of the one before and its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pml_hookspecs import Session

BEGINNING = "0" * 64
"""What the first row has in place of the hash of the one before."""
SEALS = frozenset({"n", "previous", "hash"})


class Tip(NamedTuple):
    """The last row of a chain."""

    n: int
    """Its number; 0 when there is none."""
    hash: str


START = Tip(0, BEGINNING)


class InvalidRowError(Exception):
    """A line that is no row. The message says why."""


def canonical(value: Mapping[str, Any]) -> bytes:
    """The one spelling of ``value``: sorted names, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict).encode()


def seal(about: Mapping[str, Any], tip: Tip) -> tuple[bytes, Tip]:
    """The line of the row that comes after ``tip``, and the new tip."""
    row = {**about, "n": tip.n + 1, "previous": tip.hash}
    row["hash"] = hashlib.sha256(canonical(row)).hexdigest()
    return canonical(row) + b"\n", Tip(tip.n + 1, row["hash"])


def read(line: bytes) -> dict[str, Any]:
    """The row that a line holds, without its line feed; that it follows another is not looked at.

    Raises:
        InvalidRowError: It is not as it was written.
    """
    try:
        row: Any = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise InvalidRowError("the line is not JSON of a row")
    number, previous, sealed = row.get("n"), row.get("previous"), row.get("hash")
    if type(number) is not int or not isinstance(previous, str) or not isinstance(sealed, str):
        raise InvalidRowError("the row has no number, or no hash of its own or of the row before")
    # A reader takes the last of two members of one name: what was hashed is what stands there, byte for byte.
    if canonical(row) != line:
        raise InvalidRowError(f"row {number} is not spelt as it was written")
    bare = {name: value for name, value in row.items() if name != "hash"}
    if hashlib.sha256(canonical(bare)).hexdigest() != sealed:
        raise InvalidRowError(f"row {number} was changed: its hash does not fit")
    return row


def tip_of(row: Mapping[str, Any]) -> Tip:
    """Number and hash of a row."""
    return Tip(row["n"], row["hash"])


def who(session: Session) -> dict[str, Any]:
    """What rows say of whoever asks."""
    return {
        "principal": session.principal,
        "key": session.access_key,
        "agent": session.agent,
        "client": session.client,
        "endpoint": session.endpoint,
    }
