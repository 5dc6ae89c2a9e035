"""Changes of a store as lines of JSON, ``["secret", ["http", "git"], "…"]``, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
    defaults,
    encode,
)

from .matching import OPEN

if TYPE_CHECKING:
    from .changes import Change, Key

TYPES = (CatalogEntry, Document, Ended, ExecutionRecord, Failure, ServerStatus, Span)
DEFAULTS: Mapping[type[Any], Mapping[str, Any]] = {kind: defaults(kind) for kind in TYPES}
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


_MEMBERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("started_at", "created_at", "changed_at", "expires_at"), datetime.fromisoformat),
    "status": _status,
    "failure": lambda members: Failure(**members),
    "span": lambda members: Span(**members),
    "tool_calls": tuple,
    "value": lambda value: RawObject(encode(value)),
}
"""What is made of members with these names."""


def _of(kind: type[Any]) -> Callable[[Any], Any]:
    def made(members: Mapping[str, Any]) -> Any:
        kept = (name for name, member in members.items() if member is not None and name in _MEMBERS)
        return kind(**{**members, **{name: _MEMBERS[name](members[name]) for name in kept}})

    return made


_MADE: Mapping[str, Callable[[Any], Any]] = {
    "execution": _of(ExecutionRecord),
    "span": _of(Ended),
    "document": _of(Document),
    "server": _of(ServerStatus),
    "tools": lambda value: (value[0], [CatalogEntry(**members) for members in value[1]]),
    "secret": str,
}
