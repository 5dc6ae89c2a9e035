"""The ``monty`` executor: Python in Monty, an interpreter that reaches nothing outside of itself."""

from __future__ import annotations

from .executor import Monty, Settings

__all__ = ["Monty", "Settings"]
