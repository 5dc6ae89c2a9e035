"""A time limit that stands still while people are asked, and how long they have been."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pml_hookspecs import Run

LOOK_S = 0.1
"""How often a clock looks whether somebody is still being asked, once its own time is over [s]."""


class Clock:
    """Like :func:`asyncio.timeout`, but the time during which people are asked does not count.

    ``async with Clock(run, 30): ...`` raises :class:`TimeoutError` when the block took longer than 30 s besides the
    time that :attr:`Run.asked_s` grew meanwhile.
    """

    def __init__(self, run: Run, limit_s: float | None) -> None:
        """None for no limit."""
        self._run, self._limit_s = run, limit_s
        self._timeout = asyncio.timeout(None)
        self._look: asyncio.TimerHandle | None = None

    @property
    def expired(self) -> bool:
        """Whether the limit has been reached."""
        return self._timeout.expired()

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        if self._limit_s is not None:
            self._began = asyncio.get_running_loop().time() - self._run.asked_s
            self._see(self._limit_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._look is not None:
            self._look.cancel()
        await self._timeout.__aexit__(kind, exc, where)

    def _see(self, limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        now, over_at = loop.time(), self._began + self._run.asked_s + limit_s
        if over_at <= now:
            self._timeout.reschedule(now)
            return
        # While somebody is being asked, the end moves along with the time.
        self._look = loop.call_at(max(over_at, now + min(LOOK_S, limit_s)), self._see, limit_s)


class QuestionTimer:
    """How long people have been asked during an execution. Several may be asked at once."""

    __slots__ = ("_before_s", "_now", "_since_s")

    def __init__(self) -> None:
        self._before_s, self._since_s, self._now = 0.0, 0.0, 0

    def begin(self) -> None:
        """Somebody is asked."""
        if not self._now:
            self._since_s = time.monotonic()
        self._now += 1

    def end(self) -> None:
        """Somebody has answered, or never will."""
        self._now -= 1
        if not self._now:
            self._before_s += time.monotonic() - self._since_s

    def total_s(self) -> float:
        """Up to now [s]."""
        return self._before_s + (time.monotonic() - self._since_s if self._now else 0.0)
