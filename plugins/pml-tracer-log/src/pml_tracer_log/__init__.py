"""The tracer that writes one log line per finished span."""

from __future__ import annotations

from .tracer import LogTracer

__all__ = ["LogTracer"]
