"""Streamable HTTP: each message is a POST of its own, and its answer is JSON or a stream of events."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from pml_hookspecs import EMPTY, RawObject, RpcError, TransportError
from pml_kit.json_line import json_line
from pml_kit.jsonrpc import envelope
from pml_kit.jsonrpc.junk import shown
from pml_kit.jsonrpc.peer import INITIALIZE
from pml_kit.jsonrpc.pending_requests import Request, again
from pml_kit.mcp.protocol import HEADER_MISMATCH, LISTEN

from .connection import REDIRECT
from .errors import BrokenError, UnreachableError
from .events import Events, TooLongError
from .handshake import SESSION_HEADER, Handshake, session_of
from .link import BaseLink, Call, body_of
from .standalone import StandaloneStream, pause
from .stateless_headers import ParameterHeaders, headers_of, revision_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

    from pml_hookspecs import Handler

    from .connection import Connection
    from .options import Target
    from .settings import Settings

INITIALIZED = "notifications/initialized"
LIST_TOOLS, CALL_TOOL = "tools/list", "tools/call"
JSON, EVENTS = "application/json", "text/event-stream"
BASE_HEADERS = {"Accept": f"{JSON}, {EVENTS}", "Content-Type": JSON}
ACCEPTED, BAD_REQUEST, NOT_FOUND = 202, 400, 404
DRAIN_S = 1.0
"""How long a stream may stay open after the answer; read to its end, its connection serves the next request [s]."""
RENEWAL_S = 30.0
"""Longest for making a lost session anew [s]."""
MAX_PAGES = 1000


class StreamableCall(Call):
    """One request of ours."""

    __slots__ = ("_stateless", "mismatch")

    def __init__(self, key: int, method: str, params: bytes, answer: asyncio.Future[RawObject]) -> None:
        super().__init__(key, method, params, answer)
        self._stateless = revision_of(params) is not None
        self.mismatch: RpcError | None = None
        """Set when the server missed headers; the request is then sent once more."""

    @property
    def modern(self) -> bool:
        return self._stateless


class SessionLostError(Exception):
    """The server does not know our session any more."""


class StreamableLink(BaseLink):
    """The link. Both eras: each request tells by its ``_meta`` which one it belongs to."""

    call_type = StreamableCall

    def __init__(self, target: Target, connection: Connection, handler: Handler, settings: Settings, log: Any) -> None:
        super().__init__(target, connection, handler, settings, log)
        self.handshake = Handshake()
        self._parameters = ParameterHeaders()
        self._slots = asyncio.Semaphore(settings.max_connections)
        self._ready = asyncio.Event()
        """Cleared while the handshake is not over: taken, and the standalone stream open or refused."""
        self._ready.set()
        self._renewal: asyncio.Task[Any] | None = None
        self._suspicion: asyncio.Task[Any] | None = None
        self.standalone = StandaloneStream(self)

    # Requests.

    async def exchange(self, call: Call) -> None:
        """Send a request and follow its answer, in a new session or with other headers where need be."""
        # Subscriptions last: they must not take the places of requests that end.
        async with nullcontext() if call.method == LISTEN else self._slots:
            if call.method != INITIALIZE:
                await self._ready.wait()
            await self._send(call)
            if isinstance(call, StreamableCall) and call.mismatch is not None and not call.answer.done():
                await self._once_more(call, call.mismatch)
        if not call.answer.done():
            raise BrokenError(f"{self._peer} ended its answer to {call.method} without a result")

    async def _send(self, call: Call) -> None:
        number = self.handshake.number
        try:
            await self._attempt(call)
        except SessionLostError:
            await self._renew(number)
            try:
                await self._attempt(call)
            except SessionLostError:
                raise BrokenError(f"{self._peer} loses its sessions as soon as they are made") from None

    async def _attempt(self, call: Call) -> None:
        call.sent = True
        if call.method == INITIALIZE:
            self.handshake.begin(call.params)
        headers = headers_of(call.method, call.params, self._parameters) if call.modern else self.handshake.headers
        events = Events(self.settings.max_message_bytes)
        try:
            async with self.connection.send("POST", {**BASE_HEADERS, **headers}, call.body) as response:
                if call.method == INITIALIZE:
                    self.handshake.session = session_of(response.headers, self._peer)
                await self._answered(call, response, events, in_session=SESSION_HEADER in headers)
        except BrokenError:
            if call.answer.done():
                return
            self._suspect()
            if events.last_id is None:
                raise
        if not call.answer.done() and events.last_id is not None and not call.modern:
            await self._resume(call, events.last_id, events.retry_s)

    async def _answered(self, call: Call, response: httpx2.Response, events: Events, *, in_session: bool) -> None:
        if response.status_code >= REDIRECT:
            await self._failed(call, response, in_session=in_session)
            return
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == EVENTS:
            await self.follow(response, events, call)
        elif kind == JSON:
            await self._read_json(call, response)
        elif response.status_code == ACCEPTED:
            raise TransportError(f"{self._peer} took {call.method} for a notification (HTTP 202)", retryable=False)
        else:
            body = (await self.connection.failure(response)).body
            raise TransportError(
                f"{self._peer} answered {call.method} with {kind or 'no content type'} instead of JSON or events: "
                f"{shown(body)}; is its address right?",
                retryable=False,
            )

    async def _failed(self, call: Call, response: httpx2.Response, *, in_session: bool) -> None:
        refusal = await self.connection.failure(response)
        status, message = response.status_code, _error_in(refusal.body)
        answers = message is not None and envelope.own_id(message.id) == call.key
        lost = status == NOT_FOUND or (status == BAD_REQUEST and b"session" in refusal.body.lower())
        if in_session and lost and not answers:
            raise SessionLostError
        if message is None or (status in (401, 403) and not answers):
            raise refusal
        request = self._pending.take(call.key)
        if request is not None and not request.answer.done():
            self.settle(call.key, request, message, refusal.body)

    async def _read_json(self, call: Call, response: httpx2.Response) -> None:
        limit = self.settings.max_message_bytes
        chunks, size = [], 0
        async for chunk in response.aiter_bytes():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise self.too_long(call.method)
        data = b"".join(chunks)
        if not self.received(data):
            raise TransportError(
                f"{self._peer} answered {call.method} with something that is no JSON-RPC message: {shown(data)}",
                retryable=False,
            )
        if not call.answer.done() and not getattr(call, "mismatch", None):
            raise TransportError(
                f"{self._peer} answered {call.method} with another id than {call.key}: {shown(data)}",
                retryable=False,
            )

    def too_long(self, what: str) -> TransportError:
        """The error for a message over the limit."""
        limit = self.settings.max_message_bytes
        return TransportError(
            f"{self._peer} sent more than max_message_bytes = {limit} bytes in one message, as an answer to {what}",
            retryable=False,
        )

    async def follow(self, response: httpx2.Response, events: Events, call: Call | None) -> None:
        """Take what a stream brings until it ends, or a while after it has brought the answer to ``call``."""
        what = "a subscription" if call is None else call.method
        try:
            async with asyncio.timeout(None) as limit:
                async for chunk in response.aiter_bytes():
                    for event in events.feed(chunk):
                        self._take(event.name, event.data)
                    if call is not None and call.answer.done() and limit.when() is None:
                        limit.reschedule(self._loop.time() + DRAIN_S)
                for event in events.close():
                    self._take(event.name, event.data)
        except TooLongError:
            raise self.too_long(what) from None
        except TimeoutError:
            return

    def _take(self, name: str, data: bytes) -> None:
        if name == "message":
            self.received(data)

    async def _resume(self, call: Call, last_id: str, retry_s: float | None) -> None:
        """Go on with a stream that broke off, as often as it takes; the deadline is the caller's."""
        attempt = 0
        while not call.answer.done():
            await asyncio.sleep(pause(attempt, retry_s))
            events = Events(self.settings.max_message_bytes)
            events.last_id = last_id
            headers = {"Accept": EVENTS, "Last-Event-ID": last_id, **self.handshake.headers}
            try:
                async with self.connection.send("GET", headers) as response:
                    if response.status_code >= REDIRECT:
                        raise await self.connection.failure(response)
                    await self.follow(response, events, call)
            except UnreachableError:
                raise
            except TransportError as error:
                if not error.retryable:
                    raise
                self.log.debug("http.resume_failed", peer=self._peer, problem=str(error))
            attempt = 0 if events.last_id != last_id else attempt + 1
            last_id, retry_s = events.last_id or last_id, events.retry_s or retry_s

    # Headers that repeat arguments.

    def settle(self, key: int | None, request: Request, message: envelope.Message, data: bytes) -> None:
        """Answer a request, unless the server missed headers: then it has a second chance."""
        call = self._calls.get(key or 0)
        if isinstance(call, StreamableCall) and (mismatch := _mismatch(call, message)) is not None:
            call.mismatch = mismatch
            self._pending.put_back(call.key, request)
            return
        super().settle(key, request, message, data)
        if call is not None and request.answer.exception() is None:
            with suppress(ValueError, RecursionError):  # JSON that Python does not decode: nothing to be learned
                self._learn(call, request.answer.result())

    async def _once_more(self, call: Call, mismatch: RpcError) -> None:
        try:
            await self._list_tools(call)
        except (TransportError, RpcError):
            call.fail(mismatch)
        else:
            await self._send(call)

    async def _list_tools(self, call: Call) -> None:
        """Read the list of tools again, for which arguments go into headers."""
        meta = RawObject(call.params)["_meta"]
        meta = {name: value for name, value in meta.items() if name != "progressToken"}
        cursor: Any = None
        for _ in range(MAX_PAGES):
            params = {"_meta": meta} if cursor is None else {"_meta": meta, "cursor": cursor}
            listing = self.call(LIST_TOOLS, json_line(params))
            try:
                await self._send(listing)
                if not listing.answer.done():
                    raise BrokenError(f"{self._peer} ended its answer to {LIST_TOOLS} without a result")
                cursor = (await listing.answer).get("nextCursor")
            finally:
                self.forget(listing)
            if cursor is None:
                return

    def _learn(self, call: Call, result: RawObject) -> None:
        """Learn from results that pass by."""
        if call.modern:
            if call.method == LIST_TOOLS:
                self._parameters.learn(result, first_page="cursor" not in RawObject(call.params))
        elif call.method == INITIALIZE:
            self.handshake.agree(result)
        else:
            self.handshake.remember(call.method, call.params)

    # Notifications and answers.

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; requests made after ``notifications/initialized`` wait for what follows from it."""
        if method == INITIALIZED:
            self._ready.clear()
        super().notify(method, params)

    def posted(self, method: str) -> None:
        """Listen to what the server has to say without being asked, and then let requests go."""
        if method == INITIALIZED:
            self.start_apart(self._listen(self.handshake.number), name=f"{self._peer}: ready")

    async def _listen(self, number: int) -> None:
        # What the server says of the first request may come on that stream, and would be lost before it is open.
        await self.standalone.open()
        if number == self.handshake.number:
            self._ready.set()

    async def post(self, body: bytes) -> None:
        """Send a notification or an answer."""
        headers = {**BASE_HEADERS, **self.handshake.headers}
        async with self.connection.send("POST", headers, body) as response:
            if response.status_code >= REDIRECT:
                raise await self.connection.failure(response)
            async for _ in response.aiter_bytes():
                pass

    # Sessions.

    async def _renew(self, number: int) -> None:
        if self._renewal is None or self._renewal.done():
            if number != self.handshake.number:
                return
            self._renewal = self.start_apart(self._handshake_again(), name=f"{self._peer}: new session")
        try:
            await asyncio.shield(self._renewal)
        except TransportError as error:
            raise again(error) from None

    async def renew(self) -> None:
        """Make the session anew, because the server has lost it.

        Raises:
            TransportError: It could not be made.
        """
        await self._renew(self.handshake.number)

    async def _handshake_again(self) -> None:
        params = self.handshake.params
        if params is None:
            raise BrokenError(f"{self._peer} does not know the session it never gave")
        self.log.warning("http.session_lost", peer=self._peer)
        self.standalone.close()
        self._ready.clear()
        try:
            async with asyncio.timeout(RENEWAL_S):
                await self._again(INITIALIZE, params)
                await self.post(body_of(envelope.notification(INITIALIZED, EMPTY)))
                await self.standalone.open()
                for method, wish in self.handshake.wishes:
                    await self._again(method, wish)
        except (TimeoutError, RpcError, SessionLostError) as error:
            what = str(error) or f"no answer within {RENEWAL_S:g} s"
            raise BrokenError(f"{self._peer} lost the session, and does not make another: {what}") from error
        finally:
            self._ready.set()
        for method in self.handshake.changes:
            self.tell(method, RawObject(b"{}"))

    async def _again(self, method: str, params: bytes) -> None:
        call = self.call(method, params)
        try:
            await self._attempt(call)
            if not call.answer.done():
                raise BrokenError(f"{self._peer} ended its answer to {method} without a result")
            await call.answer
        finally:
            self.forget(call)

    async def end_session(self) -> None:
        """Tell the server that the session is over."""
        if self.handshake.session is not None:
            async with self.connection.send("DELETE", self.handshake.headers):
                return

    # Trouble.

    def _suspect(self) -> None:
        """A connection broke: see whether the server is still there, so that the link's end is known at once."""
        if self._suspicion is None or self._suspicion.done():
            self._suspicion = self.start_apart(self._look(), name=f"{self._peer}: still there?")

    async def _look(self) -> None:
        try:
            await self.connection.check()
        except UnreachableError as error:
            self.end(again(error))


def _error_in(body: bytes) -> envelope.Message | None:
    try:
        messages = envelope.decode_leniently(body)
    except (ValueError, RecursionError):
        return None
    message = messages[0] if messages else None
    return None if message is None or message.error is UNSET else message


def _mismatch(call: StreamableCall, message: envelope.Message) -> RpcError | None:
    """The error that a server answers a call of a tool with whose headers it missed; None once it had the chance."""
    if call.mismatch is not None or call.method != CALL_TOOL or message.error is UNSET:
        return None
    error = RpcError(*envelope.error_of(bytes(message.error)))
    return error if error.code == HEADER_MISMATCH else None
