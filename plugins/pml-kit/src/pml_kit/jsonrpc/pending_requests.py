"""Requests that wait for their answer, or for their turn, and the clock that runs on them."""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, NamedTuple

from pml_hookspecs import RawObject, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

REMEMBERED = 4096
"""Ids of abandoned requests that are kept, to tell a late answer from one nobody asked for."""
SLACK = 64
ABANDONED_S = 10.0
"""How long a server may go on with a request that nobody wants any more. It is not asked to say when it stops: MCP lets
it leave the answer out [s]."""


def again(error: TransportError) -> TransportError:
    """The same error to raise once more: an exception that several tasks raise collects all their tracebacks."""
    return TransportError(str(error), retryable=error.retryable)


class Request(NamedTuple):
    """A request that this end sent and that waits for its answer."""

    answer: asyncio.Future[RawObject]
    method: str
    timeout_s: float
    deadline: float
    """On the loop's clock [s]."""


class PendingRequests:
    """Open requests by id.

    One timer serves all of them: a timer per request costs twice as much, and most never fire.
    """

    def __init__(self, on_expired: Callable[[int, Request], None]) -> None:
        """Call ``on_expired`` with each request whose time is up; it is no longer in the map then."""
        self._on_expired = on_expired
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, Request] = {}
        self._last_id = 0
        # Answered requests leave their entry behind; the heap is made anew when most of it is such entries.
        self._deadlines: list[tuple[float, int]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._abandoned: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, method: str, timeout_s: float) -> tuple[int, asyncio.Future[RawObject]]:
        """Register a request, under the next id."""
        key = self._last_id = self._last_id + 1
        answer: asyncio.Future[RawObject] = self._loop.create_future()
        deadline = self._loop.time() + timeout_s
        self._open[key] = Request(answer, method, timeout_s, deadline)
        if len(self._deadlines) > 2 * len(self._open) + SLACK:
            self._deadlines = [(request.deadline, key) for key, request in self._open.items()]
            heapq.heapify(self._deadlines)
        else:
            heapq.heappush(self._deadlines, (deadline, key))
        if self._timer is None or deadline < self._timer.when():
            self._arm()
        return key, answer

    def answer(self, key: int) -> asyncio.Future[RawObject]:
        """Of an open request."""
        return self._open[key].answer

    def put_back(self, key: int, request: Request) -> None:
        """Undo :meth:`take`, in the same turn of the loop."""
        self._open[key] = request

    def take(self, key: int) -> Request | None:
        """Remove a request and hand it over; None when there is none, or no longer."""
        return self._open.pop(key, None)

    def abandon(self, key: int) -> Request | None:
        """Like :meth:`take`, of a request that may still be answered."""
        request = self._open.pop(key, None)
        if request is not None:
            self._abandoned[key] = None
            if len(self._abandoned) > REMEMBERED:
                del self._abandoned[next(iter(self._abandoned))]
        return request

    def was_abandoned(self, key: int) -> bool:
        """Whether an answer to ``key`` comes late. True once per request."""
        if key in self._abandoned:
            del self._abandoned[key]
            return True
        return False

    def clear(self) -> list[Request]:
        """Remove all requests, oldest first, and stop the clock."""
        requests = list(self._open.values())
        self._open.clear()
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return requests

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadlines[0][0], self._tick) if self._deadlines else None

    def _tick(self) -> None:
        self._timer = None
        now, heap = self._loop.time(), self._deadlines
        while heap and (heap[0][0] <= now or heap[0][1] not in self._open):
            key = heapq.heappop(heap)[1]
            request = self.abandon(key)
            if request is not None:
                self._on_expired(key, request)
        self._arm()


class SerialRequests:
    """The fallback for peers that cannot work on several requests at once: the others wait in order.

    A turn is held until the peer has answered, whoever still waits for that, and at most :data:`ABANDONED_S` longer
    than somebody does.
    """

    def __init__(self, write: Callable[[tuple[bytes, ...]], None], stuck: Callable[[str], None]) -> None:
        """Send with ``write`` what has its turn; call ``stuck`` with what is wrong when a turn does not end."""
        self._write, self._stuck = write, stuck
        self._active: int | None = None
        self._waiting: dict[int, tuple[bytes, ...]] = {}
        self._abandoned: asyncio.TimerHandle | None = None

    def submit(self, key: int, chunks: tuple[bytes, ...]) -> None:
        """Send a request now, or in its turn."""
        self._waiting[key] = chunks
        self._next()

    def sent(self, key: int) -> bool:
        """Whether a request has had its turn."""
        return key not in self._waiting

    def abandon(self, key: int) -> None:
        """Nobody wants an answer any more. Of a request that was sent, the turn ends when the server has answered."""
        if key != self._active:
            self.leave(key)
        elif self._abandoned is None:
            self._abandoned = asyncio.get_running_loop().call_later(ABANDONED_S, self._give_up)

    def leave(self, key: int) -> None:
        """A request is over."""
        self._waiting.pop(key, None)
        if key == self._active:
            self._end_turn()
            self._next()

    def clear(self) -> None:
        """All requests are over."""
        self._end_turn()
        self._waiting.clear()

    def _end_turn(self) -> None:
        self._active = None
        if self._abandoned is not None:
            self._abandoned.cancel()
            self._abandoned = None

    def _give_up(self) -> None:
        self._stuck(
            f"did not say within {ABANDONED_S:g} s that it stopped working on a request that was cancelled, and may "
            "not have another (allow_concurrent_requests is off); it is started again"
        )

    def _next(self) -> None:
        if self._active is None and self._waiting:
            self._active = next(iter(self._waiting))
            self._write(self._waiting.pop(self._active))
