"""How much memory a process uses, for where the kernel does not limit that by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _on_linux(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - forty times a second
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return None


def _elsewhere(pid: int) -> int | None:
    try:
        import psutil  # type: ignore[import-untyped]
    except ImportError:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


resident_bytes: Callable[[int], int | None] = _on_linux if sys.platform == "linux" else _elsewhere
"""Resident memory of a process [bytes]; None when it is gone, or nothing here can tell."""
