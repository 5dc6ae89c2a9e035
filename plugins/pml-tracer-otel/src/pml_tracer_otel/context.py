"""Trace context of W3C, as it travels in ``_meta``: read from clients, written for servers."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pml_hookspecs import ToolCall, replace

from .names import BAGGAGE, TRACEPARENT, TRACESTATE

PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
NO_TRACE, NO_SPAN = "0" * 32, "0" * 16
KEYS = frozenset({TRACEPARENT, TRACESTATE, BAGGAGE})
SAMPLED, RANDOM = 1, 2
"""Trace flags."""
MOST_STATE, MOST_BAGGAGE = 512, 8192
"""Longest that is handed on [characters]."""
RANDOM_DIGITS, RANDOM_BITS = 14, 56
"""The end of a trace id that is random (W3C Trace Context level 2)."""


class RemoteContext(NamedTuple):
    """What a client says about its trace."""

    trace_id: str
    span_id: str
    flags: int
    state: str
    baggage: str


class Trace:
    """What the spans of one trace in this gateway share."""

    __slots__ = ("baggage", "id", "link", "parent_id", "random", "sampled", "state")

    def __init__(self, id: str, *, sampled: bool) -> None:
        """A trace that begins here."""
        self.id, self.sampled = id, sampled
        self.random = True
        self.parent_id: str | None = None
        """The client's span; None when it did not tell, or its trace does not go on here."""
        self.state = self.baggage = ""
        self.link: tuple[str, str] | None = None
        """Trace and span of a client whose trace does not go on here."""

    def follow(self, remote: RemoteContext) -> None:
        """Be part of a client's trace."""
        self.id, self.parent_id = remote.trace_id, remote.span_id
        self.random, self.state = bool(remote.flags & RANDOM), remote.state

    def parent(self, span_id: str) -> str:
        """``traceparent`` of what ``span_id`` asks for."""
        flags = (SAMPLED if self.sampled else 0) | (RANDOM if self.random else 0)
        return f"00-{self.id}-{span_id}-{flags:02x}"


def remote_of(meta: Any) -> RemoteContext | None:
    """The trace that a request's ``_meta`` tells of; None when it tells of none that can be understood."""
    parent = meta.get(TRACEPARENT) if isinstance(meta, Mapping) else None
    found = PARENT.fullmatch(parent) if isinstance(parent, str) else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace_id == NO_TRACE or span_id == NO_SPAN:
        return None
    return RemoteContext(trace_id, span_id, int(flags, 16), _text(meta, TRACESTATE, MOST_STATE), baggage_of(meta))


def baggage_of(meta: Any) -> str:
    """The client's baggage; ``""`` when there is none, or too much."""
    return _text(meta, BAGGAGE, MOST_BAGGAGE) if isinstance(meta, Mapping) else ""


def _text(meta: Mapping[str, Any], key: str, longest: int) -> str:
    value = meta.get(key)
    return value if isinstance(value, str) and len(value) <= longest and value.isprintable() else ""


def kept(trace_id: str, ratio: float) -> bool:
    """Whether the trace is among the ``ratio`` that is kept; every participant that asks like this agrees.

    Counts the random end of the id only: the gateway's ids begin with the time, and a digit in the middle is fixed.
    """
    if ratio >= 1:
        return True
    return int(trace_id[-RANDOM_DIGITS:], 16) >= round((1 - ratio) * (1 << RANDOM_BITS))


def new_span_id() -> str:
    """16 random hexadecimal digits, not all zero."""
    return f"{random.getrandbits(64) or 1:016x}"


def with_context(task: ToolCall, trace: Trace, span_id: str, *, baggage: bool) -> ToolCall:
    """``task`` with the trace in its ``_meta``, in place of the one that was there."""
    meta = task.extra.get("_meta") if task.extra else None
    told: dict[str, Any] = {}
    if meta is not None:
        if not isinstance(meta, Mapping):
            return task
        told = {key: value for key, value in meta.items() if key not in KEYS}
    told[TRACEPARENT] = trace.parent(span_id)
    if trace.state:
        told[TRACESTATE] = trace.state
    if baggage and trace.baggage:
        told[BAGGAGE] = trace.baggage
    extra = {**task.extra, "_meta": told} if task.extra else {"_meta": told}
    return replace(task, extra=extra)
