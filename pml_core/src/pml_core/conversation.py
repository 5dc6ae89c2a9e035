"""One connected client: what it is told about itself, and which era each of its requests belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_hookspecs import EMPTY, Link, Origin, Peer, RawObject, RpcError, Session, TransportError, encode
from pml_hookspecs.protocol import (
    HANDSHAKE_REVISIONS,
    INVALID_REQUEST,
    META_ENVELOPE,
    METHOD_NOT_FOUND,
    MODERN_REVISIONS,
)

from .client import Asker, Client, current_client
from .exchange import LegacyExchange, ModernAtLarge
from .identities import session_of
from .introduction import about, greeting, only_server
from .lengths import ABOUT_CLIENT, bounded
from .listeners import Listeners
from .members import meta_of, read_strictly, with_member
from .modern import Modern
from .naming import name_of
from .relay import LegacyMethod, Relay
from .server_views import LOCAL, is_operator
from .tool_calls import META_INTENT, call_tool

if TYPE_CHECKING:
    from .downstream import Server
    from .gateway import Gateway

OF_TASKS, UPDATED = "notifications/tasks", "notifications/resources/updated"
ENVELOPE = b"io.modelcontextprotocol"
"""Begins the keys of a modern request's ``_meta``; the slash behind it may be written as an escape."""
MODERN_ONLY = frozenset({"server/discover", "subscriptions/listen"})
TOOLS_CHANGED = "notifications/tools/list_changed"
_Seen = tuple[str, bytes]
HINTS = 4
"""Lists that one client is told about when they change: the one without a hint, and those of its last hints."""


class Conversation:
    """Answers one client. Implements :class:`pml_hookspecs.Handler`."""

    def __init__(self, gateway: Gateway, link: Link, peer: Peer) -> None:
        self._gateway, self._link, self.peer = gateway, link, peer
        self._exposures = gateway.active.exposures
        self._view = self._exposures.view(peer)
        self.session = self._identity("", "")
        """Who asks, with the mode and the hint that the configuration says now."""
        self._listed: dict[_Seen, str] = {}
        """What the client has seen: the mark of the list by the hint, and what it could do, that it sent for it."""
        self.initialized = False
        self.capabilities: Mapping[str, Any] = {}
        """What the client said that it can do."""
        self.info: Mapping[str, Any] | None = None
        """Who the client said that it is; None before, and where it did not."""
        self.log_level: str | None = None
        self.subscribed: dict[str, tuple[Server, str]] = {}
        """Resources that a client with a handshake wants to hear of: its URI, then the server and its URI there."""
        self.askers: dict[Any, Asker] = {}
        """Progress tokens of questions that the client is answering, and who asked."""
        self.listeners = Listeners()
        self._unasked = asyncio.Lock()
        """Held by what servers tell unasked, so that it stays in order."""
        self.at_large: Client = ModernAtLarge(self) if peer.stateless else LegacyExchange(self, link)
        self.relay = Relay(gateway, self)
        self._modern = Modern(gateway, self)
        self._methods: dict[str, LegacyMethod] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            **self.relay.methods,
            **self.relay.legacy_methods,
        }

    def _identity(self, client: str, protocol: str, hint: str = "") -> Session:
        """``hint`` is the client's own; without one, its key's or its endpoint's counts."""
        return session_of(self.peer, self._view, client=client, protocol=protocol, hint=hint)

    def _keep_up(self) -> None:
        """See to it that the configuration counts as it is now.

        Raises:
            RpcError: The client's endpoint is not configured any more.
        """
        if self._exposures is not (now := self._gateway.active.exposures):
            try:
                self._view = now.view(self.peer)
            except LookupError as exc:
                raise RpcError(INVALID_REQUEST, str(exc)) from None
            self._exposures = now
            self.session = self._identity(self.session.client, self.session.protocol)

    # pml_hookspecs.Handler

    async def request(self, method: str, params: RawObject, origin: Origin) -> Mapping[str, Any]:
        """Answer one request."""
        self._keep_up()
        params = await read_strictly(params)
        stands_alone = self.peer.stateless
        if stands_alone or ENVELOPE in params.raw:
            meta = meta_of(params)
            if stands_alone or not META_ENVELOPE.isdisjoint(meta):
                answered: Mapping[str, Any] = await self._modern.request(method, params, meta, origin)
                return answered
        if method in MODERN_ONLY:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method} (not in revisions with a handshake)")
        exchange = LegacyExchange(self, origin.link)
        current_client.set(exchange)
        answer = self._methods.get(method)
        if answer is None:
            return await self.relay.pass_through(method, params, exchange)
        return await answer(params, exchange)

    def notification(self, method: str, params: RawObject) -> None:
        """The end of the handshake, or something for servers; the listener takes requests back itself."""
        if method == "notifications/initialized":
            self.initialized = True
        else:
            self.relay.heard(method, params)

    def may_hear(self, server: str, method: str, params: RawObject) -> bool:
        """Whether a notification of a server's, which belongs to no request, is for this client."""
        if method.startswith(OF_TASKS):
            return self._gateway.extensions.owns(params.get("taskId"), self.session, server)
        if is_operator(self.session):
            return True
        if method == UPDATED:
            return self._gateway.allows(name_of(server, "resource", str(params.get("uri"))), self.session)
        return self._gateway.may_know(server, self.session)

    def hear_unasked(self, server: str, params: RawObject) -> None:
        """Tell the client of a changed resource that it did not ask about, by the URI that reads it."""
        if self._gateway.links.is_plain(str(params.get("uri"))):
            self._link.notify(UPDATED, params)
        else:
            self._gateway.soon(self._tell_unasked, server, params)

    async def _tell_unasked(self, server: str, params: RawObject) -> None:
        async with self._unasked:
            current_client.set(self.at_large)
            uri = str(params.get("uri"))
            shown = await self._gateway.links.readable(server, uri, self.session)
            self._link.notify(UPDATED, params if shown == uri else with_member(params, "uri", shown))

    def closed(self, error: TransportError | None) -> None:
        """The client is gone."""
        self._gateway.left(self)

    # Life

    async def _initialize(self, params: RawObject, _client: LegacyExchange) -> Mapping[str, Any]:
        asked, able = params.get("protocolVersion"), params.get("capabilities")
        protocol = asked if asked in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1]
        self._introduced(params.get("clientInfo"), protocol)
        self.capabilities = able if isinstance(able, dict) else {}
        self.at_large = LegacyExchange(self, self._link)
        hello = partial(self._gateway.upstream.said_hello, self.capabilities, self.info, modern=False)
        said, meta = await greeting(self._gateway, self.session, hello)
        answer = {
            "protocolVersion": protocol,
            "capabilities": self._gateway.capabilities(),
            "serverInfo": about(self._gateway, self.session),
            **said,
            **({"_meta": meta} if meta else {}),
        }
        hello()  # servers start behind it
        return answer

    def met_modern(
        self, capabilities: Mapping[str, Any], info: Mapping[str, Any] | None, *, greets: bool
    ) -> None:  # fmt: skip
        """A request without a handshake says who sends it and what it can do; servers start behind one that greets."""
        if not isinstance(self.at_large, ModernAtLarge):
            self.at_large = ModernAtLarge(self)
        if capabilities != self.capabilities or not self.session.protocol:
            self.capabilities = capabilities
            if not greets:
                self._gateway.upstream.said_hello(capabilities, info, modern=True)
        if not self.session.protocol or (info is not None and _name_of(info) != self.session.client):
            self._introduced(info, MODERN_REVISIONS[-1])

    def _introduced(self, info: Any, protocol: str) -> None:
        self.info = info if isinstance(info, Mapping) else None
        client = "" if self.info is None else _name_of(self.info)
        self.session = self._identity(client, protocol)
        self._gateway.log.debug("client connected", client=client, protocol=protocol)

    async def _ping(self, _params: RawObject, _client: LegacyExchange) -> Mapping[str, Any]:
        return EMPTY

    # Tools

    async def list_tools(self, params: RawObject) -> tuple[Mapping[str, Any], bool, int]:
        """The result of ``tools/list``, whether everybody gets the same from the endpoint, and its freshness [ms]."""
        hint = bounded(meta_of(params).get(META_INTENT), "the intent")
        hint = hint if isinstance(hint, str) else ""
        session = self._with_hint(hint)
        exposure = await self._exposures.of(session)
        if exposure.whole_catalog:
            await self._gateway.servers_settled(listing=True)
        listed = await exposure.listed(session)
        self._has_seen(hint, listed.mark)
        # Where keys tell clients apart, another one may have another mode; and no list is wider than its servers say.
        alike = listed.shared and not hint and self.peer.principal == LOCAL and self._gateway.catalog.tables.one_for_all
        servers = self._gateway.servers.values()
        private = exposure.whole_catalog and any(s.tools.private or s.own_lists.private for s in servers)
        given, fresh_ms = None, 0
        if (server := only_server(self._gateway, session)) is not None:
            given = server.own_lists.given(current_client.get())
            fresh_ms = given.fresh_ms(server.settings.relist_s) if listed.as_given(given) is not None else 0
        return await exposure.tools(session, params.get("cursor"), given), alike and not private, fresh_ms

    def _with_hint(self, hint: str) -> Session:
        return self._identity(self.session.client, self.session.protocol, hint) if hint else self.session

    async def remember_list(self) -> None:
        """Know what the client sees, so that it is told when that changes."""
        self._has_seen("", (await (await self._exposures.of(self.session)).listed(self.session)).mark)

    def _has_seen(self, hint: str, mark: str) -> None:
        """A list that was seen before stays as it was then, so that its change is still told of."""
        client = current_client.get()
        seen = hint, encode((client or self.at_large).capabilities) if self.peer.stateless else b""
        self._listed[seen] = self._listed.pop(seen, mark)
        if len(self._listed) > HINTS:
            del self._listed[next((seen for seen in self._listed if seen[0]), next(iter(self._listed)))]

    def list_may_differ(self) -> None:
        """A server lists something else for this client only."""
        self._gateway.soon(self.tools_changed)

    async def tools_changed(self) -> None:
        """Tell the client when what *it* sees has changed."""
        if not self._listed:
            return
        try:
            self._keep_up()
        except RpcError:
            return  # it is told when it asks
        before = dict(self._listed)
        now = {seen: await self._mark(*seen) for seen in before}
        if now == before:
            return
        self._listed.update(now)
        self.listeners.tell(TOOLS_CHANGED)
        if self.initialized:
            self._link.notify(TOOLS_CHANGED, EMPTY)

    async def _mark(self, hint: str, able: bytes) -> str:
        client = ModernAtLarge(self, RawObject(able)) if able else self.at_large
        session, token = self._with_hint(hint), current_client.set(client)
        try:
            return (await (await self._exposures.of(session)).listed(session)).mark
        finally:
            current_client.reset(token)

    async def _list_tools(self, params: RawObject, _client: LegacyExchange) -> Mapping[str, Any]:
        return (await self.list_tools(params))[0]

    async def _call_tool(self, params: RawObject, client: LegacyExchange) -> Mapping[str, Any]:
        return await call_tool(self._gateway.dispatcher, self.session, params, client)


def _name_of(info: Mapping[str, Any]) -> str:
    name, version = (info.get(member, "") for member in ("name", "version"))
    return f"{name}/{version}"[:ABOUT_CLIENT]
