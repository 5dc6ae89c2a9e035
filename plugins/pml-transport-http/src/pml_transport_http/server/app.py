"""The ASGI application: what is asked for, by whom, and in which era of the protocol."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from pml_hookspecs import UnauthenticatedError
from pml_kit.identifiers import gateway_name
from pml_kit.mcp.protocol import HANDSHAKE_REVISIONS, INTERNAL_ERROR, INVALID_REQUEST, MODERN_REVISIONS
from pml_kit.offers import AccessEvent
from pml_transport_http.logins import PATH

from . import messages
from .access.protection import WELL_KNOWN, Protection
from .access.quotas import Quotas, QuotaUse, too_long
from .exchange import ActiveRequests
from .gateways.peers import held_by, lost
from .handshake import Handshake
from .headers import EVENTS, PLAIN, SESSION, VERSION, check_accept, check_repeated, is_json, text, unsupported
from .http import (
    ADMISSION,
    ADMIT,
    LOCAL,
    PLAIN_CODES,
    Access,
    HttpError,
    Receive,
    Request,
    Scope,
    Send,
    address_of,
    last_of_connection,
    owner_of,
)
from .pages import PluginRoutes
from .probes import PROBES, Probes
from .security import Guard, for_page, preflight
from .stateless import StatelessRequests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pml_hookspecs import Accept, Identity
    from pml_kit.jsonrpc.envelope import Message
    from pml_kit.offers import Access as KnownAccess
    from pml_kit.offers import MetricsPage, ProtectedResource, Readiness
    from pml_transport_http.logins import ListenerLogins
    from pml_transport_http.settings import Settings

    from .callers import Callers

MCP = "mcp"
DEFAULT_ENDPOINT = "default"
NOT_LET_IN = (401, 403)
LONGEST_TARGET = 200
"""Characters of what was asked for that are reported."""
KNOWN = (*HANDSHAKE_REVISIONS, *MODERN_REVISIONS)


class Surroundings(NamedTuple):
    """What the gateway and other plugins have for a listener; nothing where it runs by itself."""

    access: KnownAccess | None = None
    """Knows keys, and tells those who watch who is not let in."""
    protected: ProtectedResource | None = None
    """Says where callers get access tokens."""
    readiness: Readiness | None = None
    """Says whether the gateway can do its work, and when it has been told to end."""
    metrics: MetricsPage | None = None
    """What it measures."""
    logins: ListenerLogins | None = None
    """Of principals at servers."""


class Application:
    """Everything that is served at one address."""

    def __init__(
        self,
        accept: Accept,
        settings: Settings,
        guard: Guard,
        callers: Callers,
        routes: Mapping[str, Sequence[Any]],
        log: Any,
        around: Surroundings,
    ) -> None:
        self._guard, self._callers, self._log, self._peers = guard, callers, log, guard.peers
        self._report = None if around.access is None else around.access.report
        self._readiness, self._probes = around.readiness, Probes(settings, around.readiness, around.metrics)
        self.ends = False
        """Whether the listener does: each connection is to end with its next answer."""
        self._protection = Protection(around.protected)
        self._active_requests, self._quotas = ActiveRequests(), Quotas(settings)
        self._handshake = Handshake(accept, settings, self._active_requests, callers.open, guard.peers, log)
        self._stateless = StatelessRequests(accept, settings, self._active_requests, callers.open, log)
        later = {} if around.logins is None else {PATH: around.logins.pages}
        self._pages = PluginRoutes(routes, (MCP, *PROBES, WELL_KNOWN, PATH), callers.open, log, later)

    async def close(self, drain_s: float) -> None:
        """Let requests end, within ``drain_s`` seconds, and then everything."""
        await self._active_requests.drain(drain_s)
        await self._callers.close()
        self._handshake.sessions.close()
        self._stateless.close()

    def _is_ending(self) -> bool:
        return self.ends or (self._readiness is not None and self._readiness.shutting_down)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        send = last_of_connection(send, self._is_ending)
        try:
            if (path := scope["path"].strip("/")) in PROBES:
                await self._probes.serve(path, scope, send, partial(self._check_caller, scope, headers))
                return
            self._guard.check_place(headers, scope["headers"])
            self._peers.check_led(headers)
            origin = headers.get(b"origin")
            if origin is not None:
                send = for_page(send, origin)
                if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                    await preflight(send, headers)
                    return
            await self._route(scope, receive, send, headers)
        except HttpError as refusal:
            refusal.headers = self._protection.challenge(refusal, scope["path"])
            await self._tell(refusal, scope)
            if refusal.plain:
                await refusal.reply_plain(send)
            else:
                await refusal.reply(send)
        except Exception:
            self._log.exception("http.failed", path=scope["path"])
            await _fail(send)

    async def _check_caller(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """See that a request without a body is one that is served here.

        Raises:
            HttpError: It is not.
        """
        try:
            self._guard.check_place(headers, scope["headers"])
            self._protection.check(await self._callers.access(headers), scope["path"])
        except HttpError as refusal:
            refusal.plain = True
            raise

    async def _tell(self, refusal: HttpError, scope: Scope) -> None:
        """Report who was not let in."""
        if refusal.status in NOT_LET_IN and self._report is not None:
            event = AccessEvent(
                kind="denied",
                target=f"{scope['method']} {scope['path']}"[:LONGEST_TARGET],
                address=address_of(scope),
                code=PLAIN_CODES[refusal.status],
                message=refusal.message,
                details={"by": refusal.principal} if refusal.principal else {},
            )
            await self._report(event)

    async def _route(self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]) -> None:
        first, _, rest = scope["path"].lstrip("/").partition("/")
        if first == WELL_KNOWN:
            await self._protection.describe(scope, send)
            return
        if self._pages.is_open(first, scope):
            await self._open_page(first, scope, receive, send)
            return
        try:
            access = await self._callers.access(headers)
            self._protection.check(access, scope["path"])
        except HttpError as refusal:
            refusal.plain = first != MCP
            raise
        if (admission := scope.get("extensions", {}).get(ADMISSION)) is not None:
            admission[ADMIT]()
        arriving = self._callers.open.arriving
        arriving[access] += 1
        try:
            with QuotaUse(self._quotas, owner_of(access, scope)) as use:
                if first == MCP:
                    endpoint = rest.rstrip("/") or DEFAULT_ENDPOINT
                    await self._mcp(Request(scope, receive, send, headers, access, endpoint), use)
                elif first in self._pages:
                    await self._pages.serve(first, scope, receive, send, access, use)
                else:
                    raise HttpError(404, INVALID_REQUEST, "Nothing is served at this path; MCP is at /mcp")
        finally:
            arriving[access] -= 1
            if not arriving[access]:
                del arriving[access]

    async def _open_page(self, plugin: str, scope: Scope, receive: Receive, send: Send) -> None:
        async def identify(token: str | None) -> Identity:
            identity = await self._callers.identity(token)
            try:
                self._protection.check(Access.of(identity), scope["path"])
            except HttpError as refusal:
                raise UnauthenticatedError(refusal.message) from None
            if (admission := scope.get("extensions", {}).get(ADMISSION)) is not None:
                admission[ADMIT]()
            return identity

        with QuotaUse(self._quotas, owner_of(LOCAL, scope)) as use:
            await self._pages.serve_open(plugin, scope, receive, send, identify, use)

    async def _mcp(self, request: Request, use: QuotaUse) -> None:
        method, version = request.scope["method"], text(request.headers.get(VERSION))
        if method == "POST":
            await self._post(request, version, use)
        elif method not in ("GET", "DELETE") or not (version is None or version in HANDSHAKE_REVISIONS):
            allowed = b"POST" if version in MODERN_REVISIONS else b"GET, POST, DELETE"
            raise HttpError(405, INVALID_REQUEST, f"Method not allowed: {method}", headers=[(b"allow", allowed)])
        elif await self._led(request, None, b""):
            return
        elif method == "GET":
            check_accept(request.headers, EVENTS)
            use.begin()
            await self._handshake.get(request)
        else:
            await self._handshake.delete(request)

    async def _post(self, request: Request, version: str | None, use: QuotaUse) -> None:
        headers = request.headers
        check_accept(headers, PLAIN, EVENTS)
        if not is_json(headers.get(b"content-type", b"")):
            raise HttpError(415, INVALID_REQUEST, f"Content-Type must be {PLAIN}")
        body = await self._body(request, use)
        message = messages.read(body)
        if request.access is not LOCAL:
            # The body may have taken long, and the key may have ended meanwhile: then it opens nothing.
            request = request._replace(access=await self._callers.access(headers))
        id = None if message.id is UNSET else message.id
        self._protection.check_call(request.access, message, request.scope["path"])
        check_repeated(headers, request.scope["headers"], id)
        if message.method is not UNSET and id is not None:
            use.begin()  # answers and notifications are what others wait for
        if await self._led(request, message, body):
            return
        modern = version in MODERN_REVISIONS or (SESSION not in headers and messages.says_modern(message))
        if modern:
            await self._stateless.post(request, message)
        elif version is None or version in HANDSHAKE_REVISIONS:
            await self._handshake.post(request, message)
        else:
            raise unsupported(version, id, KNOWN)

    async def _led(self, request: Request, message: Message | None, body: bytes) -> bool:
        """Whether another gateway has answered, which keeps what the request goes on with.

        Raises:
            HttpError: It was kept by one that is gone, and cannot be taken up.
        """
        session = request.headers.get(SESSION, b"").decode("latin-1")
        name = held_by(request, message)
        if not name or session in self._handshake.sessions:
            return False
        if await self._peers.lead(request, body, name):
            return True
        if not session:
            raise lost(None if message is None or message.id is UNSET else message.id)
        name = await self._handshake.holder(request)
        return name not in ("", gateway_name()) and await self._peers.lead(request, body, name)

    async def _body(self, request: Request, use: QuotaUse) -> bytes:
        """The request's body.

        Raises:
            HttpError: It is too long, all bodies of its principal are, or the client left before its end.
        """
        declared = request.headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._quotas.longest:
            raise too_long(self._quotas.longest)
        pieces, more = [], True
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise HttpError(400, INVALID_REQUEST, "The body is not complete")
            pieces.append(message.get("body", b""))
            use.take(len(pieces[-1]))
            more = message.get("more_body", False)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _fail(send: Send) -> None:
    try:
        await HttpError(500, INTERNAL_ERROR, "Internal error").reply(send)
    except RuntimeError:
        # The response had begun; the server closes the connection when it is left unfinished.
        return
