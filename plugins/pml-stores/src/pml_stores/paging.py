"""Pages of what is sorted by a time and a key, newest first."""

from __future__ import annotations

from datetime import datetime

MARK = "before"
MOST_COUNTED = 1000
"""Number up to which what is found by text is counted; see :class:`pml_hookspecs.Page`."""


def check_limit(limit: int, most: int) -> None:
    """See that a page of this size may be asked for.

    Raises:
        ValueError: It may not.
    """
    if not 1 <= limit <= most:
        raise ValueError(f"`limit` must be 1 to {most}, not {limit}")


def write_cursor(at: datetime, key: str) -> str:
    """The place right after what has this time and key."""
    return f"{MARK} {at.isoformat()} {key}"


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """The inverse of :func:`write_cursor`.

    Raises:
        ValueError: It wrote no such thing.
    """
    mark, _, rest = cursor.partition(" ")
    time, _, key = rest.partition(" ")
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        at = None
    if mark != MARK or at is None or at.tzinfo is None:
        raise ValueError("`cursor` is not one that this store gave; leave it out to start at the newest")
    return at, key
