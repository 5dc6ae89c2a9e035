"""What both kinds of links have in common: requests of ours, requests of the server's, and the end of it all."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from pml_hookspecs import EMPTY, Origin, RawObject, RpcError, TransportError, encode
from pml_hookspecs.protocol import INTERNAL_ERROR, INVALID_PARAMS

from . import envelope
from .errors import RefusedError, UnreachableError, again

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from pml_hookspecs import Handler

    from .connection import Connection
    from .envelope import Message
    from .options import Target
    from .settings import Settings

CANCELLED = "notifications/cancelled"
INITIALIZE = "initialize"
OUTBOX = 10_000
"""Notifications that wait for a server to take them, above which further ones are dropped."""
CONTROL_S = 30.0
"""Longest that a server may take to accept a notification or an answer [s]."""


class Call:
    """One request of ours."""

    __slots__ = ("answer", "key", "method", "params", "sent", "task")

    task: asyncio.Task[Any]

    def __init__(self, key: int, method: str, params: bytes) -> None:
        """Make one with ``params``, a JSON object."""
        self.key, self.method, self.params = key, method, params
        self.answer: asyncio.Future[RawObject] = asyncio.get_running_loop().create_future()
        self.sent = False

    @property
    def modern(self) -> bool:
        """Whether it belongs to the era without a handshake."""
        return False

    @property
    def body(self) -> bytes:
        """The whole message."""
        return envelope.request(self.key, self.method, self.params)

    def succeed(self, result: RawObject) -> None:
        """Answer it, unless that has happened."""
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: Exception) -> None:
        """Fail it, unless it has been answered."""
        if not self.answer.done():
            self.answer.set_exception(error)


class BaseLink:
    """A :class:`pml_hookspecs.Link`. How messages travel is for subclasses to say."""

    call_type = Call

    def __init__(self, target: Target, connection: Connection, handler: Handler, settings: Settings, log: Any) -> None:
        """Make one; nothing is sent."""
        self.target, self.connection, self.settings, self.log = target, connection, settings, log
        self._handler = handler
        self._peer = target.peer
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        """For what no request of ours has caused."""
        self._last_id = 0
        self._calls: dict[int, Call] = {}
        self._running: dict[asyncio.Task[Any], Any] = {}
        """Requests of the server's that are being answered, with their ids."""
        self._tasks: set[asyncio.Task[Any]] = set()
        """Whatever runs for this link."""
        self._outbox: deque[tuple[str, bytes]] = deque()
        self._sender: asyncio.Task[Any] | None = None
        self._error: TransportError | None = None
        self._ended = False
        self.counters = {"unasked": 0, "junk": 0, "dropped": 0}
        """Answers that no request waits for (any more), messages that are none, notifications not sent."""

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

    def settled(self, call: Call, result: RawObject) -> None:
        """Look at the result of one of our requests that passes through."""

    def refused(self, call: Call, error: RpcError) -> bool:
        """Look at an error; True means that it is not the request's answer."""
        return False

    def posted(self, method: str) -> None:
        """Note that the server has taken a notification, or never will."""

    # What we send.

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """Send a request and wait for its answer, as :class:`pml_hookspecs.Link` says."""
        if self._error is not None:
            raise again(self._error)
        call = self.call(method, encode(params))
        # A task of its own, so that the end of the link can end it; in the caller's context, because that is where
        # the messages that come with the answer belong.
        call.task = self.start(self._carry(call), name=f"{self._peer}: {method} {call.key}")
        try:
            async with asyncio.timeout(timeout_s):
                return await call.answer
        except TimeoutError:
            limit = f"{timeout_s:g} s"
            self._take_back(call, f"no answer within {limit}")
            raise TimeoutError(f"{self._peer} did not answer {method} within {limit}") from None
        except asyncio.CancelledError:
            self._take_back(call, "the caller was cancelled")
            raise
        finally:
            self.forget(call)

    def call(self, method: str, params: bytes) -> Call:
        """Register a request under the next id. Whoever calls this removes it again."""
        self._last_id += 1
        call = self._calls[self._last_id] = self.call_type(self._last_id, method, params)
        return call

    def forget(self, call: Call) -> None:
        """Remove a request that :meth:`call` registered."""
        self._calls.pop(call.key, None)
        if call.answer.done() and not call.answer.cancelled():
            call.answer.exception()  # seen, even where the caller was cancelled in the same turn of the loop

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

    def _take_back(self, call: Call, reason: str) -> None:
        call.task.cancel()
        if call.sent and not call.modern and call.method != INITIALIZE and self._error is None:
            self.notify(CANCELLED, {"requestId": call.key, "reason": reason})

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, as :class:`pml_hookspecs.Link` says."""
        if self._error is not None or len(self._outbox) >= OUTBOX:
            self.counters["dropped"] += 1
            return
        try:
            body = envelope.notification(method, params)
        except (TypeError, ValueError) as error:
            self.counters["dropped"] += 1
            self.log.warning("http.unsendable_notification", peer=self._peer, method=method, problem=str(error))
            return
        self._outbox.append((method, body))
        if self._sender is None:
            self._sender = self.start_apart(self._send_notifications(), name=f"{self._peer}: notifications")

    async def _send_notifications(self) -> None:
        try:
            while self._outbox:
                method, body = self._outbox.popleft()
                if not await self.deliver(body, method):
                    self.counters["dropped"] += 1
                self.posted(method)
        finally:
            self._sender = None

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

    # What arrives.

    def received(self, data: bytes) -> int:
        """Take what the server sent, in the context it belongs to. The number of messages in it."""
        try:
            messages = envelope.decode(data)
            for message in messages:
                if not self._ended:
                    self._message(message)
        except (ValueError, RecursionError) as error:
            self.counters["junk"] += 1
            # The first one tells the user that something is wrong with the server; the others would drown the log.
            log = self.log.warning if self.counters["junk"] == 1 else self.log.debug
            log("http.junk", peer=self._peer, problem=str(error), head=envelope.shown(data))
            return 0
        return len(messages)

    def _message(self, message: Message) -> None:
        # By kind first: a request of the server's may have the id of one of ours.
        if message.method is UNSET:
            self._response(message)
        elif message.id is UNSET or message.id is None:
            self._notification(str(message.method), message.params)
        else:
            self._request(message)

    def _response(self, message: Message) -> None:
        key = message.id if type(message.id) is int else envelope.own_id(message.id)
        call = None if key is None else self._calls.get(key)
        if call is None or call.answer.done():
            self.counters["unasked"] += 1
        else:
            self.settle(call, message)

    def settle(self, call: Call, message: Message) -> None:
        """Answer a request with a response."""
        if message.error is not UNSET and bytes(message.error) != b"null":
            error = RpcError(*envelope.error_of(bytes(message.error)))
            if not self.refused(call, error):
                call.fail(error)
            return
        raw = b"" if message.result is UNSET else bytes(message.result)
        if raw.startswith(b"{"):
            result = RawObject(raw)
            self.settled(call, result)
            call.succeed(result)
        else:
            what = f"a result that is not an object: {envelope.shown(raw)}" if raw else "neither result nor error"
            call.fail(TransportError(f"{self._peer} answered {call.method} with {what}", retryable=False))

    def _notification(self, method: str, raw: Any) -> None:
        params = EMPTY if raw is UNSET or not bytes(raw).startswith(b"{") else RawObject(bytes(raw))
        if method == CANCELLED:
            wanted = params.get("requestId")
            for task, key in list(self._running.items()):
                if key == wanted and type(key) is type(wanted):
                    self._withdraw(task)
            return
        self.tell(method, params)

    def tell(self, method: str, params: RawObject) -> None:
        """Hand a notification to the handler."""
        try:
            self._handler.notification(method, params)
        except Exception:
            self.log.exception("http.notification_failed", peer=self._peer, method=method)

    # What we answer.

    def _request(self, message: Message) -> None:
        params = EMPTY if message.params is UNSET else RawObject(bytes(message.params))
        work = self._serve(message.id, str(message.method), params)
        task = self.start(work, name=f"{self._peer}: {message.method} {message.id} of the server's")
        self._running[task] = message.id

    def _withdraw(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        task.cancel()

    async def _serve(self, key: Any, method: str, params: RawObject) -> None:
        task, what = asyncio.current_task(), f"answer to {method}"
        try:
            body = await self._answer(key, method, params)
        except asyncio.CancelledError:
            # Neither withdrawn nor at the end of the link: the server still waits.
            if self._running.pop(task, None) is not None:  # type: ignore[arg-type]
                failure = RpcError(INTERNAL_ERROR, "Internal error")
                self.start_apart(self.deliver(envelope.error(key, failure.to_wire()), what), name=what)
            raise
        if self._running.pop(task, None) is not None:  # type: ignore[arg-type]
            await self.deliver(body, what)

    async def _answer(self, key: Any, method: str, params: RawObject) -> bytes:
        try:
            if not params.raw.startswith(b"{"):
                if params.raw != b"null":
                    raise RpcError(INVALID_PARAMS, "params must be an object")
                params = EMPTY
            return envelope.result(key, await self._handler.request(method, params, Origin(key, self)))
        except RpcError as error:
            failure = error
        except Exception:
            self.log.exception("http.handler_failed", peer=self._peer, method=method)
            failure = RpcError(INTERNAL_ERROR, "Internal error")
        return envelope.error(key, failure.to_wire())

    # How it ends.

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._ended

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run ``work`` in the current context until the link ends; what it fails of unforeseen ends the link."""
        return self._tracked(self._loop.create_task(work, name=name))

    def start_apart(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Like :meth:`start`, in a context that belongs to no request."""
        return self._tracked(self._loop.create_task(work, name=name, context=self._context.copy()))

    def _tracked(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None or isinstance(error, TransportError) or self._ended:
            return
        # Nobody does its work any more, so that the link would hang without a word.
        self.log.error("http.task_failed", peer=self._peer, task=task.get_name(), problem=repr(error), exc_info=error)
        self.end(TransportError(f"the connection to {self._peer} failed: {error}", retryable=True))

    def end(self, error: TransportError | None) -> None:
        """The link is over; None when this end wanted it so. Only the first call counts."""
        if self._ended:
            return
        self._ended = True
        self._error = error or TransportError(f"the connection to {self._peer} was closed", retryable=True)
        for call in list(self._calls.values()):
            call.fail(again(self._error))
        self._running.clear()
        for task in list(self._tasks):
            task.cancel()
        try:
            self._handler.closed(error)
        except Exception:
            self.log.exception("http.closed_failed", peer=self._peer)

    async def join(self, limit_s: float) -> None:
        """Wait until what :meth:`end` cancelled is done, at most ``limit_s`` seconds."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=limit_s)
        for task in self._tasks:
            self.log.error("http.task_does_not_end", peer=self._peer, task=task.get_name())
