"""Pages of what is sorted by a time and a key, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from pml_hookspecs import Page

T = TypeVar("T")
MARK = "before"


def page_of(items: Iterable[tuple[datetime, str, T]], limit: int, most: int, cursor: str | None) -> Page[T]:
    """Items with their time and key, in any order.

    Raises:
        ValueError: ``limit`` is not 1 to ``most``, or the cursor is not of an earlier page.
    """
    if not 1 <= limit <= most:
        raise ValueError(f"limit must be 1 to {most}, not {limit}")
    ordered = sorted(items, key=lambda item: item[:2], reverse=True)
    before = None if cursor is None else _read(cursor)
    rest = [item for item in ordered if before is None or item[:2] < before]
    page = rest[:limit]
    more = f"{MARK} {page[-1][0].isoformat()} {page[-1][1]}" if len(rest) > limit else None
    return Page([item[2] for item in page], more, len(ordered))


def _read(cursor: str) -> tuple[datetime, str]:
    mark, _, rest = cursor.partition(" ")
    at, _, key = rest.partition(" ")
    try:
        when = datetime.fromisoformat(at)
    except ValueError:
        when = None
    if mark != MARK or when is None or when.tzinfo is None:
        raise ValueError("the cursor is not one of this store's")
    return when, key
