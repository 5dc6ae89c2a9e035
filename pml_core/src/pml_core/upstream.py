"""The way back: which client a server's request or notification belongs to.

JSON-RPC does not say which of the client's requests made a server ask something. While a client's request is being
served, everything done for it runs in its context; a server that is busy for one client only can be answered by that
client. Where that cannot be known the request is refused, rather than shown to somebody else's human.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RawObject, RpcError

if TYPE_CHECKING:
    from .conversation import Conversation

NO_CLIENT = -31999
"""JSON-RPC code of our own, outside the range that JSON-RPC and MCP reserve: there is no client to ask, or it cannot
be known which."""
HELLO_S = 1.0
"""Longest that servers wait for the one client to say what it can do."""

current_client: ContextVar[Conversation | None] = ContextVar("current_client", default=None)
"""The client whose request is being served in this context; None for the gateway's own work."""


class Callers:
    """The clients that one server is working for right now."""

    def __init__(self) -> None:
        self._counts: dict[Conversation, int] = {}

    def begin(self, client: Conversation) -> None:
        """A request is on its way for ``client``."""
        self._counts[client] = self._counts.get(client, 0) + 1

    def end(self, client: Conversation) -> None:
        """It was answered, or given up."""
        left = self._counts[client] - 1
        if left:
            self._counts[client] = left
        else:
            del self._counts[client]

    def __iter__(self) -> Iterator[Conversation]:
        return iter(tuple(self._counts))

    def __len__(self) -> int:
        return len(self._counts)


class Upstream:
    """All connected clients, as servers see them."""

    def __init__(self, conversations: set[Conversation], *, one_client: bool) -> None:
        """``one_client``: there is and will be exactly one, so servers are told what it can do."""
        self._conversations = conversations
        self._hello: asyncio.Future[Mapping[str, Any]] | None = None
        self._one_client = one_client

    def said_hello(self, capabilities: Mapping[str, Any]) -> None:
        """The client told what it can do."""
        future = self._hello_future()
        if not future.done():
            future.set_result(capabilities)

    async def capabilities(self) -> Mapping[str, Any]:
        """What servers are told that their client can do: the one client's own words, or nothing with several."""
        if not self._one_client:
            return {}
        done, _ = await asyncio.wait([self._hello_future()], timeout=HELLO_S)
        return done.pop().result() if done else {}

    def _hello_future(self) -> asyncio.Future[Mapping[str, Any]]:
        if self._hello is None:
            self._hello = asyncio.get_running_loop().create_future()
        return self._hello

    def client_for(self, callers: Callers) -> Conversation:
        """The client that a server with these callers speaks to.

        Raises:
            RpcError: There is none, or more than one.
        """
        candidates = tuple(callers) or tuple(self._conversations)
        if len(candidates) == 1:
            return candidates[0]
        why = "no client is connected" if not candidates else "it cannot be known for which of several clients this is"
        raise RpcError(NO_CLIENT, f"The gateway cannot ask a client: {why}.")

    def tell(self, callers: Callers, method: str, params: RawObject) -> None:
        """Hand a notification to the clients that a server works for, or to all when it works for none."""
        for conversation in tuple(callers) or tuple(self._conversations):
            conversation.tell(method, params)

    def tell_all(self, method: str, params: RawObject) -> None:
        """Hand a notification to every client."""
        for conversation in tuple(self._conversations):
            conversation.tell(method, params)
