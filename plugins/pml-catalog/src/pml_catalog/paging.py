"""Pages of lists: our own, under cursors of our own, and those of a server (MCP, pagination)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, TypeVar

from pml_hookspecs import RpcError, encode
from pml_kit.mcp.protocol import INVALID_PARAMS

from .lengths import bounded

T = TypeVar("T")
STALE = "the list has changed, or the cursor is not from here; begin again without a cursor"


class ServerList(list[T]):
    """A list as a server gave it, and in which pages."""

    ends: Sequence[tuple[str, int]] = ()
    """Of each page but the last: the cursor of the one behind it, and how many items there are up to its end. Empty
    where there was one page, or where the cursors do not tell the pages apart."""
    fresh_until_s: float = 0.0
    """Until when it is fresh, as the server said (``ttlMs``), on the loop's clock [s]; 0 where it did not."""

    @classmethod
    def of(cls, items: Iterable[T], given: ServerList[Any], places: Sequence[int]) -> ServerList[T]:
        """What became of some of the items of another list, in its pages; ``places`` are theirs in that one."""
        made = cls(items)
        made.ends = [(cursor, bisect_left(places, end)) for cursor, end in given.ends]
        made.fresh_until_s = given.fresh_until_s
        return made

    def fresh_ms(self, most_s: float) -> int:
        """For how long it is fresh from now on, in whole seconds as ages are told (HTTP), ``most_s`` at most [ms]."""
        left_s = min(self.fresh_until_s - asyncio.get_running_loop().time(), most_s)
        return 1000 * max(0, ceil(left_s))


def page(items: Sequence[T], cursor: Any, size: int, fingerprint: str | None = None) -> tuple[Sequence[T], str | None]:
    """The page of ``items`` that ``cursor`` stands for, and the next page's cursor; None on the last one.

    Args:
        items: The whole list, in the order shown.
        cursor: None for the first page.
        size: Items on a page; 0 for all on one.
        fingerprint: Changes with the list; worked out when not given.

    Raises:
        RpcError: The cursor does not belong to this list as it is now.
    """
    if cursor is None and not 0 < size < len(items):
        return items, None
    mark = fingerprint or hashlib.sha256(encode(list(items))).hexdigest()[:16]
    begin = 0 if cursor is None else _read(cursor, mark, len(items))
    end = begin + (size or len(items))
    return items[begin:end], (_write(mark, end) if end < len(items) else None)


def servers_page(items: Sequence[T], cursor: Any, ends: Sequence[tuple[str, int]]) -> tuple[Sequence[T], str | None]:
    """As :func:`page`, in the pages of a server and under its cursors; what is behind them is on the last one.

    Args:
        ends: Of each page but the last: the cursor of the one behind it, and how many items there are up to its end.
    """
    begins: dict[Any, int] = {None: 0, **dict(ends)}
    known = [*begins]
    if cursor is not None and (not isinstance(cursor, str) or cursor not in begins):
        raise RpcError(INVALID_PARAMS, f"Invalid cursor: {STALE}")
    place = known.index(cursor)
    if place == len(ends):
        return items[begins[cursor] :], None
    following, end = ends[place]
    return items[begins[cursor] : end], following


def _write(mark: str, begin: int) -> str:
    return base64.urlsafe_b64encode(f"{mark}:{begin}".encode()).decode()


def _read(cursor: Any, mark: str, length: int) -> int:
    bounded(cursor, "the cursor")
    try:
        written, _, begin = base64.urlsafe_b64decode(str(cursor)).decode().rpartition(":")
        if written == mark and 0 < (first := int(begin)) < length:
            return first
    except (ValueError, binascii.Error):
        pass
    raise RpcError(INVALID_PARAMS, f"Invalid cursor: {STALE}")
