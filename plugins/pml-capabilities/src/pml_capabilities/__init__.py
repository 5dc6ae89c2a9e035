"""Capabilities: code that worked, kept under what it was for, and run again."""

from __future__ import annotations

from .executor import Capabilities
from .settings import Settings

__all__ = ["Capabilities", "Settings"]
