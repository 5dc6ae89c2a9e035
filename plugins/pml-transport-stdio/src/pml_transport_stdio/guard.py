"""A watchdog that outlives the gateway: when the gateway is gone, however it went, its servers go too.

A gateway that is killed (SIGKILL, out of memory, a crash) cannot clean up, and servers that ignore the end of their
input, or what ``npx`` and ``uvx`` started below themselves, would stay for ever. The watchdog is a POSIX shell of about
a megabyte that reads from a pipe which only the gateway holds open. The end of the pipe is the end of the gateway.

What has left its process group (``setsid``, daemons) is found by the mark in its environment, where there is ``/proc``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from itertools import count
from typing import Any

from .process_group import MARK

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


class Guard:
    """Tells the watchdog which process groups are the gateway's. There is one while there is any group."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None
        self._name = os.urandom(8).hex()
        self._numbers = count(1)

    def new_mark(self) -> str:
        """A mark for one server, unlike all others."""
        return f"{self._name}.{next(self._numbers)}."

    def add(self, group: int) -> None:
        """A server was started; ``group`` is its process group."""
        if self._shell is None:
            self._start()
        self._groups.add(group)
        self._tell(b"+ %d\n" % group)

    async def remove(self, group: int) -> None:
        """The server and everything it started is gone."""
        self._groups.discard(group)
        self._tell(b"- %d\n" % group)
        if not self._groups:
            await self._stop()

    def _start(self) -> None:
        try:
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
        except OSError as error:
            self._log.warning("stdio.no_watchdog", problem=str(error), remedy=f"provide {SHELL}")

    def _tell(self, line: bytes) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # somebody killed it; the servers are still stopped as usual
                self._shell.stdin.write(line)

    async def _stop(self) -> None:
        shell, self._shell = self._shell, None
        if shell is None or shell.stdin is None:
            return
        shell.stdin.close()
        import asyncio  # whoever only looks at plugins has no use for it

        # Milliseconds, or as long as the machine takes: others are served meanwhile.
        await asyncio.to_thread(_ended, shell)


def _ended(shell: subprocess.Popen[bytes]) -> None:
    try:
        shell.wait(LEAVING_S)
    except subprocess.TimeoutExpired:
        shell.kill()
        shell.wait()
