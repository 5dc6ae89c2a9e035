"""How many requests one server gets at a time; the others wait in order, on their own time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from pml_core.server_views import BusyError


class InFlight:
    """Counts requests, and queues those above the limit."""

    def __init__(self, server: str, limit: int, queue: int) -> None:
        """At most ``limit`` at a time and ``queue`` waiting; more are refused at once."""
        self._server, self._limit, self._queue = server, limit, queue
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self.count = 0
        """Requests on their way."""

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    async def enter(self, limit_s: float) -> float:
        """Wait for a turn; the seconds left of ``limit_s``.

        Raises:
            TimeoutError: No turn came within ``limit_s``.
            BusyError: The queue is full.
        """
        if self.count < self._limit:
            self.count += 1
            return limit_s
        if len(self._waiting) >= self._queue:
            raise BusyError(
                f"it is busy: {self.count} requests are on their way and {len(self._waiting)} wait; try again later, "
                f"or raise max_in_flight or max_queued in [servers.{self._server}]"
            )
        loop = asyncio.get_running_loop()
        turn, started = loop.create_future(), loop.time()
        self._waiting[turn] = None
        try:
            async with asyncio.timeout(limit_s):
                await turn
        except BaseException as exc:
            if turn.done() and not turn.cancelled():
                self.leave()  # the turn came together with the end of the wait
            self._waiting.pop(turn, None)
            if isinstance(exc, TimeoutError):
                raise TimeoutError(
                    f"server {self._server!r} is busy: no turn came within {limit_s:g} s; {self.count} requests are on "
                    f"their way, and max_in_flight in [servers.{self._server}] allows no more"
                ) from None
            raise
        return max(0.001, limit_s - (loop.time() - started))

    def leave(self) -> None:
        """One request is over; the next in the queue takes its place."""
        while self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                return
        self.count -= 1
