"""Server-sent events: what waits to be sent, what was sent, and who it is sent to.

A stream outlives the response that carries it: a client that lost its connection takes the stream up again with the
id of the last event it got. All that is kept for this is bounded.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RawObject
from pml_kit.mcp.protocol import CANCELLED, PROGRESS, UPDATED

from . import messages
from .http import OK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .http import Headers, Receive, Send

PING_S = 15.0
"""Silence after which a comment is sent, lest a proxy take the stream for dead."""
RETRY_MS = 1000
"""What clients are told to wait before they take a stream up again."""
HOLD_FROM = 64
"""From so many waiting messages on those that a later one makes superfluous are left out."""
WAITING_MESSAGES = 1000
WAITING_BYTES = 4 << 20
REPLAY_EVENTS = 1024
PING = b": ping\n\n"
EVENT_STREAM: tuple[tuple[bytes, bytes], ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Outbox:
    """Messages that wait for a reader, bounded: when it is full, notifications are dropped and counted.

    Answers, requests, cancellations and ``list_changed`` are never dropped; of the last, one of each kind waits.
    """

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._items: dict[object, bytes] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether there is no room for what can be dropped."""
        return len(self._items) >= WAITING_MESSAGES or self._size > WAITING_BYTES

    def notify(self, method: str, params: Mapping[str, Any], *, hold: bool) -> bool:
        """Add a notification; False when there is nothing new to send.

        Args:
            hold: Nobody reads just now: let later ones replace earlier ones.

        Raises:
            TypeError: ``params`` cannot be sent.
            ValueError: The same.
        """
        key = _key(method, params)
        keeps = method.endswith("/list_changed") or method == CANCELLED
        if key is not None and key in self._items:
            if not (hold or len(self._items) >= HOLD_FROM):
                key = None
            elif method != PROGRESS:
                return False
            else:
                self._counters["coalesced"] += 1
                self._size -= len(self._items.pop(key))
        if self.full and not keeps:
            self._counters["dropped"] += 1
            return False
        self.add(messages.notification(method, params), key)
        return True

    def add(self, message: bytes, key: object = None) -> None:
        """Add a message, whatever waits already."""
        self._items[object() if key is None else key] = message
        self._size += len(message)

    def discard(self, key: object) -> bool:
        """Take back a message that was not sent yet; False when it was."""
        message = self._items.pop(key, None)
        if message is None:
            return False
        self._size -= len(message)
        return True

    def take(self) -> list[bytes]:
        """Hand over all messages, in order."""
        taken = list(self._items.values())
        self._items.clear()
        self._size = 0
        return taken


def _key(method: str, params: Mapping[str, Any]) -> object:
    """What makes a later notification stand for an earlier one; None where each counts."""
    if method.endswith("/list_changed"):
        return method
    name = {PROGRESS: "progressToken", UPDATED: "uri"}.get(method)
    if name is None:
        return None
    value = RawObject.of(params).get(name)
    return (method, value) if isinstance(value, (str, int)) else None


class Replay:
    """The last events sent on all streams of a session."""

    def __init__(self, max_bytes: int) -> None:
        """Keep up to ``max_bytes``, and the newest event whatever its size."""
        self._max_bytes = max_bytes
        self._events: deque[tuple[str, int, bytes]] = deque()
        self._size = 0

    def keep(self, stream: str, number: int, event: bytes) -> None:
        """Keep an event, and forget the oldest ones."""
        self._events.append((stream, number, event))
        self._size += len(event)
        while len(self._events) > 1 and (self._size > self._max_bytes or len(self._events) > REPLAY_EVENTS):
            self._size -= len(self._events.popleft()[2])

    def after(self, stream: str, number: int) -> list[bytes]:
        """Events of a stream that came after one of them, as far as they are kept."""
        return [event for name, at, event in self._events if name == stream and at > number]


class Stream:
    """One stream of messages to a client."""

    def __init__(self, counters: Counter[str], name: str = "", replay: Replay | None = None) -> None:
        """Events get ids and can be replayed where there is a ``replay``."""
        self.name = name
        self.outbox = Outbox(counters)
        self.ended = False
        """No more messages will come."""
        self.reader: StreamResponse | None = None
        self._replay = replay
        self._last = 0

    @property
    def over(self) -> bool:
        """Everything was sent."""
        return self.ended and not self.outbox

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification when there is a reader and room, as :class:`Outbox` says."""
        if self.outbox.notify(method, params, hold=self.reader is None):
            self._wake()

    def send(self, message: bytes, key: object = None) -> None:
        """Send a message that must not be lost."""
        self.outbox.add(message, key)
        self._wake()

    def end(self, message: bytes | None = None) -> None:
        """Send the last message. What nobody reads is kept for a client that comes back."""
        if message is not None:
            self.outbox.add(message)
        self.ended = True
        if self.reader is None:
            self._leave()
        self._wake()

    def _wake(self) -> None:
        if self.reader is not None:
            self.reader.wake()

    def _leave(self) -> None:
        if self._replay is not None:
            for _ in self.take():
                pass

    def take(self) -> Iterator[bytes]:
        """Events to be sent now; they count as sent."""
        for message in self.outbox.take():
            if self._replay is None:
                yield b"event: message\ndata: %b\n\n" % message
                continue
            self._last += 1
            event = b"id: %b-%d\nevent: message\ndata: %b\n\n" % (self.name.encode(), self._last, message)
            self._replay.keep(self.name, self._last, event)
            yield event

    def attach(self, after: int | None = None, *, primed: bool = False) -> StreamResponse:
        """Make a reader, instead of the one there was.

        Args:
            after: Number of the last event the client got; what came after it is sent again.
            primed: Begin with an event without data, so that the client has an id to come back with.
        """
        if self.reader is not None:
            self.reader.stop()
        opening = []
        if self._replay is not None and after is not None:
            opening = self._replay.after(self.name, after)
        elif self._replay is not None and primed:
            opening = [b"id: %b-%d\nretry: %d\ndata: \n\n" % (self.name.encode(), self._last, RETRY_MS)]
        self.reader = StreamResponse(self, opening)
        return self.reader

    def detach(self, reader: StreamResponse) -> None:
        """Know that nobody reads, unless another reader took over."""
        if self.reader is reader:
            self.reader = None
            if self.ended:
                self._leave()


class StreamResponse:
    """Carries a stream to one HTTP response."""

    def __init__(self, stream: Stream, opening: list[bytes]) -> None:
        self._stream, self._opening = stream, opening
        self._stopped = False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look for messages."""
        self._woken.set()

    def stop(self) -> None:
        """End the response; the stream goes on without it."""
        self._stopped = True
        self._stream.detach(self)
        self._woken.set()

    async def carry(self, send: Send, headers: Headers = ()) -> None:
        """Write the response, until the stream is over or the reader is stopped."""
        try:
            await send({"type": "http.response.start", "status": OK, "headers": [*EVENT_STREAM, *headers]})
            body = b"".join(self._opening)
            while True:
                if not self._stopped:
                    body += b"".join(self._stream.take())
                done = self._stopped or self._stream.over
                if body or done:
                    await send({"type": "http.response.body", "body": body, "more_body": not done})
                if done:
                    return
                body = await self._more()
        finally:
            self._stream.detach(self)

    async def _more(self) -> bytes:
        """Wait for something to send; the comment to send instead when nothing comes."""
        try:
            async with asyncio.timeout(PING_S):
                await self._woken.wait()
        except TimeoutError:
            return PING
        self._woken.clear()
        return b""


async def watch(receive: Receive, reader: StreamResponse) -> None:
    """Stop a reader when its client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.stop()
