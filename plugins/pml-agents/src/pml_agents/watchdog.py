"""Ends an agent's processes when the gateway is gone, however it went.

One POSIX shell per run, which reads from a pipe that only the gateway holds open. When that ends without the word
``over``, the gateway was killed: the shell then ends the agent's process group, and all else that carries the run's
mark in its environment, where there is ``/proc``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

SHELL = "/bin/sh"
LEAVING_S = 1.0
SCRIPT = r"""
trap '' HUP INT TERM PIPE
read -r group
read -r word
[ "$word" = over ] && exit 0
for signal in TERM KILL KILL; do
    [ -z "$group" ] || kill -s "$signal" -- "-$group" 2>/dev/null
    for place in $(grep -Fls -- "$1" /proc/[0-9]*/environ 2>/dev/null); do
        place=${place#/proc/}
        kill -s "$signal" "${place%/environ}" 2>/dev/null
    done
    [ "$signal" = KILL ] || sleep 1
done
"""
"""Reads the process group, then the word. The second KILL is for what was being started during the first."""


class Watchdog:
    """Watches over one run. Started before the agent is, so that no moment is without it."""

    def __init__(self, mark: str) -> None:
        """``mark`` is ``NAME=value``, as it stands in the environment of all that the agent starts.

        Raises:
            OSError: There is no shell.
        """
        self._shell = subprocess.Popen(
            [SHELL, "-c", SCRIPT, "pml-agent-watchdog", mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """The agent was started; ``group`` is its process group."""
        self._say(b"%d\n" % group)

    def stop(self) -> None:
        """Nothing of the agent is left, or it was never started."""
        self._say(b"over\nover\n")
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        try:
            self._shell.wait(LEAVING_S)
        except subprocess.TimeoutExpired:
            self._shell.kill()
            self._shell.wait()

    def _say(self, words: bytes) -> None:
        if self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # somebody killed it
                self._shell.stdin.write(words)
