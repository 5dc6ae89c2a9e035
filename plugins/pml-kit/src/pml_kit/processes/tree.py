"""A process and all that it started: its end is noticed, and all of it is ended.

All of it is its process group, and, where there is ``/proc``, what left that but still carries the mark in its
environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

PROCESSES = Path("/proc")
MARK = "_PML_STARTED_BY"
"""Environment variable that a process and all below it inherit. Without the prefix of settings, which are not handed
down. Who wants a process to outlive the gateway unsets it."""
POLL_S = 0.1
GROUP_POLL_S, MARKED_POLL_S = 0.02, 0.05


class ProcessTree:
    """What one :class:`subprocess.Popen` started, in a session of its own and with a mark in its environment."""

    def __init__(self, popen: subprocess.Popen[bytes], mark: str, on_exit: Callable[[], None]) -> None:
        """Watch over it. ``on_exit`` is called when the process itself is gone, though not what it started."""
        self._popen, self._mark, self._on_exit = popen, mark, on_exit
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._pidfd = -1
        self._timer: asyncio.TimerHandle | None = None
        try:
            self._pidfd = os.pidfd_open(popen.pid)
        except (AttributeError, OSError):
            # Not Linux, or older than 5.3. The end of its output tells the same sooner, nearly always.
            self._poll()
        else:
            self._loop.add_reader(self._pidfd, self._ended)

    def _poll(self) -> None:
        if self._popen.poll() is None:
            self._timer = self._loop.call_later(POLL_S, self._poll)
        else:
            self._loop.call_soon(self._ended)

    def _ended(self) -> None:
        self._popen.poll()
        self.close()
        self._exited.set()
        self._on_exit()

    def close(self) -> None:
        """Look no more whether it has ended."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if self._timer is not None:
            self._timer.cancel()

    async def end(self, steps: Sequence[tuple[signal.Signals | None, float]]) -> bool:
        """End all of it.

        Args:
            steps: What is sent, None for nothing, and how long all of it gets to be gone then [s]. What is gone is not
                sent the rest.

        Returns:
            False where something remains.

        Raises:
            Exception: No thread could be had to look for it, say. It was sent SIGKILL then.
        """
        try:
            for number, limit_s in steps:
                if number is not None:
                    await asyncio.to_thread(self.send, number)
                if await self._gone_within(limit_s):
                    return True
        except BaseException:  # or the loop is being torn down: nothing can be waited for
            self.send(signal.SIGKILL)
            raise
        return False

    async def _gone_within(self, limit_s: float) -> bool:
        deadline = self._loop.time() + limit_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._exited.wait()
        while not (self._exited.is_set() and is_empty(self._popen.pid)):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(GROUP_POLL_S)
        # In threads: on a machine with many processes it takes a while to look at each.
        while await asyncio.to_thread(marked, self._mark):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(MARKED_POLL_S)
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all of it; nothing may be left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)
        for process in marked(self._mark):
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


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
