"""All that an agent started: its process group, and what left that but still carries the run's mark."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

PROCESSES = Path("/proc")
MARK = "_PML_AGENT_RUN"
"""Environment variable that an agent and all below it inherit."""


def living(group: int, mark: str) -> list[int]:
    """Processes of the group, and those with ``mark`` in their environment; dead ones are none.

    Where there is no ``/proc``: ``[group]`` while the group has members.
    """
    if not PROCESSES.is_dir():
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [group]
    wanted = f"{MARK}={mark}".encode()
    names = os.listdir(PROCESSES)  # noqa: PTH208 - a tenth of the time, and there may be thousands
    return [int(name) for name in names if name.isdigit() and _belongs(name, group, wanted)]


def _belongs(name: str, group: int, wanted: bytes) -> bool:
    with contextlib.suppress(OSError, ValueError):
        # proc(5): "pid (name) state parent group …", and the name may hold anything.
        state, _, its_group = (PROCESSES / name / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
        if state in "ZX":
            _wait_for(int(name))
            return False
        if int(its_group) == group:
            return True
        with open(f"/proc/{name}/environ", "rb", buffering=0) as file:  # noqa: PTH123 - the same
            return wanted in file.read().split(b"\0")
    return False


def _wait_for(process: int) -> None:
    """Where the gateway is process 1 of a container, orphans are its children."""
    if os.getpid() == 1:
        with contextlib.suppress(OSError):
            os.waitpid(process, os.WNOHANG)


def end(group: int, mark: str, number: signal.Signals) -> None:
    """Send a signal to all of them."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    if PROCESSES.is_dir():
        for process in living(group, mark):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
