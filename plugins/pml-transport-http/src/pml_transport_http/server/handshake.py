"""Revisions with a handshake: POST, GET and DELETE within sessions (MCP 2025-11-25, "Streamable HTTP")."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from pml_hookspecs import EMPTY, Origin, RawObject, TransportError
from pml_kit.mcp.protocol import INVALID_REQUEST

from . import messages
from .exchange import ActiveRequest, Answer, Exchange
from .gateways.kept_sessions import KeptSessions
from .headers import SESSION
from .http import ACCEPTED, OK, HttpError, Request, owner_of, reply
from .sessions import RequestLink, Session, Sessions
from .streams import watch

if TYPE_CHECKING:
    from pml_hookspecs import Accept
    from pml_kit.jsonrpc.envelope import Message
    from pml_transport_http.settings import Settings

    from .access.open_work import OpenWorks
    from .exchange import ActiveRequests
    from .gateways.peers import Peers
    from .messages import Call

SILENCE_S = 2.0
"""After so long an answer becomes a stream, so that a client that loses its connection can come back for it."""


class Handshake:
    """Serves clients that begin with ``initialize``."""

    def __init__(
        self,
        accept: Accept,
        settings: Settings,
        active_requests: ActiveRequests,
        open_works: OpenWorks,
        peers: Peers,
        log: Any,
    ) -> None:
        self._accept, self._settings, self._active_requests, self._log = accept, settings, active_requests, log
        self._kept = KeptSessions(peers, log)
        self.sessions = Sessions(settings, open_works, self._kept, log)

    async def holder(self, request: Request) -> str:
        """The gateway that has the session of a request, whose first one is gone; this one may take it up.

        ``""`` when there is no such session any more.

        Raises:
            HttpError: There is no room for it, or it cannot be known.
        """

        async def begin(id: str, params: RawObject) -> None:
            self.sessions.make_room(owner_of(request.access, request.scope))
            session = Session(request, self._settings, self._log, id)
            session.handler = self._accept(session, request.peer())
            said = await session.handler.request("initialize", params, Origin(0, session))
            revision = said.get("protocolVersion")
            session.revision = revision if isinstance(revision, str) else ""
            session.handler.notification("notifications/initialized", EMPTY)
            self.sessions.add(session)
            with session:
                pass

        try:
            return await self._kept.take_up(request, begin, self.sessions.__contains__)
        except LookupError as error:
            raise no_endpoint(error) from None

    async def post(self, request: Request, message: Message) -> None:
        """Take one message.

        Raises:
            HttpError: It is not taken.
        """
        if message.method == "initialize" and message.id is not UNSET:
            await self._initialize(request, message)
            return
        session = self._session(request)
        with session:
            if message.method is UNSET:
                session.answered(message)
                await reply(request.send, ACCEPTED)
            elif message.id is UNSET:
                session.notified(message)
                await reply(request.send, ACCEPTED)
            else:
                await self._serve(session, request, messages.call_of(message, request.headers), SILENCE_S)

    def _session(self, request: Request) -> Session:
        id = request.headers.get(SESSION)
        if id is None:
            raise HttpError(400, INVALID_REQUEST, "The header Mcp-Session-Id is missing; begin with initialize")
        return self.sessions.find(id.decode("latin-1"), request.access, request.endpoint)

    async def _initialize(self, request: Request, message: Message) -> None:
        if SESSION in request.headers:
            self._session(request)
            raise HttpError(400, INVALID_REQUEST, "This session has been initialized already", id=message.id)
        call = messages.call_of(message, request.headers)
        self._active_requests.check_open(call.key)
        self.sessions.make_room(owner_of(request.access, request.scope))
        session = Session(request, self._settings, self._log)
        try:
            session.handler = self._accept(session, request.peer())
        except LookupError as error:
            raise no_endpoint(error, call.key) from None
        self.sessions.add(session)
        with session:
            await self._serve(session, request, call, None)

    async def _serve(self, session: Session, request: Request, call: Call, silence_s: float | None) -> None:
        exchange = Exchange(request, session.open_stream, silence_s=silence_s, primed=session.primes)
        work = ActiveRequest(call.key, call.method, self._log)
        session.active_requests.add(work)
        begins = call.method == "initialize"
        if begins:
            exchange.headers = ((SESSION, session.id.encode()),)
        try:
            with self._active_requests.track(work):
                link = RequestLink(session, exchange)
                answer = await work.run(session.handler.request(call.method, call.params, Origin(call.key, link)))
            session.active_requests.discard(work)
            if begins:
                self._begun(session, call.params, answer, exchange)
            await exchange.finish(answer.pieces)
        finally:
            session.active_requests.discard(work)
            exchange.close()
            if exchange.opened is not None:
                session.drop_stream(exchange.opened)

    def _begun(self, session: Session, params: RawObject, answer: Answer, exchange: Exchange) -> None:
        if answer.code is None:
            revision = RawObject(answer.pieces[1]).get("protocolVersion")
            session.revision = revision if isinstance(revision, str) else ""
            self._kept.keep(session.id, session.access, session.endpoint, params)
        else:
            exchange.headers = ()
            self.sessions.end(session, None)

    async def get(self, request: Request) -> None:
        """Open the stream that belongs to no request, or take up a stream that broke.

        Raises:
            HttpError: There is one open, or no such stream.
        """
        session = self._session(request)
        last_event = request.headers.get(b"last-event-id")
        if last_event:
            reader = session.resume(last_event)
        elif session.standing.reader is not None:
            raise HttpError(409, INVALID_REQUEST, "The session has such a stream already; there can be one at a time")
        else:
            reader = session.standing.attach(primed=session.primes)
        watching = asyncio.get_running_loop().create_task(watch(request.receive, reader))
        try:
            with session:
                await reader.carry(request.send)
        finally:
            watching.cancel()

    async def delete(self, request: Request) -> None:
        """End a session.

        Raises:
            HttpError: There is none.
        """
        self.sessions.end(self._session(request), TransportError("the client ended the session", retryable=False))
        await reply(request.send, OK)


def no_endpoint(error: LookupError, id: Any = None) -> HttpError:
    """Say that there is no such endpoint."""
    message = str(error.args[0]) if error.args else "There is no such endpoint"
    return HttpError(404, INVALID_REQUEST, message, id=id)
