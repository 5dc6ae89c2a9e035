"""The tracer that ships spans and metrics to an OpenTelemetry collector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .settings import Settings

if TYPE_CHECKING:
    from .tracer import OtelTracer

__all__ = ["OtelTracer", "Settings"]


def __getattr__(name: str) -> Any:
    """Import the tracer when somebody wants it: the hooks of this distribution load in every gateway."""
    if name != "OtelTracer":
        raise AttributeError(name)
    from .tracer import OtelTracer

    return OtelTracer
