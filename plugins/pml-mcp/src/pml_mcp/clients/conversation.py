"""One connected client: who it is, which lists it has seen, and what it hears of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_catalog.lengths import ABOUT_CLIENT, bounded
from pml_catalog.naming import name_of
from pml_catalog.server_views import LOCAL, is_operator
from pml_hookspecs import EMPTY, Link, Peer, RawObject, RpcError, Session, encode
from pml_kit.json_members import meta_of, with_member
from pml_kit.mcp.protocol import INVALID_REQUEST, LIST_CHANGED, MODERN_REVISIONS, UPDATED
from pml_mcp.wire.client import Client, ConnectedClient, current_client
from pml_mcp.wire.sessions import session_of

from .exchange import LegacyExchange, ModernAtLarge
from .tool_calls import META_INTENT

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_mcp.ports import ActiveConfig
    from pml_mcp.servers import Server
    from pml_mcp.servers.extensions import Allows, Extensions
    from pml_mcp.servers.links import Links

    from .introduction import ServerInfo

OF_TASKS = "notifications/tasks"
_Seen = tuple[str, bytes]
HINTS = 4
"""Lists that one client is told about when they change: the one without a hint, and those of its last hints."""


@dataclass(frozen=True, slots=True)
class ToolLists:
    """Where the lists of tools come from that clients are given."""

    active: ActiveConfig
    server_info: ServerInfo
    catalog: LiveCatalog
    servers: Mapping[str, Server]
    settled: Callable[[], Awaitable[None]]
    """Waits, within a bound, for all that a list of the whole catalog needs."""


@dataclass(frozen=True, slots=True)
class Audience:
    """Who hears what servers tell."""

    extensions: Extensions
    links: Links
    allows: Allows
    """Whether a session may have what patterns call by a name."""
    may_know: Callable[[str, Session], bool]
    """Whether a session may have anything of a server."""

    def has(self, session: Session, server: str, method: str, params: RawObject) -> bool:
        """Whether a notification of a server's, which belongs to no request, is for ``session``."""
        if method.startswith(OF_TASKS):
            return self.extensions.owns(params.get("taskId"), session, server)
        if is_operator(session):
            return True
        if method == UPDATED:
            return self.allows(name_of(server, "resource", str(params.get("uri"))), session)
        return self.may_know(server, session)


class Conversation(ConnectedClient):
    """Knows one client."""

    def __init__(
        self,
        link: Link,
        peer: Peer,
        lists: ToolLists,
        audience: Audience,
        soon: Callable[..., None],
        log: Any,
    ) -> None:
        """``soon`` does something in the background.

        Raises:
            LookupError: There is no such endpoint.
        """
        self._link, self._lists, self._audience, self._soon, self._log = link, lists, audience, soon, log
        self.exposures = lists.active.exposures
        """What clients are shown, as it counts for this one."""
        self._view = self.exposures.view(peer)
        super().__init__(peer, session_of(peer, self._view, client=""))
        self._listed: dict[_Seen, str] = {}
        """What the client has seen: the mark of the list by the hint, and what it could do, that it sent for it."""
        self._unasked = asyncio.Lock()
        """Held by what servers tell unasked, so that it stays in order."""
        self.at_large: Client = ModernAtLarge(self) if peer.stateless else LegacyExchange(self, link)

    def _identity(self, client: str, protocol: str, hint: str = "") -> Session:
        """``hint`` is the client's own; without one, its key's or its endpoint's counts."""
        return session_of(self.peer, self._view, client=client, protocol=protocol, hint=hint)

    def keep_up(self) -> None:
        """See to it that the configuration counts as it is now.

        Raises:
            RpcError: The client's endpoint is not configured any more.
        """
        if self.exposures is not (now := self._lists.active.exposures):
            try:
                self._view = now.view(self.peer)
            except LookupError as exc:
                raise RpcError(INVALID_REQUEST, str(exc)) from None
            self.exposures = now
            self.session = self._identity(self.session.client, self.session.protocol)

    # Who it is

    def shook_hands(self, capabilities: Mapping[str, Any], info: Any, protocol: str) -> None:
        """The client said who it is and what it can do, once for all that follows."""
        self._introduced(info, protocol)
        self.capabilities = capabilities
        self.at_large = LegacyExchange(self, self._link)

    def met_modern(self, capabilities: Mapping[str, Any], info: Mapping[str, Any] | None) -> bool:
        """A request without a handshake says who sends it and what it can do; whether that was not known."""
        if not isinstance(self.at_large, ModernAtLarge):
            self.at_large = ModernAtLarge(self)
        new = capabilities != self.capabilities or not self.session.protocol
        if new:
            self.capabilities = capabilities
        if not self.session.protocol or (info is not None and _name_of(info) != self.session.client):
            self._introduced(info, MODERN_REVISIONS[-1])
        return new

    def _introduced(self, info: Any, protocol: str) -> None:
        self.info = info if isinstance(info, Mapping) else None
        client = "" if self.info is None else _name_of(self.info)
        self.session = self._identity(client, protocol)
        self._log.debug("client connected", client=client, protocol=protocol)

    # What servers tell

    def may_hear(self, server: str, method: str, params: RawObject) -> bool:
        """Whether a notification of a server's, which belongs to no request, is for this client."""
        return self._audience.has(self.session, server, method, params)

    def hear_unasked(self, server: str, params: RawObject) -> None:
        """Tell the client of a changed resource that it did not ask about, by the URI that reads it."""
        if self._audience.links.is_plain(str(params.get("uri"))):
            self._link.notify(UPDATED, params)
        else:
            self._soon(self._tell_unasked, server, params)

    async def _tell_unasked(self, server: str, params: RawObject) -> None:
        async with self._unasked:
            current_client.set(self.at_large)
            uri = str(params.get("uri"))
            shown = await self._audience.links.readable(server, uri, self.session)
            self._link.notify(UPDATED, params if shown == uri else with_member(params, "uri", shown))

    # Tools

    async def list_tools(self, params: RawObject) -> tuple[Mapping[str, Any], bool, int]:
        """The result of ``tools/list``, whether everybody gets the same from the endpoint, and its freshness [ms]."""
        hint = bounded(meta_of(params).get(META_INTENT), "the intent")
        hint = hint if isinstance(hint, str) else ""
        session = self._with_hint(hint)
        exposure = await self.exposures.of(session)
        if exposure.whole_catalog:
            await self._lists.settled()
        listed = await exposure.listed(session)
        self._has_seen(hint, listed.mark)
        # Where keys tell clients apart, another one may have another mode; and no list is wider than its servers say.
        alike = listed.shared and not hint and self.peer.principal == LOCAL and self._lists.catalog.tables.one_for_all
        servers = self._lists.servers.values()
        private = exposure.whole_catalog and any(s.tools.private or s.client_lists.private for s in servers)
        given, fresh_ms = None, 0
        if (server := self._lists.server_info.only_server(session)) is not None:
            given = server.client_lists.given(current_client.get())
            fresh_ms = given.fresh_ms(server.settings.relist_s) if listed.as_given(given) is not None else 0
        return await exposure.tools(session, params.get("cursor"), given), alike and not private, fresh_ms

    def _with_hint(self, hint: str) -> Session:
        return self._identity(self.session.client, self.session.protocol, hint) if hint else self.session

    async def remember_list(self) -> None:
        """Know what the client sees, so that it is told when that changes."""
        self._has_seen("", (await (await self.exposures.of(self.session)).listed(self.session)).mark)

    def _has_seen(self, hint: str, mark: str) -> None:
        """A list that was seen before stays as it was then, so that its change is still told of."""
        client = current_client.get()
        seen = hint, encode((client or self.at_large).capabilities) if self.peer.stateless else b""
        self._listed[seen] = self._listed.pop(seen, mark)
        if len(self._listed) > HINTS:
            del self._listed[next((seen for seen in self._listed if seen[0]), next(iter(self._listed)))]

    def list_may_differ(self) -> None:
        """A server lists something else for this client only."""
        self._soon(self.tools_changed)

    async def tools_changed(self) -> None:
        """Tell the client when what *it* sees has changed."""
        if not self._listed:
            return
        try:
            self.keep_up()
        except RpcError:
            return  # it is told when it asks
        before = dict(self._listed)
        now = {seen: await self._mark(*seen) for seen in before}
        if now == before:
            return
        self._listed.update(now)
        self._tell_changed()

    def told_of_tools(self, server: str) -> None:
        """A server says that its tools have changed: whoever is shown it alone is told at once, as without a gateway.

        Until the client asks for its list again, which waits for the server's, it need not be told that this changes.
        """
        alone = self._lists.server_info.shown_alone(self.session)
        if alone is not None and alone.name == server:
            self._listed.clear()
            self._tell_changed()

    async def told_elsewhere(self, server: str) -> None:
        """Another gateway has another list of a server's tools now, which the client may be given next."""
        if (
            self.may_hear(server, LIST_CHANGED["tools"], EMPTY)
            and (await self.exposures.of(self.session)).whole_catalog
        ):
            self.listeners.tell(LIST_CHANGED["tools"])

    def _tell_changed(self) -> None:
        self.listeners.tell(LIST_CHANGED["tools"])
        if self.initialized:
            self._link.notify(LIST_CHANGED["tools"], EMPTY)

    async def _mark(self, hint: str, able: bytes) -> str:
        client = ModernAtLarge(self, RawObject(able)) if able else self.at_large
        session, token = self._with_hint(hint), current_client.set(client)
        try:
            return (await (await self.exposures.of(session)).listed(session)).mark
        finally:
            current_client.reset(token)


def _name_of(info: Mapping[str, Any]) -> str:
    name, version = (info.get(member, "") for member in ("name", "version"))
    return f"{name}/{version}"[:ABOUT_CLIENT]
