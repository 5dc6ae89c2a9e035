"""A process group: everything that a server started and that did not leave it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal

PROCESSES = Path("/proc")


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to all members; none may be left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def is_empty(group: int) -> bool:
    """Whether no member runs any more. The leader must have been waited for.

    Where the gateway is process 1 of a container, or a subreaper, orphans of the group become its children; they are
    waited for here.
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return True
    return _only_zombies(group)


def _only_zombies(group: int) -> bool:
    """Whether all members are dead, and process 1 has just not waited for them yet, as many containers' never does."""
    states = [state for member, state in _processes() if member == group]
    return bool(states) and all(state in "ZX" for state in states)


def _processes() -> list[tuple[int, str]]:
    """Group and state of every process; empty where there is no ``/proc``."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(PROCESSES):  # noqa: PTH208 - a tenth of the time, and there may be thousands
            if name.isdigit():
                with contextlib.suppress(OSError):
                    # proc(5): "pid (name) state parent group …", and the name may hold anything.
                    state, _, group = (
                        (PROCESSES / name / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
                    )
                    found.append((int(group), state))
    return found
