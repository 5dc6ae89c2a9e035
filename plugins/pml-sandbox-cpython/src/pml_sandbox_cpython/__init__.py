"""The ``cpython`` executor: all of Python, in a kernel jail (Linux)."""

from __future__ import annotations

from .executor import CPython, Settings

__all__ = ["CPython", "Settings"]
