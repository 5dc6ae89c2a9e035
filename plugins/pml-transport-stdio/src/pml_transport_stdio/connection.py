"""A JSON-RPC connection, seen from either end: requests of ours, requests of the peer's, over one pair of pipes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from pml_hookspecs import EMPTY, Origin, RawObject, RpcError, TransportError
from pml_hookspecs.protocol import LISTEN
from pml_kit.json_line import json_line

from . import envelope
from .framing import Lines, OversizedLine
from .outbox import CANCELLED, Outbox
from .pending_requests import PendingRequests, Request, again
from .serial_requests import SerialRequests
from .server_output import NonProtocolLines, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Handler

    from .envelope import Message
    from .settings import Settings
    from .wire import Writer

INTERNAL_ERROR = RpcError(-32603, "Internal error")
BUSY = RpcError(-31998, "Too many requests at once; send this one again when others have been answered")
"""With a code of our own, outside the range that JSON-RPC and MCP reserve."""
ALWAYS_EXCEEDED = -1


class Connection:
    """The multiplexer. Implements :class:`pml_hookspecs.Link`.

    Whoever makes one gives it a ``handler`` and a ``writer``, feeds it what arrives and ends it.
    """

    handler: Handler
    writer: Writer

    def __init__(
        self, peer: str, settings: Settings, log: Any, *, concurrent: bool = True, sheds: bool = False
    ) -> None:
        """Make one to ``peer``, as messages call it.

        Args:
            peer: ``server 'git'``, say.
            settings: Limits.
            log: Where junk and faults go.
            concurrent: False to have at most one request of ours on its way at a time.
            sheds: Drop answers to a peer that does not read, instead of keeping them without limit.
        """
        self._peer, self._settings, self._log, self._sheds = peer, settings, log, sheds
        self._loop = asyncio.get_running_loop()
        self._lines = Lines(settings.max_message_bytes)
        self._pending = PendingRequests(self._expired)
        self._turns = None if concurrent else SerialRequests(self._write, self._stuck)
        self._relaxed_bytes = settings.notify_buffer_bytes
        """Unwritten while notifications pass. :data:`ALWAYS_EXCEEDED` while some are held back: none overtakes them."""
        self._running: dict[asyncio.Task[None], Any] = {}  # requests of the peer's being answered, with their ids
        self._listening: set[asyncio.Task[None]] = set()  # those that go on for as long as the peer listens
        self._withdrawn: set[asyncio.Task[None]] = set()  # those that are being cancelled and get no answer
        self._error: TransportError | None = None
        self._ended = False
        self.counters = dict.fromkeys(("late", "unknown", "junk", "oversized", "dropped", "merged", "refused"), 0)
        """Answers after their time, answers nobody asked for, lines that are no message, lines too long, messages
        not sent, notifications that later ones stood in for, requests that were too many."""
        self.junk = NonProtocolLines(peer, log)
        self._outbox = Outbox(settings.write_buffer_bytes, self.counters)

    @property
    def pending(self) -> int:
        """Requests of ours that wait for an answer."""
        return len(self._pending)

    @property
    def running(self) -> frozenset[asyncio.Task[None]]:
        """The tasks that answer the peer's requests."""
        return frozenset(self._running)

    # What we send.

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """Send a request and wait for its answer, as :class:`pml_hookspecs.Link` says."""
        if self._error is not None:
            raise again(self._error)
        if self._clogged():
            raise TransportError(
                f"{self._peer} is not reading its input: {self._unwritten()} bytes wait to be written, so {method} was "
                "not sent; try again later",
                retryable=True,
            )
        body = json_line(params)
        key, answer = self._pending.add(method, timeout_s)
        chunks = envelope.request(key, method, body)
        if self._turns is not None:
            self._turns.submit(key, chunks)
        else:
            self._write(chunks, now=len(self._pending) == 1)
        try:
            return await answer
        except asyncio.CancelledError:
            if self._pending.abandon(key) is not None:
                self._take_back(key, method, "the caller was cancelled")
            raise

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, as :class:`pml_hookspecs.Link` says."""
        if self._error is not None:
            self.counters["dropped"] += 1
        elif self.writer.size > self._relaxed_bytes:
            self._hold(method, params)
        elif (line := self._notification_line(method, params)) is not None:
            self.writer.write(line)

    def _notification_line(self, method: str, params: Mapping[str, Any]) -> tuple[bytes, ...] | None:
        try:
            return envelope.notification(method, params)
        except (TypeError, ValueError) as error:
            self.counters["dropped"] += 1
            self._log.error("stdio.unsendable_notification", peer=self._peer, method=method, problem=str(error))
            return None

    def _hold(self, method: str, params: Mapping[str, Any]) -> None:
        if self._outbox.refuses(method) or (line := self._notification_line(method, params)) is None:
            return
        self._outbox.put(method, params, line, self.writer.size)
        if self._outbox.size:
            self._relaxed_bytes = ALWAYS_EXCEEDED

    def room(self) -> None:
        """Send what was held back."""
        if self._outbox.size:
            self._relaxed_bytes = self._settings.notify_buffer_bytes
            self.writer.write(self._outbox.empty())

    def _write(self, chunks: tuple[bytes, ...], *, now: bool = False) -> None:
        # Nothing overtakes what was sent before it: no answer the progress that led to it, no request the notification
        # that allows it.
        if self._outbox.size:
            self.room()
        self.writer.write(chunks, now=now)

    def _unwritten(self) -> int:
        return self.writer.size + self._outbox.size

    def _clogged(self) -> bool:
        return self._unwritten() > self._settings.write_buffer_bytes

    def _expired(self, key: int, request: Request) -> None:
        limit = f"{request.timeout_s:g} s"
        sent = self._take_back(key, request.method, f"no answer within {limit}")
        why = "" if sent else ", all of it spent waiting for its turn (allow_concurrent_requests is off)"
        if not request.answer.done():
            request.answer.set_exception(
                TimeoutError(f"{self._peer} did not answer {request.method} within {limit}{why}")
            )

    def _take_back(self, key: int, method: str, reason: str) -> bool:
        """Tell the peer that an answer is not wanted any more. False when the request had not been sent yet."""
        sent = self._turns is None or self._turns.sent(key)
        if sent and method != "initialize":
            self.notify(CANCELLED, {"requestId": key, "reason": reason})
        if self._turns is not None:
            self._turns.abandon(key)
        return sent

    def _stuck(self, problem: str) -> None:
        self.end(TransportError(f"{self._peer} {problem}", retryable=True))

    # What arrives.

    def data_received(self, data: bytes) -> None:
        """Take a chunk from the peer."""
        for line in self._lines.feed(data):
            if line and not self._ended:
                self._line(line)

    def eof_received(self) -> None:
        """Take the line that the stream ended in."""
        for line in self._lines.close():
            if not self._ended:
                self._line(line)

    def _line(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine):
            self.counters["oversized"] += 1
            limit = self._settings.max_message_bytes
            self._log.warning("stdio.oversized", peer=self._peer, bytes=line.size, limit=limit, head=shown(line.head))
            self._unreadable(line, f"an answer of {line.size} bytes; the limit is max_message_bytes = {limit}")
            return
        try:
            message = envelope.decode(line)
        except (ValueError, RecursionError):
            self._odd_line(line)
        else:
            self._message(message, line)

    def _odd_line(self, line: bytes) -> None:
        try:
            messages = envelope.decode_leniently(line)
        except (ValueError, RecursionError) as error:
            self._junk(line)
            self._unreadable(line, f"an answer that is not JSON ({error}): {shown(line)}")
            return
        for message in messages:
            if message is None:
                self._junk(line)
            elif not self._ended:
                self._message(message, line)

    def _junk(self, line: bytes) -> None:
        self.counters["junk"] += 1
        self.junk.heard(line)

    def _unreadable(self, line: bytes | OversizedLine, what: str) -> None:
        key = envelope.recover_id(line)
        request = None if key is None else self._answered(key)
        if request is not None:
            self._refuse(request, what)

    def _message(self, message: Message, line: bytes) -> None:
        # By kind first: a request of the peer's may have the id of one of ours.
        if message.method is UNSET:
            self._response(message, line)
        elif message.id is UNSET or message.id is None:
            self._notification(message)
        else:
            self._request(message)

    def _response(self, message: Message, line: bytes) -> None:
        key = message.id
        if type(key) is not int:
            key = envelope.own_id(key)
        if message.result is UNSET and message.error is UNSET and key is None:
            self._junk(line)
            return
        request = None if key is None else self._answered(key)
        if request is None:
            if key is not None and self._pending.was_abandoned(key):
                self.counters["late"] += 1
            else:
                self.counters["unknown"] += 1
            return
        self._settle(request, message, line)

    def _answered(self, key: int) -> Request | None:
        request = self._pending.take(key)
        if self._turns is not None:
            self._turns.leave(key)
        # A request whose caller was cancelled in this turn of the loop is not taken back any more.
        return request

    def _settle(self, request: Request, message: Message, line: bytes) -> None:
        if request.answer.done():
            self.counters["late"] += 1
            return
        if message.error is not UNSET and bytes(message.error) != b"null":
            request.answer.set_exception(RpcError(*envelope.error_of(bytes(message.error))))
        elif message.result is UNSET:
            self._refuse(request, f"an answer without result or error: {shown(line)}")
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
            return
        try:
            self.handler.notification(str(message.method), params)
        except Exception:
            self._log.exception("stdio.notification_failed", peer=self._peer, method=message.method)

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
        if len(self._running) + len(self._withdrawn) >= self._settings.max_requests:
            self.counters["refused"] += 1
            self._reply(envelope.error(message.id, BUSY.to_wire()))
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
            chunks = await self._answer(key, method, params)
        except asyncio.CancelledError:
            # Neither withdrawn nor at the end of the connection: the peer still waits.
            if task in self._running:
                del self._running[task]
                self._write(envelope.error(key, INTERNAL_ERROR.to_wire()))
            raise
        if task in self._running:
            del self._running[task]
            self._reply(chunks)

    def _reply(self, chunks: tuple[bytes, ...]) -> None:
        if self._sheds and self._clogged():
            self.counters["dropped"] += 1
        else:
            self._write(chunks, now=not self._running)

    async def _answer(self, key: Any, method: str, params: RawObject) -> tuple[bytes, ...]:
        try:
            if not params.raw.startswith(b"{"):
                if params.raw != b"null":
                    raise RpcError(-32602, "params must be an object")
                params = EMPTY
            return envelope.result(key, await self.handler.request(method, params, Origin(key, self)))
        except RpcError as error:
            failure = error
        except Exception:
            self._log.exception("stdio.request_failed", peer=self._peer, method=method)
            failure = INTERNAL_ERROR
        try:
            return envelope.error(key, failure.to_wire())
        except (TypeError, ValueError):
            self._log.exception("stdio.unsendable_error", peer=self._peer, method=method)
            return envelope.error(key, INTERNAL_ERROR.to_wire())

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
        if error is None:
            self.room()
        self.fail(error or TransportError(f"the connection to {self._peer} was closed", retryable=True))
        for task in list(self._running):
            self._withdraw(task)
        try:
            self.handler.closed(error)
        except Exception:
            self._log.exception("stdio.closed_failed", peer=self._peer)

    async def join(self, limit_s: float) -> None:
        """Wait until the tasks that :meth:`end` cancelled are done, at most ``limit_s`` seconds."""
        if self._withdrawn:
            await asyncio.wait(set(self._withdrawn), timeout=limit_s)
        for task in self._withdrawn:
            self._log.error("stdio.task_does_not_end", peer=self._peer, task=task.get_name())
