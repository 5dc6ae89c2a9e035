"""The ASGI application: what is asked for, by whom, and in which era of the protocol."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from pml_hookspecs import AccessEvent
from pml_hookspecs.protocol import HANDSHAKE_REVISIONS, INTERNAL_ERROR, INVALID_REQUEST, MODERN_REVISIONS

from . import asgi_messages as messages
from .asgi_active_requests import ActiveRequests
from .asgi_handshake import Handshake
from .asgi_headers import VERSION, check_repeated, text, unsupported
from .asgi_plugin_routes import PluginRoutes
from .asgi_quotas import Quotas, QuotaUse, too_long
from .asgi_replies import (
    ADMISSION,
    ADMIT,
    JSON,
    LOCAL,
    OK,
    PLAIN_CODES,
    Access,
    HttpError,
    Receive,
    Request,
    Scope,
    Send,
    address_of,
    owner_of,
    reply,
)
from .asgi_stateless import StatelessRequests
from .callers import Callers, OpenRequests
from .security import Guard, for_page, preflight

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pml_hookspecs import Accept, AccessWatcher

    from .settings import Settings

MCP, HEALTH = "mcp", "healthz"
DEFAULT_ENDPOINT = "default"
EVENTS, PLAIN = "text/event-stream", "application/json"
NOT_LET_IN = (401, 403)
LONGEST_TARGET = 200
"""Characters of what was asked for that are reported."""
KNOWN = (*HANDSHAKE_REVISIONS, *MODERN_REVISIONS)


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
        report: AccessWatcher | None = None,
    ) -> None:
        """``report`` is told of those who are not let in."""
        self._guard, self._callers, self._log, self._report = guard, callers, log, report
        self._active_requests, self._quotas = ActiveRequests(), Quotas(settings)
        self._inside: Counter[Access] = Counter()
        """How many requests of each are being served, their bodies included that are still coming in."""
        self._handshake = Handshake(accept, settings, self._active_requests, log)
        self._stateless = StatelessRequests(accept, settings, self._active_requests, log)
        self._plugins, self._pages = _mounted(routes, log), PluginRoutes()
        callers.open = OpenRequests(self._held, self._in_use, self._expel)

    def _held(self) -> set[Access]:
        """Senders that have something open."""
        return self._handshake.sessions.held() | self._stateless.held() | self._inside.keys()

    def _in_use(self) -> set[Access]:
        """Senders whose requests, streams or sessions are in use now."""
        return self._handshake.sessions.in_use() | self._stateless.in_use() | self._pages.in_use()

    def _expel(self, access: Access) -> None:
        """End everything that was begun with a key that does not count any more."""
        self._handshake.sessions.expel(access)
        self._stateless.expel(access)
        self._pages.expel(access)

    async def close(self, drain_s: float) -> None:
        """Let requests end, within ``drain_s`` seconds, and then everything."""
        await self._active_requests.drain(drain_s)
        await self._callers.close()
        self._handshake.sessions.close()
        self._stateless.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            self._guard.check_place(headers, scope["headers"])
            origin = headers.get(b"origin")
            if origin is not None:
                send = for_page(send, origin)
                if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                    await preflight(send, headers)
                    return
            await self._route(scope, receive, send, headers)
        except HttpError as refusal:
            await self._tell(refusal, scope)
            if refusal.plain:
                await refusal.reply_plain(send)
            else:
                await refusal.reply(send)
        except Exception:
            self._log.exception("http.failed", path=scope["path"])
            await _fail(send)

    async def _tell(self, refusal: HttpError, scope: Scope) -> None:
        """Report who was not let in."""
        if refusal.status in NOT_LET_IN and self._report is not None:
            event = AccessEvent(
                kind="denied",
                target=f"{scope['method']} {scope['path']}"[:LONGEST_TARGET],
                address=address_of(scope),
                code=PLAIN_CODES[refusal.status],
                message=refusal.message,
            )
            await self._report(event)

    async def _route(self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes]) -> None:
        first, _, rest = scope["path"].lstrip("/").partition("/")
        if first == HEALTH and not rest:
            await reply(send, OK, (b'{"status":"ok"}',), (JSON,))
            return
        try:
            access = await self._callers.access(headers)
        except HttpError as refusal:
            refusal.plain = first != MCP
            raise
        if (admission := scope.get("extensions", {}).get(ADMISSION)) is not None:
            admission[ADMIT]()
        self._inside[access] += 1
        try:
            with QuotaUse(self._quotas, owner_of(access, scope)) as use:
                if first == MCP:
                    endpoint = rest.rstrip("/") or DEFAULT_ENDPOINT
                    await self._mcp(Request(scope, receive, send, headers, access, endpoint), use)
                elif first in self._plugins:
                    await self._page(first, scope, receive, send, access, use)
                else:
                    raise HttpError(404, INVALID_REQUEST, "Nothing is served at this path; MCP is at /mcp")
        finally:
            self._inside[access] -= 1
            if not self._inside[access]:
                del self._inside[access]

    async def _page(
        self, plugin: str, scope: Scope, receive: Receive, send: Send, access: Access, use: QuotaUse
    ) -> None:
        if scope["method"] != "POST":
            use.begin()
        scope.setdefault("state", {}).update(identity=access.identity(), principal=access.principal)
        await self._pages.serve(self._plugins[plugin], scope, receive, send, access, use)

    async def _mcp(self, request: Request, use: QuotaUse) -> None:
        method, version = request.scope["method"], text(request.headers.get(VERSION))
        if method == "POST":
            await self._post(request, version, use)
        elif method not in ("GET", "DELETE") or not (version is None or version in HANDSHAKE_REVISIONS):
            allowed = b"POST" if version in MODERN_REVISIONS else b"GET, POST, DELETE"
            raise HttpError(405, INVALID_REQUEST, f"Method not allowed: {method}", headers=[(b"allow", allowed)])
        elif method == "GET":
            _check_accept(request.headers, EVENTS)
            use.begin()
            await self._handshake.get(request)
        else:
            await self._handshake.delete(request)

    async def _post(self, request: Request, version: str | None, use: QuotaUse) -> None:
        headers = request.headers
        _check_accept(headers, PLAIN, EVENTS)
        if not _is_json(headers.get(b"content-type", b"")):
            raise HttpError(415, INVALID_REQUEST, f"Content-Type must be {PLAIN}")
        message = messages.read(await self._body(request, use))
        if request.access is not LOCAL:
            # The body may have taken long, and the key may have ended meanwhile: then it opens nothing.
            request = request._replace(access=await self._callers.access(headers))
        id = None if message.id is UNSET else message.id
        check_repeated(headers, request.scope["headers"], id)
        if message.method is not UNSET and id is not None:
            use.begin()  # answers and notifications are what others wait for
        modern = version in MODERN_REVISIONS or (b"mcp-session-id" not in headers and messages.says_modern(message))
        if modern:
            await self._stateless.post(request, message)
        elif version is None or version in HANDSHAKE_REVISIONS:
            await self._handshake.post(request, message)
        else:
            raise unsupported(version, id, KNOWN)

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


def _check_accept(headers: Mapping[bytes, bytes], *needed: str) -> None:
    """See that the client takes what it may get.

    Raises:
        HttpError: It does not; with status 406.
    """
    accept = headers.get(b"accept")
    # Without the header anything goes (RFC 9110, 12.5.1).
    if accept is not None and not _accepts(accept).issuperset(needed):
        raise HttpError(406, INVALID_REQUEST, f"Accept must list {' and '.join(needed)}")


@lru_cache(maxsize=64)
def _accepts(accept: bytes) -> frozenset[str]:
    listed = {item.split(";")[0].strip().lower() for item in accept.decode("latin-1").split(",")}
    return frozenset(kind for kind in (PLAIN, EVENTS) if listed & {kind, f"{kind.partition('/')[0]}/*", "*/*"})


@lru_cache(maxsize=64)
def _is_json(content_type: bytes) -> bool:
    return content_type.decode("latin-1").split(";")[0].strip().lower() == PLAIN


async def _fail(send: Send) -> None:
    try:
        await HttpError(500, INTERNAL_ERROR, "Internal error").reply(send)
    except RuntimeError:
        # The response had begun; the server closes the connection when it is left unfinished.
        return


def _mounted(routes: Mapping[str, Sequence[Any]], log: Any) -> dict[str, Any]:
    """One application per plugin that contributes routes, by the first part of their paths."""
    if not routes:
        return {}
    from starlette.applications import Starlette
    from starlette.routing import Mount

    mounted = {}
    for plugin, contributed in routes.items():
        if plugin in (MCP, HEALTH):
            log.error("http.routes_not_mounted", plugin=plugin, problem="the gateway itself is at that path")
        elif contributed:
            mounted[plugin] = Starlette(routes=[Mount(f"/{plugin}", routes=list(contributed))])
    return mounted
