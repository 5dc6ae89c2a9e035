"""Slots for code that runs, given out in turn among principals."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class FairSlots:
    """Places for pieces of code, shared out among principals.

    Of those who wait, the next is the principal that has the fewest places, so that nobody waits for all that another
    one has asked for. A principal that has none gets one beyond those that there are, if that one is free: places that
    are held for long are not a wall for others.
    """

    def __init__(self, most: int) -> None:
        """Take how many places there are, the one beyond not counted."""
        self._most = most
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Principals in the order in which they began to wait."""

    @asynccontextmanager
    async def turn(self, principal: str, end_s: float | None = None) -> AsyncIterator[None]:
        """Hold a place.

        Args:
            principal: For whom.
            end_s: When not to wait any longer, on the clock of the event loop; None for never.

        Raises:
            TimeoutError: No place became free in time.
        """
        async with asyncio.timeout_at(end_s):
            await self._taken(principal)
        try:
            yield
        finally:
            self._release(principal)

    async def _taken(self, principal: str) -> None:
        if self._may(principal):
            self._held[principal] += 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(principal, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._forget(principal, granted)
            else:
                self._release(principal)
            raise

    def _may(self, principal: str) -> bool:
        """Nobody who waits is overtaken: who waits may not have any place that is free."""
        return self._held.total() < self._most + (principal not in self._held)

    def _release(self, principal: str) -> None:
        self._held[principal] -= 1
        self._held += Counter()  # without those that have none
        while able := [waiting for waiting in self._waiting if self._may(waiting)]:
            following = min(able, key=self._held.__getitem__)
            granted = self._waiting[following][0]
            self._forget(following, granted)
            if not granted.done():
                self._held[following] += 1
                granted.set_result(None)

    def _forget(self, principal: str, granted: asyncio.Future[None]) -> None:
        """It waits no longer; who goes on waiting does so behind those who have waited as long."""
        queue = self._waiting.pop(principal, deque())
        with suppress(ValueError):  # it was passed over already, because it had given up
            queue.remove(granted)
        if queue:
            self._waiting[principal] = queue
