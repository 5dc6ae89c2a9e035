"""Ends what a command does while its gateway stands still: by the time that it goes on, another has its turn.

A gateway that is stopped, or whose event loop hangs, cannot do that itself. One POSIX shell for each run hears from it
every few seconds and, when it does not, ends all that carries the run's mark in its environment, where there is
``/proc``. What a gateway leaves that is killed is the watchdog's matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

SHELL = "/bin/sh"
MARK = "_PML_AGENT_TURN"
BEAT_S = 2.0
"""How often the gateway says that it goes on [s]."""
TICK_S, SILENT_TICKS = 3, 4
"""What has heard nothing for so many ticks ends the run: within 13 s, before others take the turn [s]."""
SCRIPT = r"""
trap '' HUP INT TERM PIPE
{ while sleep "$2" && echo tick; do :; done & exec cat; } | {
    silent=0
    while [ "$silent" -lt "$3" ] && read -r word; do
        [ "$word" = tick ] && silent=$((silent + 1)) || silent=0
    done
    [ "$silent" -ge "$3" ] || exit 0
    for signal in TERM KILL KILL; do
        for place in $(grep -Fls -- "$1" /proc/[0-9]*/environ 2>/dev/null); do
            place=${place#/proc/}
            kill -s "$signal" "${place%/environ}" 2>/dev/null
        done
        [ "$signal" = KILL ] || sleep 1
    done
}
"""


@asynccontextmanager
async def watched_turn(token: str) -> AsyncIterator[dict[str, str]]:
    """Hold what carries the variables that this gives, until left.

    Raises:
        OSError: There is no shell.
    """
    variables = {MARK: token}
    if not _has_proc():
        yield variables
        return
    # In the loop's own thread: it takes some milliseconds, and a thread would leave it alone when cancelled.
    shell = subprocess.Popen(  # noqa: ASYNC220
        [SHELL, "-c", SCRIPT, "pml-agent-turn", f"{MARK}={token}", str(TICK_S), str(SILENT_TICKS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={"PATH": os.environ.get("PATH", os.defpath)},
        start_new_session=True,
    )
    beating = asyncio.get_running_loop().create_task(_beat(shell), name="turn of an agent")
    try:
        yield variables
    finally:
        beating.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        if shell.stdin is not None:
            shell.stdin.close()


def _has_proc() -> bool:
    return Path("/proc/self/environ").exists()


async def _beat(shell: subprocess.Popen[bytes]) -> None:
    while shell.stdin is not None:
        with contextlib.suppress(OSError):  # somebody killed it
            shell.stdin.write(b"beat\n")
        await asyncio.sleep(BEAT_S)
