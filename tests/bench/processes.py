"""What processes use, from Linux's ``/proc``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

PROCESSES = Path("/proc")
AVAILABLE = (PROCESSES / "self" / "stat").exists()
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MB = 1e6


def _stat(pid: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` from the third (state) on; the second is a name that may hold anything."""
    return (PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()


def parent(pid: int) -> int:
    """Who started a process."""
    return int(_stat(pid)[1])


def descendants(pid: int) -> set[int]:
    """The process and everything that it, or what it started, started and that still runs."""
    parents: dict[int, int] = {}
    for folder in PROCESSES.iterdir():
        if folder.name.isdigit():
            # Processes end while they are looked at.
            with contextlib.suppress(OSError):
                parents[int(folder.name)] = int(_stat(int(folder.name))[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def cpu_s(pids: Iterable[int]) -> float:
    """CPU time used so far, in user and in kernel mode, by all threads [s, in steps of a tick, mostly 0.01]."""
    return sum(int(ticks) for pid in pids for ticks in _stat(pid)[11:13]) / TICKS_PER_S


def resident_mb(pids: Iterable[int]) -> float:
    """Resident memory; what processes share counts for each [MB]."""
    pages = sum(int((PROCESSES / str(pid) / "statm").read_text().split()[1]) for pid in pids)
    return pages * PAGE_BYTES / MB


def open_files(pids: Iterable[int]) -> int:
    """Descriptors that are open, connections included."""
    return sum(len(list((PROCESSES / str(pid) / "fd").iterdir())) for pid in pids)
