"""Sessions of the revisions with a handshake: a client over many HTTP requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from pml_hookspecs import RawObject, RpcError, TransportError
from pml_kit.identifiers import handle
from pml_kit.jsonrpc.envelope import error_of, own_id
from pml_kit.mcp.protocol import CANCELLED, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

from . import messages
from .access.open_work import OpenWork
from .access.quotas import TOO_MANY
from .exchange import TAKEN_BACK, ActiveRequest
from .http import Access, HttpError, Request, owner_of
from .listener.connections import QUIET_S
from .streams import Replay, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pml_hookspecs import Handler
    from pml_kit.jsonrpc.envelope import Message
    from pml_transport_http.settings import Settings

    from .access.open_work import OpenWorks
    from .exchange import Exchange
    from .gateways.kept_sessions import KeptSessions
    from .streams import StreamResponse

STANDING = "0"
"""Name of the stream that belongs to no request."""
PRIMED_FROM = "2025-11-25"
"""Older clients do not understand an event without data."""
NOT_FOUND = "Session not found: it ended or never was; begin a new one with initialize"
SWEEP_S = 0.05


class Session:
    """One client. Implements :class:`pml_hookspecs.Link`: what goes through it belongs to no request.

    Entered while an HTTP request uses it, so that only one that nobody uses expires.
    """

    handler: Handler
    work: OpenWork

    def __init__(self, request: Request, settings: Settings, log: Any, id: str = "") -> None:
        """Make one for clients with the access of this ``request`` alone; ``id`` is that of one that is taken up."""
        self.id, self._taken_up = id or handle(), bool(id)
        self.access, self.endpoint, self.owner = (
            request.access,
            request.endpoint,
            owner_of(request.access, request.scope),
        )
        self.revision = ""
        self.active_requests: set[ActiveRequest] = set()
        self.counters: Counter[str] = Counter()
        """Messages ``dropped`` and ``coalesced``, answers to requests ``unknown`` here."""
        self.idle_since = 0.0
        self.users = 0
        self._log = log
        self._replay = Replay(settings.replay_bytes)
        self.standing = Stream(self.counters, STANDING, self._replay)
        self._streams = {STANDING: self.standing}
        self._streamed = 0
        self._pending: dict[int, asyncio.Future[RawObject]] = {}
        self._asked = 0
        self._over: TransportError | None = None

    def __enter__(self) -> None:
        self.users += 1

    def __exit__(self, *exc: object) -> None:
        self.users -= 1
        self.idle_since = asyncio.get_running_loop().time()

    @property
    def primes(self) -> bool:
        """Whether streams begin with an event without data."""
        return self.revision >= PRIMED_FROM

    # What we send.

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """Ask the client on the stream that belongs to no request; it waits until the client opens one."""
        return await self.ask(self.standing, method, params, timeout_s)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client on the stream that belongs to no request."""
        self.tell(self.standing, method, params)

    async def ask(self, stream: Stream, method: str, params: Mapping[str, Any], timeout_s: float) -> RawObject:
        """Send a request on a stream and wait for its answer, as :class:`pml_hookspecs.Link` says."""
        if self._over is not None:
            raise TransportError(str(self._over), retryable=False)
        if stream.outbox.full:
            raise TransportError(f"the client does not read what it is sent, so {method} was not sent", retryable=True)
        self._asked = key = self._asked + 1
        message = messages.request(key, method, params)
        answer: asyncio.Future[RawObject] = asyncio.get_running_loop().create_future()
        self._pending[key] = answer
        stream.send(message, key)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            limit = f"{timeout_s:g} s"
            self._take_back(stream, key, f"no answer within {limit}")
            raise TimeoutError(f"the client did not answer {method} within {limit}") from None
        except asyncio.CancelledError:
            self._take_back(stream, key, "the caller was cancelled")
            raise
        finally:
            self._pending.pop(key, None)

    def _take_back(self, stream: Stream, key: int, reason: str) -> None:
        if not stream.outbox.discard(key):
            about = {"requestId": key, "reason": reason}
            self.tell(self.standing if stream.ended else stream, CANCELLED, about)

    def tell(self, stream: Stream, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification on a stream."""
        if self._over is not None:
            return
        try:
            stream.notify(method, params)
        except (TypeError, ValueError) as error:
            self._log.error("http.unsendable_notification", method=method, problem=str(error))

    # What arrives.

    def answered(self, message: Message) -> None:
        """Take the answer to a request of ours."""
        key = own_id(message.id)
        future = None if key is None else self._pending.get(key)
        if future is None or future.done():
            self.counters["unknown"] += 1
        elif isinstance(message.error, Raw) and bytes(message.error) != b"null":
            future.set_exception(RpcError(*error_of(bytes(message.error))))
        elif isinstance(message.result, Raw) and bytes(message.result).startswith(b"{"):
            future.set_result(RawObject(bytes(message.result)))
        else:
            future.set_exception(TransportError("the client answered with a result that is no object", retryable=False))

    def notified(self, message: Message) -> None:
        """Take a notification."""
        params = messages.params_of(message)
        if message.method == CANCELLED:
            try:
                wanted = params.get("requestId")
            except (ValueError, RecursionError) as error:
                raise HttpError(400, INVALID_PARAMS, f"The params cannot be read: {error}") from None
            for work in self.active_requests:
                if work.key == wanted and type(work.key) is type(wanted):
                    work.call_off(TAKEN_BACK)
            return
        try:
            self.handler.notification(str(message.method), params)
        except Exception:
            self._log.exception("http.notification_failed", method=message.method)

    # Streams.

    def open_stream(self) -> Stream:
        """A stream for the answer to one request."""
        self._streamed += 1
        stream = Stream(self.counters, str(self._streamed), self._replay)
        self._streams[stream.name] = stream
        return stream

    def drop_stream(self, stream: Stream) -> None:
        """Forget a stream that has ended; what was sent on it can still be replayed for a while."""
        self._streams.pop(stream.name, None)

    def resume(self, event_id: bytes) -> StreamResponse:
        """A reader of what came after an event.

        Raises:
            HttpError: That is not known any more.
        """
        name, _, digits = event_id.decode("latin-1").rpartition("-")
        if self._taken_up and name == STANDING and self.standing.reader is None:
            return self.standing.attach(primed=self.primes)  # what came between is gone with its gateway
        number = own_id(digits)
        if name and number is not None:
            stream = self._streams.get(name)
            if stream is not None:
                return stream.attach(number)
            if self._replay.after(name, number):
                stream = Stream(self.counters, name, self._replay)
                stream.end()
                return stream.attach(number)
        message = "What came after the event in Last-Event-ID is not kept any more, or there is no such event"
        raise HttpError(400, INVALID_REQUEST, message)

    # How it ends.

    def end(self, error: TransportError | None) -> None:
        """The session is over; None when this end wanted it so."""
        self._over = error or TransportError("the session was ended", retryable=False)
        for work in tuple(self.active_requests):
            work.call_off(RpcError(INTERNAL_ERROR, "The session was ended"))
        for future in self._pending.values():
            if not future.done():
                future.set_exception(TransportError(str(self._over), retryable=False))
        if self.standing.reader is not None:
            self.standing.reader.stop()
        try:
            self.handler.closed(error)
        except Exception:
            self._log.exception("http.closed_failed")
        self._log.debug("http.session_ended", **self.counters)


class RequestLink:
    """What belongs to one request of the client. Implements :class:`pml_hookspecs.Link`."""

    def __init__(self, session: Session, exchange: Exchange) -> None:
        self._session, self._exchange = session, exchange

    def _stream(self) -> Stream:
        return self._session.standing if self._exchange.answered else self._exchange.stream()

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """Ask the client on the stream that its answer will come on."""
        return await self._session.ask(self._stream(), method, params, timeout_s)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client on the stream that its answer will come on."""
        self._session.tell(self._stream(), method, params)


class Sessions:
    """All sessions, by id."""

    def __init__(self, settings: Settings, open_works: OpenWorks, kept: KeptSessions, log: Any) -> None:
        self._kept = kept
        self._idle_s, self._open_works, self._log = settings.session_idle_s, open_works, log
        self._most, self._most_each = settings.max_sessions, settings.max_sessions_per_principal
        self._open: dict[str, Session] = {}
        self._told_at, self._closing = -QUIET_S, False
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, id: object) -> bool:
        return id in self._open

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._open.values()))

    def find(self, id: str, access: Access, endpoint: str) -> Session:
        """The session of that id, if it belongs to the one who asks.

        Raises:
            HttpError: There is none; with status 404.
        """
        session = self._open.get(id)
        if session is None or session.access != access or session.endpoint != endpoint:
            raise HttpError(404, INVALID_REQUEST, NOT_FOUND)
        return session

    def make_room(self, owner: str) -> None:
        """See that there is room for one more of ``owner``.

        The one that was idle longest makes way: of its own, or where it has none, of those who have the most.

        Raises:
            HttpError: All its sessions are in use, with status 429; or all there are, with 503.
        """
        mine = [session for session in self._open.values() if session.owner == owner]
        crowded = len(mine) >= self._most_each
        if not crowded and len(self._open) < self._most:
            return
        idle = [session for session in mine if not session.users] or ([] if crowded else self._idle_of_most(len(mine)))
        if idle:
            longest = min(idle, key=lambda session: session.idle_since)
            self._log.debug("http.session_evicted", owner=longest.owner, of_it=len(mine), of_all=len(self._open))
            self.end(longest, None)
            return
        status, what = (TOO_MANY, f"your {self._most_each}") if crowded else (503, str(self._most))
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= QUIET_S:
            self._told_at = now
            self._log.warning("http.too_many_sessions", owner=owner, of_it=len(mine), of_all=len(self._open))
        message = f"All {what} sessions are in use; try again later"
        raise HttpError(status, INTERNAL_ERROR, message, headers=[(b"retry-after", b"10")])

    def _idle_of_most(self, count: int) -> list[Session]:
        """Sessions that nobody uses, of owners that have the most of these; none of one that has fewer than ``count``.

        Whoever opens many makes room for whoever opens few, and nobody can push out those of whom it has more.
        """
        idle = [session for session in self._open.values() if not session.users]
        owners = Counter(session.owner for session in idle)
        most = max(owners.values(), default=0)
        return [session for session in idle if owners[session.owner] == most] if most > count else []

    def add(self, session: Session) -> None:
        """Take a new one in."""
        self._open[session.id] = session
        expelled = TransportError("the client's key does not count any more", retryable=False)
        session.work = OpenWork(partial(self.end, session, expelled), lambda: session.users > 0)
        self._open_works.begin(session.access, session.work)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._sweep)

    def end(self, session: Session, error: TransportError | None) -> None:
        """End one; nothing happens when it has ended already."""
        if self._open.pop(session.id, None) is not None:
            self._open_works.end(session.access, session.work)
            if not self._closing:
                self._kept.forget(session.id)
            session.end(error)

    def close(self) -> None:
        """End all; other gateways may take them up."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        for session in self:
            self.end(session, None)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now, self._timer = loop.time(), None
        for session in self:
            if not session.users and session.idle_since + self._idle_s <= now:
                self.end(session, None)
        idle = [session.idle_since for session in self._open.values() if not session.users]
        if self._open:
            due = min(idle, default=now) + self._idle_s
            self._timer = loop.call_at(max(due, now + SWEEP_S), self._sweep)
