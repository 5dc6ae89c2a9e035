"""Everything that a server started: its process group, and what left that but still carries the server's mark."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal

PROCESSES = Path("/proc")
MARK = "_PML_STARTED_BY"
"""Environment variable that a server and all below it inherit. Without the prefix of settings, which are not handed
down. Who wants a process to outlive the gateway unsets it."""


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to all members; none may be left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def signal_marked(mark: str, number: signal.Signals) -> None:
    """Send a signal to all that carry ``mark``; there may be none."""
    for process in marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def marked(mark: str) -> list[int]:
    """Processes that carry ``mark``, daemons included; dead ones do not. Empty where there is no ``/proc``."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(PROCESSES):  # noqa: PTH208 - a tenth of the time, and there may be thousands
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb", buffering=0) as file:  # noqa: PTH123 - the same
                    # At most as much as the kernel lets arguments and environment be together.
                    if wanted in file.read().split(b"\0"):
                        found.append(int(name))
    return found


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
