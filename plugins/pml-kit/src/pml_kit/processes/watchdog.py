"""A watchdog that outlives the gateway: when the gateway is gone, however it went, what it started goes too.

A gateway that is killed (SIGKILL, out of memory, a crash) cannot clean up, and processes that ignore the end of their
input, or what ``npx`` and ``uvx`` started below themselves, would stay for ever. The watchdog is a POSIX shell of about
a megabyte that reads from a pipe which only the gateway holds open. The end of the pipe is the end of the gateway.

What has left its process group (``setsid``, daemons) is found by the mark in its environment, where there is ``/proc``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from itertools import count

from .tree import MARK

SHELL = "/bin/sh"
LEAVING_S = 1.0
"""Longest wait for the watchdog to notice that it is not needed any more."""
SCRIPT = r"""
trap '' HUP INT TERM PIPE
groups=' '
while read -r sign group; do
    case $sign in
        +) groups="$groups$group " ;;
        -) case $groups in
               *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
           esac ;;
    esac
done
[ "$groups" != ' ' ] || exit 0
# The second KILL is for what was being forked during the first.
for signal in TERM KILL KILL; do
    for group in $groups; do
        kill -s "$signal" -- "-$group" 2>/dev/null
    done
    for environment in $(grep -Fls -- "$1" /proc/[0-9]*/environ 2>/dev/null); do
        process=${environment#/proc/}
        kill -s "$signal" "${process%/environ}" 2>/dev/null
    done
    [ "$signal" = KILL ] || sleep 1
done
"""


class Watchdog:
    """Watches over processes by their marks, and by their groups once they run. No shell without any."""

    def __init__(self) -> None:
        """Start nothing."""
        self._groups: dict[str, int | None] = {}
        self._shell: subprocess.Popen[bytes] | None = None
        self._name = os.urandom(8).hex()
        self._numbers = count(1)

    def new_mark(self) -> str:
        """A mark for one process and all that it will start, unlike all others."""
        return f"{self._name}.{next(self._numbers)}."

    def add(self, mark: str) -> None:
        """A process with this mark is about to be started, so that no moment is without a watchdog.

        Raises:
            OSError: There is no shell. The process is ended as usual, unless the gateway is killed.
        """
        self._groups[mark] = None
        if self._shell is None:
            self._start()
        self._tell("+", f"of-{mark}")

    def watch(self, mark: str, group: int) -> None:
        """It was started; ``group`` is its process group."""
        self._groups[mark] = group
        self._tell("+", group)

    async def remove(self, mark: str) -> None:
        """Nothing of it is left, or it was never started."""
        if (group := self._groups.pop(mark, None)) is not None:
            self._tell("-", group)
        self._tell("-", f"of-{mark}")
        if not self._groups:
            await self._stop()

    def _start(self) -> None:
        self._shell = subprocess.Popen(
            [SHELL, "-c", SCRIPT, "pml-watchdog", f"{MARK}={self._name}."],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            # Not ours: it would carry the mark of a gateway that this one is behind, and be ended with us.
            env={"PATH": os.environ.get("PATH", os.defpath)},
            start_new_session=True,
        )

    def _tell(self, sign: str, what: int | str) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # somebody killed it; what was started is still ended as usual
                self._shell.stdin.write(f"{sign} {what}\n".encode())

    async def _stop(self) -> None:
        shell, self._shell = self._shell, None
        if shell is None or shell.stdin is None:
            return
        shell.stdin.close()
        try:
            # Milliseconds, or as long as the machine takes: others are served meanwhile.
            await asyncio.to_thread(_ended, shell)
        except RuntimeError:  # no thread can be had
            _ended(shell)


def _ended(shell: subprocess.Popen[bytes]) -> None:
    try:
        shell.wait(LEAVING_S)
    except subprocess.TimeoutExpired:
        shell.kill()
        shell.wait()
