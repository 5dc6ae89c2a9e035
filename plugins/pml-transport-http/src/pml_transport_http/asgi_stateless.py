"""Revisions without handshake: each POST stands alone (MCP 2026-07-28, "Streamable HTTP")."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from pml_hookspecs import Origin, RawObject, RpcError, TransportError
from pml_hookspecs.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from . import asgi_messages as messages
from .asgi_active_requests import SUBSCRIPTION, ActiveRequests
from .asgi_exchange import CANCELLED, ActiveRequest, Exchange
from .asgi_handshake import no_endpoint
from .asgi_headers import check_envelope, check_version
from .asgi_param_headers import HeaderParameters
from .asgi_replies import ACCEPTED, OK, Access, HttpError, Request, reply
from .streams import PING_S, Stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Accept, Handler

    from .asgi_messages import Call
    from .envelope import Message
    from .settings import Settings

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


EXPELLED = RpcError(INVALID_REQUEST, "The key does not count any more")


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

    def __init__(self, handler: Handler, log: Any) -> None:
        self.handler = handler
        self.listing = HeaderParameters(handler, log)
        self.active_requests: set[ActiveRequest] = set()


class StatelessRequests:
    """Serves clients whose requests stand alone."""

    def __init__(self, accept: Accept, settings: Settings, active_requests: ActiveRequests, log: Any) -> None:
        self._accept, self._active_requests, self._log = accept, active_requests, log
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
        call = messages.call_of(message)
        await self._serve(self._client(request, call.key), request, call)

    def _client(self, request: Request, id: Any) -> Client:
        key = (request.access, request.endpoint)
        client = self._clients.get(key)
        if client is None:
            try:
                client = Client(self._accept(StatelessLink(), request.peer(stateless=True)), self._log)
            except LookupError as error:
                raise no_endpoint(error, id) from None
            self._make_room()
            self._clients[key] = client
        return client

    def _make_room(self) -> None:
        """Let the first one go that has nothing open, where there are as many as there may be."""
        if len(self._clients) >= self._most:
            idle = next((key for key, client in self._clients.items() if not client.active_requests), None)
            if idle is not None:
                self._close(self._clients.pop(idle))

    def held(self) -> set[Access]:
        """Senders of requests that are remembered."""
        return {access for access, _ in self._clients}

    def in_use(self) -> set[Access]:
        """Senders whose requests are being answered."""
        return {access for (access, _), client in self._clients.items() if client.active_requests}

    def expel(self, access: Access) -> None:
        """End all of one caller: its key does not count any more."""
        for key in [key for key in self._clients if key[0] == access]:
            client = self._clients.pop(key)
            for work in tuple(client.active_requests):
                work.call_off(EXPELLED)
            self._close(client)

    async def _serve(self, client: Client, request: Request, call: Call) -> None:
        work = ActiveRequest(call.key, call.method, self._log)
        gone = False

        def leave() -> None:
            nonlocal gone
            gone = True
            work.call_off(CANCELLED)

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
        for client in self._clients.values():
            self._close(client)
        self._clients.clear()

    def _close(self, client: Client) -> None:
        try:
            client.handler.closed(None)
        except Exception:
            self._log.exception("http.closed_failed")
