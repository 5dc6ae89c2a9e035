"""Revisions without handshake: each POST stands alone (MCP 2026-07-28, "Streamable HTTP")."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from pml_hookspecs import Origin, RawObject, TransportError
from pml_kit.mcp.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from . import messages
from .access.open_work import OpenWork
from .exchange import EXPELLED, SUBSCRIPTION, TAKEN_BACK, ActiveRequest, Exchange
from .handshake import no_endpoint
from .headers import HeaderParameters, check_envelope, check_version
from .http import ACCEPTED, OK, Access, HttpError, Request, reply
from .streams import PING_S, Stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Accept, Handler
    from pml_kit.jsonrpc.envelope import Message
    from pml_transport_http.settings import Settings

    from .access.open_work import OpenWorks
    from .exchange import ActiveRequests
    from .messages import Call

STATUSES = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""HTTP status of an answer that is an error, by code; others have 200."""


class StatelessLink:
    """The link of stateless clients: there is no way to them but through a request of theirs."""

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """Fail: clients of these revisions are asked by way of a result."""
        message = f"{method} cannot be sent: clients of this revision are asked with a result of type input_required"
        raise TransportError(message, retryable=False)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Drop it: nobody would get it."""


class AnswerLink(StatelessLink):
    """What belongs to one request: notifications go ahead of its answer."""

    def __init__(self, exchange: Exchange, log: Any) -> None:
        self._exchange, self._log = exchange, log

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client, while it is not answered yet."""
        if self._exchange.answered:
            return
        try:
            self._exchange.stream().notify(method, params)
        except (TypeError, ValueError) as error:
            self._log.error("http.unsendable_notification", method=method, problem=str(error))


class Client:
    """One handler for all requests with one key to one endpoint."""

    work: OpenWork

    def __init__(self, handler: Handler, log: Any) -> None:
        self.handler = handler
        self.listing = HeaderParameters(handler, log)
        self.active_requests: set[ActiveRequest] = set()


class StatelessRequests:
    """Serves clients whose requests stand alone."""

    def __init__(
        self, accept: Accept, settings: Settings, active_requests: ActiveRequests, open_works: OpenWorks, log: Any
    ) -> None:
        self._accept, self._active_requests, self._open_works, self._log = accept, active_requests, open_works, log
        self._most = settings.max_sessions
        self._clients: dict[tuple[Access, str], Client] = {}
        self._counters: Counter[str] = Counter()

    async def post(self, request: Request, message: Message) -> None:
        """Take one message.

        Raises:
            HttpError: It is not taken.
        """
        if message.method is UNSET:
            raise HttpError(400, INVALID_REQUEST, "Clients of this revision send requests, no responses")
        if message.id is UNSET:
            # There is nothing that one could be about: a request is taken back by closing its response.
            check_version(request.headers)
            await reply(request.send, ACCEPTED)
            return
        check_envelope(request.headers, message)
        call = messages.call_of(message, request.headers)
        await self._serve(self._client(request, call.key), request, call)

    def _client(self, request: Request, id: Any) -> Client:
        key = (request.access, request.endpoint)
        client = self._clients.get(key)
        if client is None:
            try:
                client = Client(self._accept(StatelessLink(), request.peer(stateless=True)), self._log)
            except LookupError as error:
                raise no_endpoint(error, id) from None
            if len(self._clients) >= self._most:
                self._make_room()
            self._clients[key] = client
            active_requests = client.active_requests
            client.work = OpenWork(partial(self._expel, key), lambda: bool(active_requests))
            self._open_works.begin(request.access, client.work)
        return client

    def _make_room(self) -> None:
        """Let one go that has nothing open, of the principal that has most: nobody's push out those of others."""
        owned = Counter(access.principal for access, _ in self._clients)
        idle = [key for key, client in self._clients.items() if not client.active_requests]
        if idle:
            self._close(max(idle, key=lambda key: owned[key[0].principal]))

    def _expel(self, key: tuple[Access, str]) -> None:
        """End with one whose key does not count any more."""
        for work in tuple(self._clients[key].active_requests):
            work.call_off(EXPELLED)
        self._close(key)

    async def _serve(self, client: Client, request: Request, call: Call) -> None:
        work = ActiveRequest(call.key, call.method, self._log)
        gone = False

        def leave() -> None:
            nonlocal gone
            gone = True
            work.call_off(TAKEN_BACK)

        exchange = Exchange(request, self._open_stream, silence_s=PING_S, on_gone=leave)
        client.active_requests.add(work)
        try:
            with self._active_requests.track(work):
                answer = await work.run(self._answer(client, request, call, AnswerLink(exchange, self._log)))
            if gone or (work.called_off and work.method == SUBSCRIPTION):
                await exchange.abandon()
            else:
                await exchange.finish(answer.pieces, STATUSES.get(answer.code or 0, OK))
        except HttpError as refusal:
            # Too late for a status when listing the tools took so long that the response became a stream.
            await exchange.finish((refusal.body(),), refusal.status)
        finally:
            client.active_requests.discard(work)
            exchange.close()

    async def _answer(self, client: Client, request: Request, call: Call, link: AnswerLink) -> Mapping[str, Any]:
        origin = Origin(call.key, link)
        if call.method == "tools/call":
            await client.listing.check(call.params, request.scope["headers"], Origin(call.key, StatelessLink()))
        return await client.handler.request(call.method, call.params, origin)

    def _open_stream(self) -> Stream:
        return Stream(self._counters)

    def close(self) -> None:
        """End with all clients."""
        for key in tuple(self._clients):
            self._close(key)

    def _close(self, key: tuple[Access, str]) -> None:
        client = self._clients.pop(key)
        self._open_works.end(key[0], client.work)
        try:
            client.handler.closed(None)
        except Exception:
            self._log.exception("http.closed_failed")
