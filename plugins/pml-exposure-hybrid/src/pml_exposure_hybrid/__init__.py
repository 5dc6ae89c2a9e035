"""Exposure mode ``hybrid``: the meta-tools, tools the configuration names, and tools that fit the intent."""

from __future__ import annotations

from .mode import Hybrid
from .settings import Settings

__all__ = ["Hybrid", "Settings"]
