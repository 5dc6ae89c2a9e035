"""One end of a JSON-RPC connection: requests of ours, requests of the peer's, and the end of it all.

How messages travel is for subclasses to say; :mod:`pml_kit.jsonrpc.lines` is for whatever carries bytes both ways.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from pml_hookspecs import EMPTY, Origin, RawObject, RpcError, TransportError
from pml_kit.mcp.protocol import INTERNAL_ERROR, INVALID_PARAMS, LISTEN

from . import envelope
from .junk import NonProtocolLines, shown
from .outbox import CANCELLED
from .pending_requests import PendingRequests, Request, SerialRequests, again

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from pml_hookspecs import Handler

    from .envelope import Message

INITIALIZE = "initialize"
FAULT = RpcError(INTERNAL_ERROR, "Internal error")
BUSY = RpcError(-31998, "Too many requests at once; send this one again when others have been answered")
"""With a code of our own, outside the range that JSON-RPC and MCP reserve."""
MOST_REQUESTS = 16_384
"""Requests of one peer that are answered at a time, unless told otherwise."""


class Peer:
    """Implements :class:`pml_hookspecs.Link`.

    Whoever makes one gives it a ``handler``, feeds it what arrives, and ends it.
    """

    handler: Handler

    def __init__(self, peer: str, log: Any, *, max_requests: int = MOST_REQUESTS) -> None:
        """Make one; nothing is sent.

        Args:
            peer: How messages call the other end: ``server 'git'``, say.
            log: Where junk and faults go.
            max_requests: Requests of the peer's that are answered at a time, above which more are refused.
        """
        self._peer, self.log, self._max_requests = peer, log, max_requests
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        """For what no request of ours has caused."""
        self._pending = PendingRequests(self._expired)
        self._turns: SerialRequests | None = None
        """None where requests of ours may be on their way at once."""
        self._running: dict[asyncio.Task[None], Any] = {}  # requests of the peer's being answered, with their ids
        self._listening: set[asyncio.Task[None]] = set()  # those that go on for as long as the peer listens
        self._withdrawn: set[asyncio.Task[None]] = set()  # those that are being cancelled and get no answer
        self._tasks: set[asyncio.Task[Any]] = set()  # whatever else runs for the connection
        self._error: TransportError | None = None
        self._ended = False
        self.counters = dict.fromkeys(("late", "unknown", "junk", "dropped", "refused"), 0)
        """Answers after their time, answers nobody asked for, what is no message, messages not sent, requests that
        were too many; subclasses count more."""
        self.junk = NonProtocolLines(peer, log)

    @property
    def pending(self) -> int:
        """Requests of ours that wait for an answer."""
        return len(self._pending)

    @property
    def running(self) -> frozenset[asyncio.Task[None]]:
        """The tasks that answer the peer's requests."""
        return frozenset(self._running)

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._ended

    # What subclasses say.

    def send_request(self, key: int, method: str, params: Mapping[str, Any]) -> None:
        """Send a request of ours, or see to it.

        Raises:
            TransportError: It cannot be sent as things are.
            TypeError, ValueError: It cannot be written as JSON.
        """
        raise NotImplementedError

    def send_answer(self, line: tuple[bytes, ...]) -> None:
        """Send the answer to a request of the peer's, or see to it. ``line`` is the message in pieces."""
        raise NotImplementedError

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, as :class:`pml_hookspecs.Link` says."""
        raise NotImplementedError

    # What we send.

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """Send a request and wait for its answer, as :class:`pml_hookspecs.Link` says."""
        if self._error is not None:
            raise again(self._error)
        key, answer = self._pending.add(method, timeout_s)
        try:
            self.send_request(key, method, params)
            return await answer
        except asyncio.CancelledError:
            if self._pending.abandon(key) is not None:
                self.take_back(key, method, "the caller was cancelled")
            raise
        except Exception:
            self._pending.take(key)  # where it was not sent
            raise

    def _expired(self, key: int, request: Request) -> None:
        limit = f"{request.timeout_s:g} s"
        sent = self.take_back(key, request.method, f"no answer within {limit}")
        why = "" if sent else ", all of it spent waiting for its turn (allow_concurrent_requests is off)"
        if not request.answer.done():
            request.answer.set_exception(
                TimeoutError(f"{self._peer} did not answer {request.method} within {limit}{why}")
            )

    def take_back(self, key: int, method: str, reason: str) -> bool:
        """Tell the peer that an answer is not wanted any more. False when the request had not been sent yet."""
        sent = self._turns is None or self._turns.sent(key)
        if sent and method != INITIALIZE:
            self.notify(CANCELLED, {"requestId": key, "reason": reason})
        if self._turns is not None:
            self._turns.abandon(key)
        return sent

    # What arrives.

    def received(self, data: bytes) -> int:
        """Take a message, or a batch of them. How many it were; 0 once the connection is over."""
        if self._ended:
            return 0
        try:
            message = envelope.decode(data)
        except (ValueError, RecursionError):
            return self._received_odd(data)
        self._message(message, data)
        return 1

    def _received_odd(self, data: bytes) -> int:
        try:
            messages = envelope.decode_leniently(data)
        except (ValueError, RecursionError) as error:
            self._junk(data)
            self.unreadable(envelope.recover_id(data), f"an answer that is not JSON ({error}): {shown(data)}")
            return 0
        found = 0
        for message in messages:
            if message is None:
                self._junk(data)
            elif not self._ended:
                found += 1
                self._message(message, data)
        return found

    def _junk(self, data: bytes) -> None:
        self.counters["junk"] += 1
        self.junk.heard(data)

    def unreadable(self, key: int | None, what: str) -> None:
        """Fail the request ``key``, if there is one, because its answer cannot be read."""
        if key is None:
            return
        request = self._pending.take(key)
        if self._turns is not None:
            self._turns.leave(key)
        if request is not None:
            self._refuse(request, what)

    def _message(self, message: Message, data: bytes) -> None:
        # By kind first: a request of the peer's may have the id of one of ours.
        if message.method is UNSET:
            self._response(message, data)
        elif message.id is UNSET or message.id is None:
            self._notification(message)
        else:
            self._request(message)

    def _response(self, message: Message, data: bytes) -> None:
        key = message.id
        if type(key) is not int:
            key = envelope.own_id(key)
            if key is None and message.result is UNSET and message.error is UNSET:
                self._junk(data)
                return
        request = None if key is None else self._pending.take(key)
        if self._turns is not None and key is not None:
            self._turns.leave(key)
        if request is not None and not request.answer.done():
            self.settle(key, request, message, data)
        elif request is not None or (key is not None and self._pending.was_abandoned(key)):
            # A request whose caller was cancelled in this turn of the loop is not taken back any more.
            self.counters["late"] += 1
        else:
            self.counters["unknown"] += 1

    def settle(self, key: int | None, request: Request, message: Message, data: bytes) -> None:
        """Answer a request that is no longer pending with a response."""
        if message.error is not UNSET and bytes(message.error) != b"null":
            request.answer.set_exception(RpcError(*envelope.error_of(bytes(message.error))))
        elif message.result is UNSET:
            self._refuse(request, f"an answer without result or error: {shown(data)}")
        else:
            raw = bytes(message.result)
            if raw.startswith(b"{"):
                request.answer.set_result(RawObject(raw))
            else:
                self._refuse(request, f"a result that is not an object: {shown(raw)}")

    def _refuse(self, request: Request, what: str) -> None:
        if not request.answer.done():
            message = f"{self._peer} answered {request.method} with {what}"
            request.answer.set_exception(TransportError(message, retryable=False))

    def _notification(self, message: Message) -> None:
        params = RawObject(bytes(message.params)) if message.params is not UNSET else EMPTY
        if not params.raw.startswith(b"{"):
            params = EMPTY
        if message.method == CANCELLED:
            self._cancelled(params)
        else:
            self.tell(str(message.method), params)

    def tell(self, method: str, params: RawObject) -> None:
        """Hand a notification to the handler."""
        try:
            self.handler.notification(method, params)
        except Exception:
            self.log.exception("jsonrpc.notification_failed", peer=self._peer, method=method)

    def _cancelled(self, params: RawObject) -> None:
        try:
            wanted = params.get("requestId")
        except (ValueError, RecursionError):  # JSON that Python does not decode
            self._junk(params.raw)
            return
        for task, key in list(self._running.items()):
            if key == wanted and type(key) is type(wanted):
                self._withdraw(task)

    def _withdraw(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._withdrawn.add(task)
        task.add_done_callback(self._withdrawn.discard)
        task.cancel()

    # What we answer.

    def _request(self, message: Message) -> None:
        if len(self._running) + len(self._withdrawn) >= self._max_requests:
            self.counters["refused"] += 1
            self.send_answer(envelope.error(message.id, BUSY.to_wire()))
            return
        params = EMPTY if message.params is UNSET else RawObject(bytes(message.params))
        work = self._serve(message.id, str(message.method), params)
        task = self._loop.create_task(work, name=f"{self._peer}: {message.method} {message.id}")
        self._running[task] = message.id
        if message.method == LISTEN:
            self._listening.add(task)
            task.add_done_callback(self._listening.discard)

    async def _serve(self, key: Any, method: str, params: RawObject) -> None:
        task = asyncio.current_task()
        try:
            line = await self._answer(key, method, params)
        except asyncio.CancelledError:
            # Neither withdrawn nor at the end of the connection: the peer still waits.
            if task in self._running:
                del self._running[task]
                self.send_answer(envelope.error(key, FAULT.to_wire()))
            raise
        if task in self._running:
            del self._running[task]
            self.send_answer(line)

    async def _answer(self, key: Any, method: str, params: RawObject) -> tuple[bytes, ...]:
        try:
            if not params.raw.startswith(b"{"):
                if params.raw != b"null":
                    raise RpcError(INVALID_PARAMS, "params must be an object")
                params = EMPTY
            return envelope.result(key, await self.handler.request(method, params, Origin(key, self)))
        except RpcError as error:
            failure = error
        except Exception:
            self.log.exception("jsonrpc.request_failed", peer=self._peer, method=method)
            failure = FAULT
        try:
            return envelope.error(key, failure.to_wire())
        except (TypeError, ValueError):
            self.log.exception("jsonrpc.unsendable_error", peer=self._peer, method=method)
            return envelope.error(key, FAULT.to_wire())

    # What runs for it.

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run ``work`` in the current context until the connection ends; what it fails of unforeseen ends that."""
        return self._tracked(self._loop.create_task(work, name=name))

    def start_apart(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Like :meth:`start`, in a context that belongs to no request."""
        return self._tracked(self._loop.create_task(work, name=name, context=self._context.copy()))

    def _tracked(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._done)
        if self._ended:
            task.cancel()
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None or isinstance(error, TransportError) or self._ended:
            return
        # Nobody does its work any more, so that the connection would hang without a word.
        task_name, problem = task.get_name(), repr(error)
        self.log.error("jsonrpc.task_failed", peer=self._peer, task=task_name, problem=problem, exc_info=error)
        self.end(TransportError(f"the connection to {self._peer} failed: {error}", retryable=True))

    # How it ends.

    def fail(self, error: TransportError) -> None:
        """Nothing more will arrive: fail all requests of ours, those to come included. Answers can still be sent."""
        if self._error is None:
            self._error = error
        for request in self._pending.clear():
            if not request.answer.done():
                request.answer.set_exception(again(error))
        if self._turns is not None:
            self._turns.clear()
        for task in self._listening & self._running.keys():
            self._withdraw(task)

    def end(self, error: TransportError | None) -> None:
        """The connection is over; None when this end wanted it so. Only the first call counts."""
        if self._ended:
            return
        self._ended = True
        self.fail(error or TransportError(f"the connection to {self._peer} was closed", retryable=True))
        for task in list(self._running):
            self._withdraw(task)
        for other in self._tasks - {asyncio.current_task()}:
            other.cancel()
        try:
            self.handler.closed(error)
        except Exception:
            self.log.exception("jsonrpc.closed_failed", peer=self._peer)

    async def join(self, limit_s: float) -> None:
        """Wait until the tasks that :meth:`end` cancelled are done, at most ``limit_s`` seconds."""
        tasks = self._withdrawn | self._tasks
        if tasks:
            await asyncio.wait(tasks, timeout=limit_s)
        for task in self._withdrawn | self._tasks:
            self.log.error("jsonrpc.task_does_not_end", peer=self._peer, task=task.get_name())
