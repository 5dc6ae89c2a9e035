"""Requests on their way to one server: how many, whose, how long they may take, and who hears of their progress."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pml_catalog.server_views import BusyError
from pml_hookspecs import Link, RawObject, Run
from pml_kit.json_members import with_meta
from pml_mcp.servers.connection.time_limit import TimeLimit
from pml_mcp.wire.client import Client
from pml_mcp.wire.upstream import Callers

if TYPE_CHECKING:
    from pml_mcp.server_settings import ServerSettings

FOREVER_S = 86_400.0
"""Limit given to the link where a clock of our own keeps the time [s]."""
Sink = Callable[[RawObject], None]
"""Takes the params of a progress notification."""


class InFlight:
    """Counts requests, and queues those above the limit."""

    def __init__(self, server: str, limit: int, queue: int) -> None:
        """At most ``limit`` at a time and ``queue`` waiting; more are refused at once."""
        self._server, self.limit, self._queue = server, limit, queue
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
        if self.count < self.limit:
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


class Calls:
    """All requests of ours that one connection has under way."""

    def __init__(self, server: str, settings: ServerSettings, link: Callable[[float], Awaitable[Link]]) -> None:
        """``link`` waits so many seconds for the connection."""
        self._server, self._link = server, link
        self._in_flight = InFlight(server, settings.max_in_flight, settings.max_queued)
        self._progress_resets = settings.reset_timeout_on_progress
        self.callers = Callers()
        self._clocks: set[tuple[object, TimeLimit]] = set()
        self._sinks: dict[int, Sink] = {}
        self._tokens = 0
        self.last_end_s = 0.0
        """When the last one ended, on the loop's clock [s]."""

    @property
    def count(self) -> int:
        """Requests on their way or in the queue."""
        return self._in_flight.count + self._in_flight.waiting

    async def send(
        self,
        link: Link,
        client: Client | None,
        method: str,
        params: RawObject,
        limit_s: float,
        sink: Sink | None = None,
    ) -> RawObject:
        """Send a request for ``client``. The time its human takes to answer the server does not count.

        Args:
            params: As the server is to get them, but for the progress token.
            limit_s: Longest wait for a turn and the answer together [s].
            sink: Hears of the request's progress.

        Raises:
            TimeoutError: No answer, or no turn, in time.
            TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
        """
        in_flight = self._in_flight
        if in_flight.count < in_flight.limit:
            in_flight.count, left_s = in_flight.count + 1, limit_s
        else:
            left_s = await in_flight.enter(limit_s)
        waited_s = limit_s - left_s
        if client is not None:
            self.callers.begin(client)
        token = self._watch(sink) if sink is not None or self._progress_resets else None
        try:
            if waited_s:  # the connection may be another one by now
                link = await self._link(left_s)
            if token is not None:
                params = with_meta(params, {"progressToken": token})
            if token is None and (client is None or not client.answers_servers):
                return await link.request(method, params, timeout_s=left_s)
            return await self._on_the_clock(link, client, method, params, left_s, limit_s, token)
        except TimeoutError as exc:
            if not waited_s:
                raise
            raise TimeoutError(f"{exc}; before that it waited {waited_s:.3g} s for its turn") from None
        finally:
            if token is not None:
                del self._sinks[token]
            if client is not None:
                self.callers.end(client)
            in_flight.leave()
            self.last_end_s = asyncio.get_running_loop().time()

    async def _on_the_clock(
        self,
        link: Link,
        client: Client | None,
        method: str,
        params: RawObject,
        left_s: float,
        limit_s: float,
        token: int | None,
    ) -> RawObject:
        message = f"server {self._server!r} did not answer {method} within {left_s:g} s"
        async with TimeLimit(left_s, message, all_s=limit_s) as clock:
            owned = (None if client is None else client.person, clock)
            self._clocks.add(owned)
            if token is not None and self._progress_resets:
                self._sinks[token] = _resetting(self._sinks[token], clock)
            try:
                return await link.request(method, params, timeout_s=FOREVER_S)
            finally:
                self._clocks.discard(owned)

    @contextmanager
    def standing_still(self, client: Client) -> Iterator[None]:
        """While the block runs, the time of what is done for ``client`` does not count."""
        clocks = [clock for person, clock in self._clocks if person is client.person]
        for clock in clocks:
            clock.stop()
        try:
            yield
        finally:
            for clock in clocks:
                clock.go_on()

    def _watch(self, sink: Sink | None) -> int:
        """A progress token of our own: two clients may use the same."""
        self._tokens += 1
        self._sinks[self._tokens] = sink or _nobody
        return self._tokens

    def progress(self, params: RawObject) -> None:
        """Hand a progress notification to whom it is for; progress that belongs to no request is dropped."""
        token = params.get("progressToken")
        sink = self._sinks.get(token) if type(token) is int else None
        if sink is not None:
            sink(params)


def progress_of(run: Run) -> Sink:
    """Hands progress to whoever asked for the execution."""

    def heard(params: RawObject) -> None:
        run.progress(params.get("progress", 0), params.get("total"), params.get("message") or "")

    return heard


def _nobody(_params: RawObject) -> None:
    """Hears of progress that only resets the clock."""


def _resetting(sink: Sink, clock: TimeLimit) -> Sink:
    def heard(params: RawObject) -> None:
        clock.reset()
        sink(params)

    return heard
