"""The way back: which client a server's request or notification belongs to.

JSON-RPC does not say which of the client's requests made a server ask something. While a client's request is being
served, everything done for it runs in its context; a server that is busy for one person only can be answered by that
person. Where that cannot be known the request is refused, rather than shown to somebody else's human.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pml_hookspecs import RawObject, RpcError

from .client import NO_CLIENT, Client, ConnectedClient

HELLO_S = 1.0
"""Longest that servers wait for the one client to say what it can do."""


class Callers:
    """The clients that one server is working for right now."""

    def __init__(self) -> None:
        self._requests: dict[object, dict[Client, int]] = {}

    def begin(self, client: Client) -> None:
        """A request is on its way for ``client``."""
        requests = self._requests.setdefault(client.person, {})
        requests[client] = requests.get(client, 0) + 1

    def end(self, client: Client) -> None:
        """It was answered, or given up."""
        requests = self._requests[client.person]
        requests[client] -= 1
        if not requests[client]:
            del requests[client]
            if not requests:
                del self._requests[client.person]

    def __iter__(self) -> Iterator[Client]:
        """Of each person, the request that began last."""
        return iter([next(reversed(requests)) for requests in self._requests.values()])

    def __len__(self) -> int:
        """How many people."""
        return len(self._requests)


def _who_wait(clients: tuple[Client, ...]) -> tuple[Client, ...]:
    """Without those that are away while the same key waits for an answer elsewhere: they may never come back."""
    here = {_key_of(client) for client in clients if not client.away}
    return tuple(client for client in clients if not client.away or _key_of(client) not in here)


def _key_of(client: Client) -> tuple[str, str]:
    peer = client.conversation.peer
    return peer.principal, peer.access_key


class Hello(NamedTuple):
    """How the one client introduced itself."""

    modern: bool
    capabilities: Mapping[str, Any]
    info: Mapping[str, Any] | None = None
    """Its ``clientInfo``; None where servers are told of the gateway, which stands for several."""


class Upstream:
    """All connected clients, as servers see them."""

    def __init__(self, conversations: Collection[ConnectedClient], *, one_client: bool) -> None:
        """``one_client``: there is and will be exactly one, so servers are told what it can do."""
        self._conversations = conversations
        self._hello: asyncio.Future[Hello] | None = None
        self.one_client = one_client
        self._silent = False
        """Whether the one client was waited for in vain; nobody waits for it once more."""

    def said_hello(self, capabilities: Mapping[str, Any], info: Mapping[str, Any] | None, *, modern: bool) -> None:
        """The client told what it can do, and who it is."""
        future = self._hello_future()
        if not future.done():
            future.set_result(Hello(modern, capabilities, info))

    async def hello(self) -> Hello:
        """What servers are told of their client: the one client's own words, or nothing with several."""
        if not self.one_client:
            return Hello(modern=False, capabilities={})
        future = self._hello_future()
        if not future.done() and not self._silent:
            await asyncio.wait([future], timeout=HELLO_S)
            self._silent = not future.done()
        return future.result() if future.done() else Hello(modern=False, capabilities={})

    def _hello_future(self) -> asyncio.Future[Hello]:
        if self._hello is None:
            self._hello = asyncio.get_running_loop().create_future()
        return self._hello

    def client_for(self, callers: Callers) -> Client:
        """The client that a server with these callers speaks to.

        Raises:
            RpcError: There is none, or more than one.
        """
        candidates: tuple[Client, ...] = tuple(callers) or tuple(c.at_large for c in self._conversations)
        candidates = _who_wait(candidates)
        if len(candidates) == 1:
            return candidates[0]
        why = "no client is connected" if not candidates else "it cannot be known for which of several clients this is"
        raise RpcError(NO_CLIENT, f"The gateway cannot ask a client: {why}.")

    def clients(self) -> Iterator[Client]:
        """All clients, between their requests."""
        return iter([conversation.at_large for conversation in self._conversations])

    def at_large(self, conversation: object) -> Client | None:
        """A client between its requests; None when it has left."""
        return next((known.at_large for known in self._conversations if known is conversation), None)

    def tell(self, server: str, callers: Callers, method: str, params: RawObject) -> None:
        """Hand a notification to the clients that a server works for, or to all when it works for none.

        When it works for several principals nobody gets it: it cannot be known which of them it tells of.
        """
        if len(callers):
            clients = tuple(callers)
            if len({client.conversation.peer.principal for client in clients}) == 1:
                for client in clients:
                    client.tell(method, params)
        else:
            self.tell_all(server, method, params)

    def tell_all(self, server: str, method: str, params: RawObject, *, unasked: bool = False) -> None:
        """Hand a server's notification to every client that may hear it; ``unasked`` as for :meth:`Client.tell`."""
        for conversation in tuple(self._conversations):
            if conversation.may_hear(server, method, params):
                conversation.at_large.tell(method, params, unasked=unasked, server=server)
