"""What both kinds of links have in common: a peer whose messages travel one by one, each in a request of its own."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, Any

from pml_hookspecs import TransportError
from pml_kit.json_line import json_line
from pml_kit.jsonrpc import envelope
from pml_kit.jsonrpc.outbox import CANCELLED
from pml_kit.jsonrpc.peer import INITIALIZE, Peer
from pml_kit.jsonrpc.pending_requests import again

from .errors import RefusedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Handler, RawObject

    from .connection import Connection
    from .options import Target
    from .settings import Settings

OUTBOX = 10_000
"""Notifications that wait for a server to take them, above which further ones are dropped."""
CONTROL_S = 30.0
"""Longest that a server may take to accept a notification or an answer [s]."""


def body_of(line: tuple[bytes, ...]) -> bytes:
    """A message as a body: its line without the line feed."""
    *begin, end = line
    return b"".join((*begin, end[:-1]))


class Call:
    """One request of ours, while it is exchanged."""

    __slots__ = ("answer", "key", "method", "params", "sent", "task")

    task: asyncio.Task[Any]

    def __init__(self, key: int, method: str, params: bytes, answer: asyncio.Future[RawObject]) -> None:
        """Make one with ``params``, a JSON object on one line."""
        self.key, self.method, self.params, self.answer = key, method, params, answer
        self.sent = False

    @property
    def modern(self) -> bool:
        """Whether it belongs to the era without a handshake."""
        return False

    @property
    def body(self) -> bytes:
        """The whole message."""
        return body_of(envelope.request(self.key, self.method, self.params))

    def fail(self, error: Exception) -> None:
        """Fail it, unless it has been answered."""
        if not self.answer.done():
            self.answer.set_exception(error)


class BaseLink(Peer):
    """A :class:`pml_hookspecs.Link`. How a message is exchanged or posted is for subclasses to say."""

    call_type = Call

    def __init__(self, target: Target, connection: Connection, handler: Handler, settings: Settings, log: Any) -> None:
        """Make one; nothing is sent."""
        super().__init__(target.peer, log)
        self.target, self.connection, self.settings, self.handler = target, connection, settings, handler
        self._calls: dict[int, Call] = {}
        self._outbox: deque[tuple[str, bytes]] = deque()
        self._sender: asyncio.Task[Any] | None = None

    # What subclasses say.

    async def open(self) -> None:
        """Do what must be done before the first request.

        Raises:
            TransportError: It failed.
        """

    async def end_session(self) -> None:
        """Tell the server that the session is over.

        Raises:
            TransportError: It could not be told.
        """

    async def exchange(self, call: Call) -> None:
        """Send a request. When this returns, the answer must be there or be sure to come.

        Raises:
            TransportError: It will not come.
        """
        raise NotImplementedError

    async def post(self, body: bytes) -> None:
        """Send a notification or an answer, and return once the server has taken it.

        Raises:
            TransportError: It has not.
        """
        raise NotImplementedError

    def posted(self, method: str) -> None:
        """Note that the server has taken a notification, or never will."""

    # What we send.

    def send_request(self, key: int, method: str, params: Mapping[str, Any]) -> None:
        """Exchange a request, in a task of its own, so that the end of the link can end it.

        In the caller's context, because that is where the messages that come with the answer belong.
        """
        call = self._calls[key] = self.call_type(key, method, json_line(params), self._pending.answer(key))
        call.task = self.start(self._carry(call), name=f"{self._peer}: {method} {key}")

    async def _carry(self, call: Call) -> None:
        try:
            await self.exchange(call)
        except TransportError as error:
            # How it failed matters to nobody outside, but for the status that says what the server speaks.
            call.fail(error if isinstance(error, RefusedError) else again(error))
            if isinstance(error, UnreachableError):
                self.end(again(error))
        except Exception as error:
            self.log.exception("http.request_failed", peer=self._peer, method=call.method)
            call.fail(TransportError(f"{self._peer}: {call.method} failed: {error}", retryable=False))
        finally:
            self._calls.pop(call.key, None)

    def take_back(self, key: int, method: str, reason: str) -> bool:
        """Let go of a request, and tell the server where that is a message of its own."""
        call = self._calls.get(key)
        if call is not None:
            call.task.cancel()
        if method != INITIALIZE and (call is None or (call.sent and not call.modern)):
            self.notify(CANCELLED, {"requestId": key, "reason": reason})
        return True

    def call(self, method: str, params: bytes) -> Call:
        """Register a request of the link's own, whose time whoever calls this limits. It is to be forgotten again."""
        key, answer = self._pending.add(method, math.inf)
        call = self._calls[key] = self.call_type(key, method, params, answer)
        return call

    def forget(self, call: Call) -> None:
        """Remove a request that :meth:`call` registered."""
        self._calls.pop(call.key, None)
        self._pending.take(call.key)
        if call.answer.done() and not call.answer.cancelled():
            call.answer.exception()  # seen, even where nobody waits for it any more

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, as :class:`pml_hookspecs.Link` says."""
        if self._error is not None or len(self._outbox) >= OUTBOX:
            self.counters["dropped"] += 1
            return
        try:
            body = body_of(envelope.notification(method, params))
        except (TypeError, ValueError) as error:
            self.counters["dropped"] += 1
            self.log.warning("jsonrpc.unsendable_notification", peer=self._peer, method=method, problem=str(error))
            return
        self._outbox.append((method, body))
        if self._sender is None:
            self._sender = self.start_apart(self._send_notifications(), name=f"{self._peer}: notifications")

    async def _send_notifications(self) -> None:
        try:
            while self._outbox and not self._ended:
                method, body = self._outbox.popleft()
                if not await self.deliver(body, method):
                    self.counters["dropped"] += 1
                self.posted(method)
        finally:
            self._sender = None

    def send_answer(self, line: tuple[bytes, ...]) -> None:
        """Post an answer."""
        self.start(self.deliver(body_of(line), "an answer"), name=f"{self._peer}: an answer")

    async def deliver(self, body: bytes, what: str) -> bool:
        """Send a message that nobody waits for an answer to. False when the server did not take it."""
        try:
            async with asyncio.timeout(CONTROL_S):
                await self.post(body)
        except (TransportError, TimeoutError) as error:
            self.log.warning("http.not_delivered", peer=self._peer, message=what, problem=str(error) or "timed out")
            if isinstance(error, UnreachableError):
                self.end(again(error))
            return False
        return True
