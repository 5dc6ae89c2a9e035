"""What one client sends: which era each of its requests belongs to, and who answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pml_hookspecs import EMPTY, Link, Origin, Peer, RawObject, RpcError, TransportError
from pml_kit.json_members import LONG_BYTES, meta_of, read_strictly
from pml_kit.mcp.protocol import HANDSHAKE_REVISIONS, META_ENVELOPE, METHOD_NOT_FOUND
from pml_mcp.wire.client import current_client

from .conversation import Conversation
from .exchange import LegacyExchange
from .relay import tell_servers

if TYPE_CHECKING:
    from pml_mcp.wire.upstream import Upstream

    from .conversation import Audience, ToolLists
    from .introduction import Introduction
    from .relay import LegacyMethod, OtherMethods
    from .stateless_requests import StatelessRequests
    from .tool_calls import ToolCalls

ENVELOPE = b"io.modelcontextprotocol"
"""Begins the keys of a modern request's ``_meta``; the slash behind it may be written as an escape."""
MODERN_ONLY = frozenset({"server/discover", "subscriptions/listen"})


@dataclass(frozen=True, slots=True)
class ClientParts:
    """What every client's handler uses, made once for a gateway."""

    lists: ToolLists
    audience: Audience
    call_tool: ToolCalls
    introduction: Introduction
    upstream: Upstream
    stateless: StatelessRequests
    """Requests without a handshake."""
    methods: Mapping[str, LegacyMethod]
    """Of clients with a handshake, besides those that are about the client itself and about tools."""
    others: OtherMethods
    soon: Callable[..., None]
    """Does something in the background."""
    log: Any


class ClientHandler:
    """Answers one client. Implements :class:`pml_hookspecs.Handler`."""

    def __init__(self, parts: ClientParts, link: Link, peer: Peer, left: Callable[[Conversation], None]) -> None:
        """``left`` is told when the client is gone.

        Raises:
            LookupError: There is no such endpoint.
        """
        self._parts, self._left = parts, left
        self.conversation = Conversation(link, peer, parts.lists, parts.audience, parts.soon, parts.log)
        self._methods: dict[str, LegacyMethod] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": parts.call_tool,
            **parts.methods,
        }

    async def request(self, method: str, params: RawObject, origin: Origin) -> Mapping[str, Any]:
        """Answer one request."""
        conversation = self.conversation
        if conversation.exposures is not self._parts.lists.active.exposures:
            conversation.keep_up()
        is_long = len(params.raw) > LONG_BYTES
        params = await asyncio.to_thread(read_strictly, params) if is_long else read_strictly(params)
        stands_alone = conversation.peer.stateless
        if stands_alone or ENVELOPE in params.raw:
            meta = meta_of(params)
            if stands_alone or not META_ENVELOPE.isdisjoint(meta):
                return await self._parts.stateless.request(conversation, method, params, meta, origin)
        if method in MODERN_ONLY:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method} (not in revisions with a handshake)")
        exchange = LegacyExchange(conversation, origin.link)
        current_client.set(exchange)
        answer = self._methods.get(method)
        if answer is None:
            return await self._parts.others.pass_through(method, params, exchange)
        return await answer(params, exchange)

    def notification(self, method: str, params: RawObject) -> None:
        """The end of the handshake, or something for servers; the listener takes requests back itself."""
        if method == "notifications/initialized":
            self.conversation.initialized = True
        else:
            tell_servers(self._parts.lists.servers, self.conversation, method, params)

    def closed(self, error: TransportError | None) -> None:
        """The client is gone."""
        self._left(self.conversation)

    async def _initialize(self, params: RawObject, _client: LegacyExchange) -> Mapping[str, Any]:
        asked, able = params.get("protocolVersion"), params.get("capabilities")
        protocol = asked if asked in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1]
        conversation, introduction = self.conversation, self._parts.introduction
        conversation.shook_hands(able if isinstance(able, dict) else {}, params.get("clientInfo"), protocol)
        hello = partial(self._parts.upstream.said_hello, conversation.capabilities, conversation.info, modern=False)
        said, meta = await introduction.greeting(conversation.session, hello)
        answer = {
            "protocolVersion": protocol,
            "capabilities": introduction.capabilities(conversation.session),
            "serverInfo": introduction.server_info.about(conversation.session),
            **said,
            **({"_meta": meta} if meta else {}),
        }
        hello()  # servers start behind it
        return answer

    async def _ping(self, _params: RawObject, _client: LegacyExchange) -> Mapping[str, Any]:
        return EMPTY

    async def _list_tools(self, params: RawObject, _client: LegacyExchange) -> Mapping[str, Any]:
        return (await self.conversation.list_tools(params))[0]
