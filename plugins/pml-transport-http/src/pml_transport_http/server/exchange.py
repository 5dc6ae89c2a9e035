"""One POSTed request: its handler at work, and the response, which becomes a stream only when it must.

The handler runs in the task in which the server runs the application for this request.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import RpcError
from pml_kit.mcp.protocol import INTERNAL_ERROR, INVALID_REQUEST

from . import messages
from .http import JSON, OK, HttpError, Request, reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from .streams import Stream, StreamResponse

REQUEST_CANCELLED = -32800
"""Code of the answer to a request that was taken back: in the handshake era a stream ends with an answer only."""
WATCH_AFTER_S = 0.05
"""From when on a client is watched for leaving. Most requests are answered sooner, and a watch is a task of its own."""
FAULT = RpcError(INTERNAL_ERROR, "Internal error")
TAKEN_BACK = RpcError(REQUEST_CANCELLED, "Request cancelled")
STOPPING = RpcError(INTERNAL_ERROR, "The gateway is stopping")
EXPELLED = RpcError(INVALID_REQUEST, "The key does not count any more")
SUBSCRIPTION = "subscriptions/listen"
"""A request that is never answered: nobody waits for its end."""
LAST_WORDS_S = 1.0
"""Time that handlers get to end once they are called off [s]."""


class Answer(NamedTuple):
    """What a handler said."""

    pieces: tuple[bytes, ...]
    code: int | None = None
    """Code of the error, if the answer is one."""


class ActiveRequest:
    """A handler that is answering a request."""

    def __init__(self, key: int | str, method: str, log: Any) -> None:
        """The current task is the one that :meth:`run` will be called in."""
        self.key, self.method = key, method
        self._log = log
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._reason: RpcError | None = None

    @property
    def called_off(self) -> bool:
        """Whether it was called off while it was at work."""
        return self._reason is not None

    def call_off(self, reason: RpcError) -> None:
        """Cancel it, and answer ``reason``; nothing happens when it is done already."""
        if self._task is not None and self._reason is None:
            self._reason = reason
            self._task.cancel()

    async def run(self, work: Awaitable[Mapping[str, Any]]) -> Answer:
        """Wait for the answer.

        Raises:
            HttpError: As the work does.
        """
        try:
            return Answer(messages.result(self.key, await work))
        except (RpcError, HttpError) as error:
            failure = error
        except asyncio.CancelledError:
            failure = self._reason or FAULT
        except Exception:
            self._log.exception("http.request_failed", method=self.method)
            failure = FAULT
        finally:
            self._end()
        if isinstance(failure, HttpError):
            failure.id = self.key
            raise failure
        return self._failed(failure)

    def _end(self) -> None:
        task, self._task = self._task, None
        while task is not None and task.cancelling():
            task.uncancel()

    def _failed(self, error: RpcError) -> Answer:
        try:
            return Answer(messages.error(self.key, error.to_wire()), error.code)
        except (TypeError, ValueError):
            self._log.exception("http.unsendable_error", method=self.method)
            return Answer(messages.error(self.key, FAULT.to_wire()), FAULT.code)


class ActiveRequests:
    """Requests whose handlers are at work. Once it is being drained, further ones are refused."""

    def __init__(self) -> None:
        self._active_requests: set[ActiveRequest] = set()
        self._closing = False
        self._settled = asyncio.Event()

    def check_open(self, id: Any) -> None:
        """See that a request can still be served.

        Raises:
            HttpError: The gateway is stopping; with status 503.
        """
        if self._closing:
            headers = [(b"retry-after", b"1"), (b"connection", b"close")]
            raise HttpError(503, INTERNAL_ERROR, STOPPING.message, id=id, headers=headers)

    @contextmanager
    def track(self, work: ActiveRequest) -> Iterator[None]:
        """Count a request while it is being answered.

        Raises:
            HttpError: The gateway is stopping.
        """
        self.check_open(work.key)
        self._active_requests.add(work)
        try:
            yield
        finally:
            self._active_requests.discard(work)
            if self._closing and self._idle():
                self._settled.set()

    def _idle(self) -> bool:
        return all(work.method == SUBSCRIPTION for work in self._active_requests)

    async def drain(self, limit_s: float) -> None:
        """Let no more come, wait for those there are, and call off the rest."""
        self._closing = True
        for work in tuple(self._active_requests):
            if work.method == SUBSCRIPTION:
                work.call_off(STOPPING)
        await self._wait(limit_s)
        for work in tuple(self._active_requests):
            work.call_off(STOPPING)
        await self._wait(LAST_WORDS_S)

    async def _wait(self, limit_s: float) -> None:
        if self._idle():
            return
        self._settled.clear()
        try:
            async with asyncio.timeout(limit_s):
                await self._settled.wait()
        except TimeoutError:
            return


class Exchange:
    """The response to one request: JSON, or a stream from the moment that something else has to be said first."""

    def __init__(
        self,
        request: Request,
        make_stream: Callable[[], Stream],
        *,
        silence_s: float | None,
        primed: bool = False,
        on_gone: Callable[[], None] | None = None,
    ) -> None:
        """Make one.

        Args:
            request: What is answered.
            make_stream: Makes the stream, if there is to be one.
            silence_s: Become a stream after so many seconds as well, so that comments keep proxies content.
            primed: Begin a stream with an event without data.
            on_gone: Called when the client leaves before it is answered.
        """
        self.answered = False
        """The answer is there; nothing belongs to this request any more."""
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        self._request, self._make_stream, self._primed, self._silence_s = request, make_stream, primed, silence_s
        self._stream: Stream | None = None
        self._reader: StreamResponse | None = None
        self._carrying: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        if on_gone is not None:
            self._timer = self._loop.call_later(WATCH_AFTER_S, self._wait)
        elif silence_s is not None:
            self._timer = self._loop.call_later(silence_s, self.stream)

    def stream(self) -> Stream:
        """The stream that the response is from now on."""
        if self._stream is None:
            stream = self._stream = self._make_stream()
            self._reader = stream.attach(primed=self._primed)
            self._carrying = self._loop.create_task(self._reader.carry(self._request.send, self.headers))
            self._watch()
        return self._stream

    @property
    def opened(self) -> Stream | None:
        """The stream, if the response became one."""
        return self._stream

    def _wait(self) -> None:
        self._watch()
        if self._silence_s is not None:
            self._timer = self._loop.call_later(self._silence_s, self.stream)

    def _watch(self) -> None:
        if self._watching is None:
            self._watching = self._loop.create_task(self._watched())

    async def _watched(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        if self._reader is not None:
            self._reader.stop()
        if self._on_gone is not None and not self.answered:
            self._on_gone()

    async def finish(self, pieces: tuple[bytes, ...], status: int = OK) -> None:
        """Send the answer; as the last event, with no status of its own, when the response is a stream."""
        self._settle()
        if self._stream is None:
            await reply(self._request.send, status, pieces, (JSON, *self.headers))
        else:
            self._stream.end(b"".join(pieces))
            await self._carried()

    async def abandon(self) -> None:
        """End without an answer."""
        self._settle()
        if self._stream is not None:
            self._stream.end()
            await self._carried()

    async def _carried(self) -> None:
        if self._carrying is not None:
            await self._carrying

    def _settle(self) -> None:
        self.answered = True
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """Let go of the connection; to be called once nothing more will be sent."""
        self._settle()
        if self._watching is not None:
            self._watching.cancel()
