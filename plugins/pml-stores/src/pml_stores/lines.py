"""Changes of a store as lines of JSON, ``["secret", ["http", "git"], "…"]``, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    CatalogEntry,
    Document,
    Ended,
    ExecutionRecord,
    Failure,
    RawObject,
    ServerStatus,
    Span,
    Status,
    encode,
)

from .matching import OPEN

if TYPE_CHECKING:
    from .memory import Change, Key

TYPES = (CatalogEntry, Document, Ended, ExecutionRecord, Failure, ServerStatus, Span)
DEFAULTS: Mapping[type[Any], Mapping[str, Any]] = {
    kind: {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
        if field.init
    }
    for kind in TYPES
}
"""Default of each member of each type."""


def to_line(kind: str, key: Key, value: Any) -> bytes:
    """A change as JSON without a line break; what members are by default is left out.

    Raises:
        TypeError: It holds what JSON has no form for.
    """
    return encode([kind, key, _plain(value)])


def from_line(line: bytes) -> Change:
    """The change that :func:`to_line` wrote.

    Raises:
        ValueError: It is none.
    """
    try:
        kind, key, value = json.loads(line)
        return kind, tuple(key) if isinstance(key, list) else key, None if value is None else _MADE[kind](value)
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        raise ValueError(f"{line[:80]!r} is not a change of a store: {exc}") from exc


def _plain(value: Any) -> Any:
    """``value`` as JSON, as far as it is made of our types; the rest is :func:`encode`'s to judge."""
    defaults = DEFAULTS.get(type(value))
    if defaults is not None:
        members = ((name, default, getattr(value, name)) for name, default in defaults.items())
        return {name: _plain(member) for name, default, member in members if not _is_default(member, default)}
    if isinstance(value, tuple):
        return [_plain(member) for member in value]
    if isinstance(value, list) and value and type(value[0]) in DEFAULTS:
        return [_plain(member) for member in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _is_default(member: Any, default: Any) -> bool:
    # Not by ==, which would decode a RawObject.
    return member is default or (type(member) is type(default) and not member and not default)


def _status(text: str) -> Any:
    return text if text in OPEN else Status(text)


def _execution(members: dict[str, Any]) -> ExecutionRecord:
    _made(members, "started_at", datetime.fromisoformat)
    _made(members, "status", _status)
    _made(members, "failure", lambda failure: Failure(**failure))
    _made(members, "tool_calls", tuple)
    return ExecutionRecord(**members)


def _span(members: dict[str, Any]) -> Ended:
    _made(members, "span", lambda span: Span(**span))
    _made(members, "status", Status)
    return Ended(**members)


def _document(members: dict[str, Any]) -> Document:
    for name in ("created_at", "changed_at", "expires_at"):
        _made(members, name, datetime.fromisoformat)
    _made(members, "value", lambda value: RawObject(encode(value)))
    return Document(**members)


def _made(members: dict[str, Any], name: str, make: Callable[[Any], Any]) -> None:
    if members.get(name) is not None:
        members[name] = make(members[name])


_MADE: Mapping[str, Callable[[Any], Any]] = {
    "execution": _execution,
    "span": _span,
    "document": _document,
    "tools": lambda value: (value[0], [CatalogEntry(**members) for members in value[1]]),
    "server": lambda members: ServerStatus(**members),
    "secret": str,
}
