"""Whose turn it is to start: about as many servers at a time as there are processors, and at once what is asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

LEAST_AT_ONCE = 2
LOOK_S = 0.1
"""How often it is looked whether those that start still want a processor [s]."""
LONGEST_S = 3.0
"""How long a start counts as one, whatever it does [s]."""


class Starts:
    """A queue of servers that are to start.

    A turn ends when the server is up or has failed, and before that as soon as there are processors to spare: a server
    that waits for a network, or for nothing at all, keeps no other from starting.
    """

    def __init__(self, at_once: int | None = None, *, opened: bool = True) -> None:
        """Without ``at_once``, by the processors at hand. Not ``opened``: nobody's turn comes before :meth:`open`."""
        self._at_once, self._opened = at_once or max(LEAST_AT_ONCE, processors()), opened
        self._queue: dict[asyncio.Future[None], None] = {}
        self._begun_s: dict[asyncio.Future[None], float] = {}
        """Those whose turn it is, in order, and when each began, on the loop's clock [s]."""
        self._look_again: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Turns come from now on."""
        self._opened = True
        self._next()

    @asynccontextmanager
    async def turn(self, wanted: asyncio.Event) -> AsyncIterator[None]:
        """Wait for a turn, which ends with the block at the latest. Once it is ``wanted``, nothing is waited for."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        asked_for = loop.create_task(wanted.wait())
        self._queue[turn] = None
        try:
            self._next()
            await asyncio.wait((turn, asked_for), return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                self._begin(turn)
            yield
        finally:
            asked_for.cancel()
            self._queue.pop(turn, None)
            self._begun_s.pop(turn, None)
            self._next()

    def _begin(self, turn: asyncio.Future[None]) -> None:
        del self._queue[turn]
        self._begun_s[turn] = asyncio.get_running_loop().time()
        turn.set_result(None)

    def _next(self) -> None:
        while self._opened and self._queue and len(self._begun_s) < self._at_once:
            self._begin(next(iter(self._queue)))
        if self._look_again is not None:
            if not self._queue:
                self._look_again.cancel()
                self._look_again = None
        elif self._opened and self._queue:
            self._look_again = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """End turns of those that want no processor, the oldest first, and of those that take long."""
        self._look_again = None
        now_s, wanting = asyncio.get_running_loop().time(), runnable()
        spare = 0 if wanting is None else self._at_once - wanting
        for turn, begun_s in list(self._begun_s.items()):
            took_s = now_s - begun_s
            if took_s >= LONGEST_S or (spare > 0 and took_s >= LOOK_S):
                del self._begun_s[turn]
                spare -= 1
        self._next()


def processors() -> int:
    """How many this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def runnable() -> int | None:
    """How many threads of what this process has started want a processor now; None where the system does not say."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return None
    found, below = 0, [str(os.getpid())]
    while below:
        process = below.pop()
        with suppress(OSError):  # it is gone
            for thread in Path(f"/proc/{process}/task").iterdir():
                below += (thread / "children").read_text().split()
                if process != str(os.getpid()):
                    found += (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    return found
