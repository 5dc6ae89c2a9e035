"""What makes two calls the same: digests over canonical JSON (in the manner of RFC 8785)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, ToolCall

MOST_EXACT = 2.0**53
"""Whole numbers up to here have one reading as a float."""


_write = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def canonical(value: Any) -> bytes:
    """JSON text that is the same for equal values: members sorted, ``1.0`` written as ``1``."""
    return _write(_plain(value)).encode()


def _plain(value: Any) -> Any:
    if type(value) in (str, int, bool, NoneType):
        return value
    if type(value) is dict or isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= MOST_EXACT:
        return int(value)
    return value


def extra_of(task: ToolCall) -> dict[str, Any]:
    """Members of the request besides the arguments that count: all but ``_meta``, which changes from call to call."""
    return {name: member for name, member in task.extra.items() if name != "_meta"} if task.extra else {}


def call_digest(principal: str, tool: str, definition: str, arguments: Any, extra: Mapping[str, Any]) -> str:
    """Of one call: who makes it, which tool in which definition, with what. Hex."""
    parts = [principal, tool, definition, arguments, *([extra] if extra else [])]
    return hashlib.sha256(canonical(parts)).hexdigest()


@lru_cache(maxsize=4096)
def shape_digest(principal: str, tool: str, definition: str) -> str:
    """Digest of all calls of one tool in one definition by one caller. Hex."""
    return hashlib.sha256(canonical([principal, tool, definition])).hexdigest()


def shape_of(principal: str, entry: CatalogEntry) -> str:
    """As :func:`shape_digest`, of the tool as it is defined now."""
    return shape_digest(principal, entry.id, entry.digest)
