"""Which process of which machine: names that tell whether another one is gone."""

from __future__ import annotations

import platform
from pathlib import Path


def machine() -> str:
    """This start of this machine, or of the container that has process numbers of its own.

    Where two processes are given the same text, a number of a process means the same to both. ``""`` where the system
    does not tell, as outside of Linux.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{platform.node()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def started(pid: int) -> str:
    """When the kernel started process ``pid``, in its own ticks: tells processes that had the same number apart.

    ``""`` if there is none, where the system does not tell, and for one that has ended and was not waited for.
    """
    try:
        about = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name of the program, in parentheses, may hold spaces and parentheses. The state is the field after it.
    fields = about.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def is_surely_gone(pid: int, begun: str, on: str) -> bool:
    """Whether a process ran on this machine and does not any more; False when that cannot be told.

    Args:
        pid: Its number.
        begun: What :func:`started` said of it while it ran.
        on: What :func:`machine` said there.
    """
    return bool(begun) and bool(on) and on == machine() and started(pid) != begun
