"""Pages of our own lists, under cursors of our own (MCP, pagination)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

from pml_hookspecs import RpcError, encode
from pml_hookspecs.protocol import INVALID_PARAMS

from .lengths import bounded

T = TypeVar("T")
STALE = "the list has changed, or the cursor is not from here; begin again without a cursor"


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
