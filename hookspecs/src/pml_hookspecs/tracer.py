"""Tracers: watch what the gateway does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    from .types import ExecutionId, Json, Status


class Span(Struct, frozen=True, kw_only=True):
    """Something that takes time. There is one span per dispatched task."""

    trace_id: str
    """32 lower-case hex digits, W3C Trace Context."""
    span_id: str
    """16 lower-case hex digits."""
    parent_id: str | None
    name: str
    """Low cardinality: ``"tools/call"``, ``"workflow"``; never with an argument value in it."""
    kind: str
    """``"server"`` (from a client) or ``"internal"`` (from another task)."""
    execution: ExecutionId | None
    start_ns: int
    """Unix time [ns]."""
    attributes: Mapping[str, Json] = field(default_factory=dict)
    """OpenTelemetry names where one exists (``gen_ai.tool.name``). Holds no arguments and no results."""


class Ended(Struct, frozen=True, kw_only=True):
    """How a span ended."""

    span: Span
    end_ns: int
    """Unix time [ns]; ``>= span.start_ns``."""
    status: Status
    attributes: Mapping[str, Json] = field(default_factory=dict)
    """Known only at the end, such as ``error.type``."""


class Tracer(Protocol):
    """Observes spans. Registered in ``pml.tracer``; any number run at once and cannot see each other.

    A class: ``Driver(settings, services)``. ``started`` and ``ended`` run in the request path: they do not block, do
    no I/O, and do not await. A tracer that ships spans somewhere puts them in a bounded buffer, drains it in the
    background (``services.spawn``), and counts what it drops. An exception is caught, logged once per minute, and
    changes nothing for the request.
    """

    def started(self, span: Span) -> None:
        """Called when a span starts, parents before children."""
        ...

    def ended(self, ended: Ended) -> None:
        """Called exactly once per started span, also on cancellation. Children may end after their parent."""
        ...

    async def flush(self) -> None:
        """Deliver what is buffered. Called on shutdown, while the store is still up; given 5 s."""
        return
