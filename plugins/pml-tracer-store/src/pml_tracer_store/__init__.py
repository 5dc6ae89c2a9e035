"""The tracer that keeps finished spans in the store."""

from __future__ import annotations

from .tracer import Settings, StoreTracer

__all__ = ["Settings", "StoreTracer"]
