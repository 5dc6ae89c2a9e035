"""Says how each span ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_hookspecs import Ended, Services, Span

DEBUG = 10
"""``logging.DEBUG``, without importing :mod:`logging`."""

NANOSECONDS_PER_MS = 1_000_000


class LogTracer:
    """Implements :class:`pml_hookspecs.Tracer`: one line per finished span, warnings for those that did not end well.

    Keeps nothing back, so there is nothing to drop and nothing to flush.
    """

    def __init__(self, settings: None = None, services: Services | None = None) -> None:
        """Has no settings. Without ``services`` it says nothing."""
        log = None if services is None else services.log
        nothing: Callable[..., None] = lambda *_args, **_fields: None  # noqa: E731 - stands in for a method
        self._debug: Callable[..., None] = nothing if log is None else log.debug
        self._warning: Callable[..., None] = nothing if log is None else log.warning
        # Not every logger can be asked; one that cannot drops the line itself.
        self._enabled: Callable[[int], bool] = getattr(log, "is_enabled_for", lambda _level: log is not None)

    def started(self, span: Span) -> None:
        """Nothing to say yet."""

    def ended(self, ended: Ended) -> None:
        """One line: at level debug for ``ok`` and ``simulated``, otherwise warning."""
        if not ended.status.good:
            self._warning("span did not end well", **_fields(ended))
        elif self._enabled(DEBUG):
            self._debug("span ended", **_fields(ended))

    async def flush(self) -> None:
        """Nothing is kept back."""


def _fields(ended: Ended) -> dict[str, Any]:
    span = ended.span
    return {
        "name": span.name,
        "kind": span.kind,
        "status": str(ended.status),
        "duration_ms": round((ended.end_ns - span.start_ns) / NANOSECONDS_PER_MS, 3),
        "execution": span.execution,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_id": span.parent_id,
        # In a field of their own: a name among them could be one that the logger uses itself.
        "attributes": {**span.attributes, **ended.attributes},
    }
